"""Hosts: several hosts on one machine, made of Linux namespaces. Needs root.

    with Hosts(3) as hosts:
        hosts.run("node2", "hostname")
        hosts.mpirun("python3", "train.py", ranks_per_host=2)

Every host has its own name, network interface (eth0), process ids, monotonic clock, boot id, disk (`hosts.local`), /tmp
and /dev/shm. The root file system and `hosts.shared` are the same on all of them. One more host, the login node, runs
mpirun. The network connects only the hosts.

The kernel cleans up. All processes are in a PID namespace, whose first process ends when the pipe to its owner closes,
however the owner ended. Processes, interfaces and mounts disappear with the namespaces. The owner holds a lock on its
folder; the next Hosts removes the folders of dead owners.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Optional, Union

NETWORK = "10.53.0.0/16"  # only inside the namespaces
LOGIN = "login"
CLOCK_STEP_S = 7000  # difference between the monotonic clocks of neighbours
NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")
REPOSITORY = Path(__file__).absolute().parents[2]
# Longer than anything here takes on a busy machine.
PATIENCE_S = 600
RUN_OPTIONS = {"capture_output": True, "text": True, "timeout": PATIENCE_S, "check": False, "stdin": subprocess.DEVNULL}
SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt

# Common to the login node and the hosts. Arguments: NAME ADDRESS FOLDER, then directories to keep visible below /tmp.
# Prints the process id as its starter sees it: /proc is still the starter's when it is read.
COMMON = """
set -e
read -r number rest </proc/self/stat
name=$1 address=$2 folder=$3
shift 2
"""

OWN_SYSTEM = """
mount -t proc proc /proc
mount -t tmpfs tmpfs "$folder/tmp"
chmod 1777 "$folder/tmp"
for kept in "$@"; do
  below=${kept#/tmp/}
  if [ "$below" != "$kept" ]; then
    mkdir -p "$folder/tmp/$below"
    mount --rbind "$kept" "$folder/tmp/$below"
  fi
done
mount --move "$folder/tmp" /tmp
mount -t tmpfs tmpfs /dev/shm
echo "$name" >/proc/sys/kernel/hostname
ip link set lo up
"""

# Waits until the owner closes its end of the pipe. Orphans are reaped because SIGCHLD is ignored, which dash cannot
# do.
WAIT = """
echo "$number"
exec env --ignore-signal=CHLD cat
"""

LOGIN_NODE = COMMON + """
[ -e /etc/hosts ] || touch /etc/hosts
mount --bind "$folder/etc_hosts" /etc/hosts
ip link add name switch type bridge
ip address add "$address/16" dev switch
ip link set switch up
""" + OWN_SYSTEM + WAIT

HOST = COMMON + """
mount --bind "$folder/disks/$name" "$folder/local"
""" + OWN_SYSTEM + """
cat /proc/sys/kernel/random/uuid >/tmp/boot_id
mount --bind /tmp/boot_id /proc/sys/kernel/random/boot_id
# Announce this host to neighbours that looked for it while it was off.
echo 1 >/proc/sys/net/ipv4/conf/all/arp_notify
""" + WAIT

# Run on the login node. Arguments: NAME ADDRESS, the id of the host's first process and the last byte of the address.
# The hardware address stays the same when the host restarts, because its neighbours remember it.
CONNECT = """
set -e
ip link add "$1" type veth peer name eth0 address "02:00:00:00:00:$4" netns "$3"
ip link set "$1" master switch up
nsenter -t "$3" --net ip address add "$2/16" dev eth0
nsenter -t "$3" --net ip link set eth0 up
"""

# Like ssh: HOST COMMAND..., with a clean environment. Run on the login node; mpirun starts its daemons with it. Like
# ssh, it does not notice when its host loses power.
REMOTE_SHELL = """#!/bin/sh
host=$1
number=$(cat "{folder}/pids/$host") || {{ echo "no host $host" >&2; exit 255; }}
shift
nsenter -t "$number" --mount --uts --ipc --net --pid --time -- env -i PATH="$PATH" HOME=/root sh -c "$*"
status=$?
[ "$(cat "{folder}/pids/$host" 2>/dev/null)" = "$number" ] || exec sleep 1000000
exit $status
"""

# Argument: an address. Ends with 0 if it answers. Nothing listens at the port: a refusal is an answer.
REACH = """
import socket, sys
sys.exit(socket.socket().connect_ex((sys.argv[1], 9)) not in (0, 111))
"""


def why_not() -> Optional[str]:
    """Why hosts are not possible on this machine; None if they are."""
    if os.geteuid() != 0:
        return "the hosts are made of namespaces, which needs root"
    for tool in ("ip", "unshare", "nsenter", "mount"):
        if shutil.which(tool) is None:
            return f"'{tool}' is missing (Debian: iproute2, util-linux, mount)"
    # Try a bridge and a mount, as on the login node: a container may refuse either.
    done = subprocess.run(["unshare", *NAMESPACES, "--time", "--fork", "sh", "-ec",
                           "mount -t proc proc /proc; ip link add name switch type bridge"],
                          capture_output=True, text=True, check=False)
    return f"this machine refuses namespaces: {done.stderr.strip()}" if done.returncode != 0 else None


class Hosts:
    """See above. `names` are node1, node2, ... The disks have `disk_bytes` each and survive `kill`."""

    def __init__(self, count: int, disk_bytes: int = 256 << 20) -> None:
        self.names = [f"node{i + 1}" for i in range(count)]
        self.folder = self._take_folder()
        self.shared = self.folder / "shared"
        self.local = self.folder / "local"
        self._disk_bytes = disk_bytes
        self._first: dict[str, subprocess.Popen] = {}  # by name: holds the pipe of the first process
        self._kept = [str(self.folder), str(REPOSITORY), os.environ.get("MILLRACE_BUILD", str(REPOSITORY))]

    def address(self, name: str) -> str:
        return "10.53.0.1" if name == LOGIN else f"10.53.1.{self.names.index(name) + 1}"

    def clock_offset_s(self, name: str) -> int:
        """How far the monotonic clock of the host is ahead of this machine's."""
        return (self.names.index(name) + 1) * CLOCK_STEP_S

    # ---- running commands ----------------------------------------------------------------------------------

    def command(self, name: str, *command: str) -> list[str]:
        """The command line that runs a command on a host, in `shared`, with our environment."""
        enter = ["nsenter", "-t", str(self._number_of_login), *NAMESPACES, "--"]
        if name != LOGIN:
            number = (self.folder / "pids" / name).read_text().strip()
            enter += ["nsenter", "-t", number, *NAMESPACES, "--time", "--"]
        return [*enter, "env", f"--chdir={self.shared}", *command]

    def run(self, name: str, *command: str, **options) -> subprocess.CompletedProcess:
        """Runs a command on a host. `options` are those of subprocess.run."""
        return subprocess.run(self.command(name, *command), **{**RUN_OPTIONS, **options})

    def mpirun_command(self, *command: str, ranks_per_host: int = 1, hosts: Optional[list[str]] = None,
                       environment: Optional[dict] = None, options: tuple = ()) -> list[str]:
        """The command line that runs ranks on the hosts, host by host, in `shared`. Of the environment, they get only
        `environment`. `options` are those of mpirun."""
        names = hosts or self.names
        exports = [part for name, value in (environment or {}).items() for part in ("-x", f"{name}={value}")]
        mca = {"plm": "rsh", "plm_rsh_agent": str(self.folder / "rsh"), "oob_tcp_if_include": NETWORK,
               "btl_tcp_if_include": NETWORK, "btl": "self,vader,tcp", "pml": "ob1", "mpi_yield_when_idle": "1"}
        return self.command(
            LOGIN, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun",
            "-np", str(len(names) * ranks_per_host), "--map-by", "slot", "--bind-to", "none",
            "--host", ",".join(f"{name}:{ranks_per_host}" for name in names),
            *(part for name, value in mca.items() for part in ("--mca", name, value)), *exports, *options, *command)

    def mpirun(self, *command: str, ranks_per_host: int = 1, hosts: Optional[list[str]] = None,
               environment: Optional[dict] = None, options: tuple = ()) -> subprocess.CompletedProcess:
        """Runs ranks on the hosts; see mpirun_command."""
        return subprocess.run(self.mpirun_command(*command, ranks_per_host=ranks_per_host, hosts=hosts,
                                                  environment=environment, options=options), **RUN_OPTIONS)

    # ---- failures ----------------------------------------------------------------------------

    def cut(self, name: str) -> None:
        """Cuts the host's cable: packets are lost without an error."""
        self._at_login("ip", "link", "set", name, "down")

    def reconnect(self, name: str) -> None:
        """Mends the cable. Returns when the host can be reached: what asked for an address while the cable was cut may still
        fail with "no route to host" for a moment, and mpirun does not try again."""
        self._at_login("ip", "link", "set", name, "up")
        for other in (LOGIN, *self.names):
            if other == LOGIN or (self.folder / "pids" / other).exists():
                self.run(other, "ip", "neigh", "flush", "all")
        wait_until(lambda: self.run(name, "python3", "-c", REACH, self.address(LOGIN)).returncode == 0, f"the way to {name}")

    def kill(self, name: str) -> None:
        """Switches the power off: the other hosts get nothing more from it. Its disk stays."""
        self.cut(name)
        (self.folder / "pids" / name).unlink()
        self._end(name)
        # The interface disappears with its namespace, which may take the kernel a moment.
        self._at_login("sh", "-c", f"ip link delete {name} 2>/dev/null || true")

    def start(self, name: str) -> None:
        """Starts a host that was killed."""
        offset = str(self.clock_offset_s(name))
        number = self._begin(name, [
            *self.command(LOGIN), "unshare", *NAMESPACES, "--time", "--monotonic", offset, "--boottime", offset,
            "--kill-child", "sh", "-c", HOST, "sh", name, self.address(name), *self._kept])
        self._at_login("sh", "-c", CONNECT, "sh", name, self.address(name), str(number),
                       f"{self.names.index(name) + 1:02x}")
        (self.folder / "pids" / name).write_text(f"{number}\n")

    # ---- start and end ------------------------------------------------------------------------------

    def __enter__(self) -> "Hosts":
        try:
            for part in ("shared", "local", "tmp", "pids", "disks"):
                (self.folder / part).mkdir()
            lines = [f"{self.address(name)} {name}" for name in (LOGIN, *self.names)]
            (self.folder / "etc_hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
            agent = self.folder / "rsh"
            agent.write_text(REMOTE_SHELL.format(folder=self.folder))
            agent.chmod(0o755)
            self._number_of_login = self._begin(LOGIN, [
                "unshare", *NAMESPACES, "--kill-child", "sh", "-c", LOGIN_NODE, "sh", LOGIN, self.address(LOGIN),
                *self._kept])
            for name in self.names:
                disk = self.folder / "disks" / name
                disk.mkdir()
                self._at_login("mount", "-t", "tmpfs", "-o", f"size={self._disk_bytes}", "tmpfs", str(disk))
                self.start(name)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def close(self) -> None:
        for name in reversed(list(self._first)):
            self._end(name)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def _take_folder(self) -> Path:
        """Makes a folder that is locked as long as this process lives. Removes the folders of dead owners."""
        base = Path(tempfile.gettempdir()) / "millrace-hosts"
        base.mkdir(mode=0o700, exist_ok=True)
        if base.is_symlink() or base.stat().st_uid != os.geteuid():
            raise PermissionError(f"{base} belongs to another user; remove it")
        with open(base / "lock", "w", encoding="utf-8") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            for folder in base.iterdir():
                if folder.is_dir() and _has_no_owner(folder):
                    shutil.rmtree(folder, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(dir=base, prefix=""))
            folder.chmod(0o755)
            self._lock = open(folder / "lock", "w", encoding="utf-8")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        return folder

    def _begin(self, name: str, command: list[str]) -> int:
        """Starts the first process of a host. Returns its id, as its starter sees it."""
        first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 start_new_session=True)
        self._first[name] = first
        line = first.stdout.readline()
        if not line:
            raise OSError(f"{name} could not be started: {first.stderr.read().strip()}")
        return int(line)

    def _end(self, name: str) -> None:
        first = self._first.pop(name)
        first.stdin.close()
        first.wait()
        first.stdout.close()
        first.stderr.close()

    def _at_login(self, *command: str) -> None:
        done = self.run(LOGIN, *command)
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def _has_no_owner(folder: Path) -> bool:
    try:
        with open(folder / "lock", "r+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False


def begin(test: Union[unittest.TestCase, type], context: AbstractContextManager) -> Any:
    """Enters a context that ends with the test or, for a class, with its last test. Like enterContext of Python 3.11."""
    entered = context.__enter__()
    leave = test.addClassCleanup if isinstance(test, type) else test.addCleanup
    leave(context.__exit__, None, None, None)
    return entered


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Polls the condition. `what` is for the error message."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {PATIENCE_S} s for {what}")
        time.sleep(0.02)


def run_tests() -> None:
    """Calls unittest.main() if hosts are possible. Otherwise prints why not, and exits with ctest's code for skipped tests."""
    reason = why_not()
    if reason is not None:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main()
