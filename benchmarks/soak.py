#!/usr/bin/env python3
"""A soak of the store: jobs on three emulated hosts whose services, programs, cables and disks fail every few seconds.

    MILLRACE_BUILD=build/release benchmarks/soak.py [--minutes 60] [--seed N] [--round N] [--setting WORD...] [--faults NAME...]

A round is a job of half a minute: a store on three hosts; on each of them a program that reads the dataset in random order
and one that writes rotating checkpoints; on one a loader of the Python package; and some of them traced. Then everything is
ended as a user would end it, or killed, and the round counts

    wrong   other bytes than those of the dataset, or of a checkpoint; or `latest` names a checkpoint that is not there
    lost    a checkpoint that `store flush --wait` or the end of the job had called durable is not in --save
    hang    a command or a call took over 30 s, not counting the time for which we had stopped processes
    leak    a process, descriptor, socket, shared memory or temporary file that is still there
    error   a program or a command failed where the guide does not allow it

Errors that the guide allows are counted by kind: ENOSPC for a writer while a disk is full, EIO for a reader if there is no
origin. Buffers that a job leaves must be named by the next one, and saved by `store flush --left`. The seed replays the
choices, but not the timing. Needs root, Open MPI and numpy (tests/cluster/hosts.py). Exit code 1: something was wrong.
"""

import argparse
import collections
import errno
import glob
import hashlib
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

REPOSITORY = Path(__file__).absolute().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests" / "cluster"))
import hosts as cluster  # noqa: E402  pylint: disable=wrong-import-position
from hosts import LOGIN, NETWORK, Hosts  # noqa: E402  pylint: disable=wrong-import-position

BUILD = Path(os.environ.get("MILLRACE_BUILD", REPOSITORY / "build" / "release")).absolute()
MILLRACE = str(BUILD / "bin" / "millrace")
PYTHON = "/usr/bin/python3"
ROOT = "/data/set"
DISK_BYTES = 96 << 20  # of --local of each host, and of --save
HANG_S = 30
FAULT_S = 6  # how long one lasts at most
FULL_GRACE_S = 25  # after a full disk: a queue that has failed is tried again every 10 s, and a call may wait for it
KEPT_CHECKPOINTS = 8
# The choices of a round; a word that is there twice is twice as likely.
SETTINGS = {"mode": ("default", "fast"), "save": ("buffer", "buffer", "plain"), "source": ("origin", "origin", "alone"),
            "start": ("run", "up"), "end": ("down", "down", "kill", "full"), "latest": ("file", "link"),
            "room": ("ample", "ample", "little")}
# How likely each is.
FAULTS = {"kill_reader": 2, "kill_writer": 2, "kill_loader": 1, "kill_tracer": 1, "kill_service": 2, "stop_program": 2,
          "stop_service": 3, "cut_cable": 3, "fill_local": 2, "fill_save": 2}
PROBLEMS = ("wrong", "lost", "hang", "leak", "error")


# ---- the programs of a job: this file, run with `program KIND` -----------------------------------------------------------


class Report:
    """Lines of JSON, each written by one call, so that a program may be killed at any moment."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.say(pid=os.getpid(), parent=os.getppid())

    def say(self, **what: Any) -> None:
        os.write(self.fd, (json.dumps({"at": time.time(), **what}) + "\n").encode())

    def timed(self, what: str, call: Callable) -> Any:
        begin = time.time()
        try:
            return call()
        finally:
            if time.time() - begin > HANG_S / 2:
                self.say(slow=what, begin=begin)


def whole(path: str, _: random.Random) -> bytes:
    return Path(path).read_bytes()


def pieces(path: str, choice: random.Random) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        found, step = bytearray(), choice.choice((511, 4096, 100_000, 1 << 20))  # bytes would be copied for each piece
        while more := os.pread(fd, step, len(found)):
            found += more
        return bytes(found)
    finally:
        os.close(fd)


def mapped(path: str, _: random.Random) -> bytes:
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        return bytes(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if length else b""


def read_dataset(report: Report, job: argparse.Namespace, is_over: Callable, choice: random.Random) -> None:
    wanted = json.loads(Path(job.sums).read_text())
    reads = size = 0
    while not is_over():
        listed = {os.path.relpath(os.path.join(at, name), ROOT) for at, _, names in os.walk(ROOT) for name in names}
        listed -= {path for path in listed if path.startswith("ckpt/") or path == "fill"}
        if listed != set(wanted):
            report.say(wrong="the listing", differs=sorted(listed ^ set(wanted))[:5])
        for path in choice.sample(sorted(wanted), len(wanted)):
            if is_over():
                break
            read = choice.choice((whole, whole, pieces, mapped))
            try:
                data = report.timed(f"reading {path}", lambda: read(f"{ROOT}/{path}", choice))
            except OSError as error:
                report.say(error=error.errno, on=path)
                time.sleep(0.05)
                continue
            if hashlib.md5(data).hexdigest() != wanted[path]:
                report.say(wrong=path, bytes_read=len(data), by=read.__name__)
            reads, size = reads + 1, size + len(data)
            if reads % 50 == 0:
                report.say(reads=reads, bytes=size)
            time.sleep(0.002)
    report.say(reads=reads, bytes=size)


def load_samples(report: Report, job: argparse.Namespace, is_over: Callable, choice: random.Random) -> None:
    import millrace  # pylint: disable=import-outside-toplevel
    wanted = [digest for path, digest in json.loads(Path(job.sums).read_text()).items() if path.startswith("raw/")]
    reads = 0

    def load_epoch(loader: Any) -> None:
        nonlocal reads
        left = list(wanted)
        for batch in loader:
            for row in batch[0] if isinstance(batch, (tuple, list)) else batch:
                digest = hashlib.md5(row.tobytes()).hexdigest()
                if digest in left:
                    left.remove(digest)
                else:
                    report.say(wrong="a sample", digest=digest)
                reads += 1
            time.sleep(0.01)
            if is_over():
                return
        if left:
            report.say(wrong="an epoch", missing=len(left))

    while not is_over():
        try:
            data = millrace.RawFolder(f"{ROOT}/raw", shape=(4096,))
            loader = millrace.DataLoader(data, 8, True, seed=choice.randrange(1000), output="numpy", num_workers=2)
            for _ in range(3):
                report.timed("an epoch", lambda: load_epoch(loader))
                report.say(reads=reads, bytes=reads * 4096)
        except (OSError, RuntimeError) as error:
            report.say(error=getattr(error, "errno", None) or errno.EIO, on=f"the loader: {error}")
            time.sleep(0.2)


def checkpoint(host: str, number: int) -> bytes:
    choice = random.Random(f"{host} {number}")
    return f"{host} {number}\n".encode() + choice.randbytes(choice.choice((1000, 100_000, 1_500_000)))


def is_complete(folder: str, host: str, number: int) -> bool:
    return Path(f"{folder}/step-{number}").read_bytes() == checkpoint(host, number)


def latest_of(folder: str) -> Optional[int]:
    """The number in `latest`, which is a file or a link; None if it is not there."""
    path = Path(folder, "latest")
    try:
        try:
            text = os.readlink(path)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            text = path.read_text()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no name: mode {os.lstat(path).st_mode:o}, {path.read_bytes()[:60]!r}") from error
    if not text.removeprefix("step-").isdecimal():
        raise ValueError(f"{path} is no name: mode {os.lstat(path).st_mode:o}, {text[:60]!r}")
    return int(text.removeprefix("step-"))


class Checkpoints:
    """What a training script does. It says `dropping` before the call, and the rest after it: then what it has said before a
    flush is durable after the flush."""

    def __init__(self, report: Report, job: argparse.Namespace) -> None:
        self.report, self.host, self.has_link = report, job.host, job.latest == "link"
        self.folder = f"{ROOT}/ckpt/{job.host}"

    def resume(self) -> int:
        os.makedirs(self.folder, exist_ok=True)
        latest = latest_of(self.folder)
        if latest is not None and not is_complete(self.folder, self.host, latest):
            self.report.say(wrong=f"step-{latest}, which latest names")
        self.report.say(resumed=-1 if latest is None else latest)
        return 0 if latest is None else latest + 1

    def write(self, number: int) -> None:
        self._write(f"step-{number}", checkpoint(self.host, number))
        self.report.say(made=number)

    def point(self, number: int) -> None:
        temporary = f"{self.folder}/latest.tmp"
        if self.has_link:
            if os.path.lexists(temporary):
                os.unlink(temporary)
            os.symlink(f"step-{number}", temporary)
            os.rename(temporary, f"{self.folder}/latest")
        else:
            self._write("latest", f"step-{number}".encode())
        self.report.say(latest=number)

    def rotate(self, number: int) -> None:
        for name in os.listdir(self.folder):
            if name.startswith("step-") and not name.endswith(".tmp") and int(name[5:]) <= number - KEPT_CHECKPOINTS:
                self.report.say(dropping=int(name[5:]))
                os.unlink(f"{self.folder}/{name}")
        fd = os.open(self.folder, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def _write(self, name: str, data: bytes) -> None:
        with open(f"{self.folder}/{name}.tmp", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{self.folder}/{name}.tmp", f"{self.folder}/{name}")


def write_checkpoints(report: Report, job: argparse.Namespace, is_over: Callable, choice: random.Random) -> None:
    checkpoints = Checkpoints(report, job)
    number = None
    while not is_over():
        try:
            number = checkpoints.resume() if number is None else number
            for act in (checkpoints.write, checkpoints.point, checkpoints.rotate):
                report.timed(f"{act.__name__} {number}", lambda: act(number))
            number += 1
        except OSError as error:
            report.say(error=error.errno, on=str(error))
        time.sleep(choice.uniform(0.1, 0.8))


def watch_saved(report: Report, job: argparse.Namespace, is_over: Callable, _: random.Random) -> None:
    """Sees --save as other hosts do: whatever is copied there, `latest` names a complete checkpoint."""
    looks = 0
    while not is_over():
        for folder in glob.glob(f"{job.save}/ckpt/*"):
            host = os.path.basename(folder)
            try:
                number = latest_of(folder)
            except ValueError as error:
                report.say(wrong=str(error))
                continue
            if number is None:
                continue
            looks += 1
            try:
                if not is_complete(folder, host, number):
                    report.say(wrong=f"step-{number} of {host}, which latest names")
            except FileNotFoundError:
                if latest_of(folder) == number:  # otherwise it was rotated away meanwhile
                    report.say(wrong=f"latest of {host} names step-{number}, which is missing")
        report.say(looks=looks)
        time.sleep(0.1)


PROGRAMS = {"reader": read_dataset, "loader": load_samples, "writer": write_checkpoints, "watcher": watch_saved}


def text_of(path: str) -> str:
    try:
        return Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def descriptors_of(pid: int) -> dict[str, int]:
    kinds = {"file": 0, "unix": 0, "tcp": 0, "other": 0}
    unix = {line.split()[6] for line in text_of(f"/proc/{pid}/net/unix").splitlines()[1:]}
    for link in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        inode = target[8:-1] if target.startswith("socket:") else ""
        kinds["unix" if inode in unix else "tcp" if inode else "file" if target[0] == "/" else "other"] += 1
    return kinds


def inspect(disks: str, *firsts: str) -> None:
    """Prints what there is on all hosts, as JSON. Runs on the login node, whose namespaces contain theirs. `firsts` are
    HOST=PID of their first processes."""
    processes, services = [], {}
    for pid in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        words = text_of(f"/proc/{pid}/cmdline").split("\0")
        name = os.path.basename(words[0])
        if pid == os.getpid() or name in ("", "unshare", "nsenter", "cat", "env"):  # those are of the hosts themselves
            continue
        processes.append(f"{pid} {text_of(f'/proc/{pid}/wchan')} {' '.join(words)}")
        if name == "millrace":
            services[pid] = {"command": " ".join(words)[:100], "descriptors": descriptors_of(pid)}
    found: dict[str, Any] = {"processes": processes, "services": services, "local": {}, "temporary": {}, "sockets": {}}
    for host, pid in (first.split("=") for first in firsts):
        root = f"/proc/{pid}/root"
        found["local"][host] = [os.path.relpath(path, f"{disks}/{host}") for depth in ("*", "*/*")
                                for path in glob.glob(f"{disks}/{host}/{depth}")]
        found["temporary"][host] = [path for part in ("dev/shm", "tmp") for path in glob.glob(f"{root}/{part}/*millrace*")
                                    if not path.endswith("/millrace-hosts")]
        listening = [line for line in text_of(f"/proc/{pid}/net/tcp").splitlines()[1:] if line.split()[3] == "0A"]
        unix = [line for line in text_of(f"/proc/{pid}/net/unix").splitlines() if "millrace" in line]
        found["sockets"][host] = listening + unix
    print(json.dumps(found))


def inspect_saved(save: str) -> None:
    """Prints what --save has, as JSON. Nobody writes meanwhile."""
    found: dict[str, Any] = {"hosts": {}, "parts": glob.glob(f"{save}/**/.millrace-*", recursive=True)}
    for folder in glob.glob(f"{save}/ckpt/*"):
        host = os.path.basename(folder)
        numbers = [int(name[5:]) for name in os.listdir(folder) if name.startswith("step-") and not name.endswith(".tmp")]
        found["hosts"][host] = {"steps": {number: is_complete(folder, host, number) for number in numbers},
                                "latest": latest_of(folder)}
    print(json.dumps(found))


def run_program(words: list[str]) -> None:
    kind, report, stop, seed, sums, save, host, latest = words
    job = argparse.Namespace(sums=sums, save=save, host=host, latest=latest)
    PROGRAMS[kind](Report(report), job, lambda: os.path.exists(stop), random.Random(seed))


# ---- the job ---------------------------------------------------------------------------------------------------------------


class SoakHosts(Hosts):
    """With one more small file system, `save`, which all hosts see."""

    def start(self, name: str) -> None:
        self.save = self.shared / "save"
        if name == self.names[0]:
            self.save.mkdir()
            self.run(LOGIN, "mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self.save), check=True)
        super().start(name)

    def fill(self, folder: Path, host: str) -> None:
        self.run(host, "sh", "-c", f"cat /dev/zero >{folder}/fill")

    def free(self, folder: Path, host: str) -> None:
        self.run(host, "rm", "-f", f"{folder}/fill")

    def inspect(self) -> dict:
        firsts = [f"{name}={(self.folder / 'pids' / name).read_text().strip()}" for name in self.names]
        return self._ask("inspect", str(self.folder / "disks"), *firsts, f"{LOGIN}=1")

    def inspect_saved(self) -> dict:
        return self._ask("inspect_saved", str(self.save))

    def _ask(self, *words: str) -> dict:
        return json.loads(self.run(LOGIN, PYTHON, __file__, *words, check=True).stdout)

    def kill_all(self) -> None:
        """As when a job is cancelled: nobody gets a chance to clean up."""
        for _ in range(3):  # a process may just have forked
            pids = [line.split()[0] for line in self.inspect()["processes"]]
            self.run(LOGIN, "sh", "-c", f"kill -9 {' '.join(pids)}")


class Ledger:
    """Counts, and what was wrong; and when we had stopped processes or filled disks, as [begin, end]."""

    def __init__(self) -> None:
        self.counts: collections.Counter = collections.Counter()
        self.problems: list[str] = []
        self.stops: list[list[float]] = []
        self.fulls: list[list[float]] = []
        self.round = 0

    def add(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        self.problems.append(f"round {self.round}: {kind}: {what}")
        print(f"\r\033[K  {self.problems[-1]}" if sys.stderr.isatty() else f"  {self.problems[-1]}", flush=True)

    def check_duration(self, what: str, begin: float, end: float) -> None:
        stopped, counted_to = 0.0, begin
        for first, last in sorted(self.stops):
            stopped += max(0.0, min(last, end) - max(first, counted_to))
            counted_to = max(counted_to, min(last, end))
        if end - begin - stopped > HANG_S:
            self.add("hang", f"{what}: {end - begin:.1f} s; processes were stopped for {stopped:.1f} s of it")

    def was_full(self, at: float) -> bool:
        return any(begin <= at <= end + FULL_GRACE_S for begin, end in self.fulls)


class Program:
    """A program on a host, started again when it was killed."""

    def __init__(self, job: "Job", kind: str, host: str, traces: Optional[Path] = None) -> None:
        self.job, self.kind, self.host, self.traces = job, kind, host, traces
        self.reports: list[Path] = []  # one for each start
        self.has_failed = False
        self.start()

    def start(self) -> None:
        job, hosts = self.job, self.job.hosts
        name = f"{self.kind}-{self.host}-{len(self.reports) + 1}"
        self.was_killed = False
        self.reports.append(job.folder / f"{name}.jsonl")
        words = [PYTHON, __file__, "program", self.kind, str(self.reports[-1]), str(job.folder / "stop"), f"{job.seed} {name}",
                 str(hosts.shared / "sums"), str(hosts.save), self.host, job.plan["latest"]]
        if self.traces is not None:
            words = [MILLRACE, "trace", "-o", str(self.trace_of(self.reports[-1])), "--", *words]
        variables = [f"PYTHONPATH={BUILD / 'python'}", *(job.variables if self.kind != "watcher" else ())]
        with open(job.folder / f"{name}.log", "wb") as log:
            self.process = subprocess.Popen(hosts.command(self.host, *variables, *words), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)

    def trace_of(self, report: Path) -> Path:
        return (self.traces or self.job.folder) / f"{report.stem}.trace"

    def lines(self) -> list[dict]:
        return [{"report": report.stem, **json.loads(line)} for report in self.reports if report.exists()
                for line in report.read_text().splitlines()]

    def log(self) -> str:
        return text_of(str(self.reports[-1].with_suffix(".log"))).strip()[-600:]

    def signal(self, number: int, whom: str = "pid") -> bool:
        """Returns whether it was sent. `whom` is "pid" or "parent"."""
        line = text_of(str(self.reports[-1])).partition("\n")[0]
        if not line or self.process.poll() is not None:
            return False
        self.was_killed = self.was_killed or number == signal.SIGKILL
        return self.job.hosts.run(self.host, "kill", f"-{number}", str(json.loads(line)[whom])).returncode == 0

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)
        self.process.send_signal(signal.SIGCONT)  # nsenter stops with its child

    def keep_alive(self) -> None:
        if self.process.poll() is not None and not self.has_failed:
            self.check_end()
            if not self.has_failed:
                self.start()

    def check_end(self) -> None:
        if self.was_killed or self.has_failed or self.process.returncode == 0:
            return
        if self.traces and "no space left on device" in self.log() and self.job.ledger.was_full(time.time()):
            self.job.ledger.counts["allowed: ENOSPC for a tracer that starts"] += 1
            self.job.hosts.run(self.host, "rm", "-rf", str(self.trace_of(self.reports.pop())))
            return
        self.has_failed = True
        self.job.ledger.add("error", f"{self.kind} of {self.host} ended with {self.process.returncode}: {self.log()}")


class Promise:
    """What a writer has said: which checkpoints are complete, and how far `latest` is."""

    def __init__(self, lines: list[dict]) -> None:
        self.made = {line["made"] for line in lines if "made" in line}
        self.dropped = {line["dropping"] for line in lines if "dropping" in line}
        self.latest = max((line.get("latest", line.get("resumed", -1)) for line in lines), default=-1)


class Job:
    """A store and its programs."""

    def __init__(self, hosts: SoakHosts, ledger: Ledger, plan: dict, seed: str) -> None:
        self.hosts, self.ledger, self.plan, self.seed = hosts, ledger, plan, seed
        self.folder = hosts.shared / f"job{ledger.round}"
        self.folder.mkdir()
        self.name = f"{random.Random(seed).getrandbits(64):016x}"
        self.node = f"{hosts.local}/millrace-store-0/{self.name}"
        self.variables = (f"MILLRACE_STORE={self.node}", f"LD_PRELOAD={BUILD / 'lib' / 'libmillrace_store.so'}")
        self.programs: list[Program] = []
        self.durable: dict[str, Promise] = {}  # by host, as acknowledged by `store flush --wait`
        self.killed_services: set[str] = set()
        self.is_saved = False  # its end says so

    def millrace(self, host: str, *words: str) -> subprocess.CompletedProcess:
        """Runs millrace; exit code -1 if it does not end."""
        begin = time.time()
        try:
            done = self.hosts.run(host, "MILLRACE_STORE_PEER_DEADLINE_MS=2000", MILLRACE, *words, timeout=3 * HANG_S)
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(words, -1, "", "it does not end")
        self.ledger.check_duration(f"millrace {' '.join(words)} on {host}", begin, time.time())
        return done

    def start(self) -> bool:
        hosts, plan = self.hosts, self.plan
        mca = {"plm": "rsh", "plm_rsh_agent": str(hosts.folder / "rsh"), "oob_tcp_if_include": NETWORK,
               "btl_tcp_if_include": NETWORK, "btl": "self,vader,tcp", "pml": "ob1", "mpi_yield_when_idle": "1"}
        variables = [*(f"OMPI_MCA_{name}={value}" for name, value in mca.items()), "OMPI_ALLOW_RUN_AS_ROOT=1",
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "MILLRACE_STORE_PEER_DEADLINE_MS=2000"]
        words = ["--pack", str(hosts.shared / f"packs_{plan['source']}"), "--at", ROOT, "--save", str(hosts.save), "--local",
                 str(hosts.local), "--capacity", "5MB" if plan["room"] == "little" else "40MB", "--job", self.name, "--hosts",
                 ",".join(hosts.names), "--replicas", str(plan["replicas"])]
        words += ["--fast"] if plan["mode"] == "fast" else []
        words += ["--buffer", "ckpt/*"] if plan["save"] == "buffer" else []
        if plan["start"] == "run":
            waits = f"touch {self.folder}/ready; while [ ! -e {self.folder}/end ]; do sleep 0.1; done"
            words += ["--", "sh", "-c", waits]
        begin = time.time()
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(hosts.command(LOGIN, *variables, MILLRACE, "store", plan["start"], *words),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not (self.folder / "ready").exists() and "export LD_PRELOAD" not in self.log():
            if self.process.poll() is not None or time.time() > begin + HANG_S:
                self.ledger.add("hang" if self.process.poll() is None else "error", f"the store does not start: {self.log()}")
                return False
            time.sleep(0.05)
        self.descriptors = hosts.inspect()["services"]
        return True

    def log(self) -> str:
        return text_of(str(self.folder / "log"))

    def start_programs(self) -> None:
        plan = self.plan
        traces = {"local": self.hosts.local, "shared": self.folder}[plan["traces"]]
        kinds = [(kind, name) for name in self.hosts.names for kind in ("reader", "writer")] + [("loader", plan["loader"])]
        for kind, name in kinds:
            is_traced = name == plan["traced"] and kind != "writer"
            self.programs.append(Program(self, kind, name, traces if is_traced else None))
        self.programs.append(Program(self, "watcher", LOGIN))

    def of_kind(self, *kinds: str) -> list[Program]:
        return [program for program in self.programs if program.kind in kinds]

    def promises(self) -> dict[str, Promise]:
        return {writer.host: Promise(writer.lines()) for writer in self.of_kind("writer")}

    def acknowledge(self) -> None:
        """Everything that is closed now is durable when the flush succeeds."""
        promises = self.promises()
        if self.millrace(self.hosts.names[0], "store", "flush", "--wait", "--node", self.node).returncode == 0:
            self.ledger.counts["durable acknowledgements"] += 1
            self.durable = promises
        else:
            self.ledger.counts["flushes that were refused"] += 1

    def end(self) -> None:
        """As planned. Its processes should be gone soon."""
        if self.plan["end"] == "kill":  # it is over already
            self.process.wait()
            return
        if self.plan["start"] == "run":
            begin = time.time()
            (self.folder / "end").touch()
            try:
                code = self.process.wait(3 * HANG_S)
            except subprocess.TimeoutExpired:
                code = -1
            self.ledger.check_duration("the end of store run", begin, time.time())
        else:
            done = self.millrace(self.plan["ends_on"], "store", "down", "--node", self.node)
            code = done.returncode
            with open(self.folder / "log", "a", encoding="utf-8") as log:
                log.write(done.stderr)
        self.hosts.free(self.hosts.save, LOGIN)
        self.is_saved = code == 0
        self.ledger.counts["jobs that ended with files not saved"] += code == 1
        if code not in (0, 1) or (code == 1 and self.plan["save"] == "plain"):
            self.ledger.add("error", f"the end of the store has exit code {code}: {self.log()[-2000:]}")


# ---- faults ----------------------------------------------------------------------------------------------------------------


class Disturbance:
    """Faults, of which several may be active at the same time."""

    def __init__(self, job: Job, choice: random.Random, names: list[str]) -> None:
        self.job, self.hosts, self.ledger, self.choice, self.names = job, job.hosts, job.ledger, choice, names
        self.active: list[tuple[float, str, Callable, list]] = []  # its end, its name, how to undo it, [begin, end]

    def disturb(self, name: str, choice: random.Random) -> Optional[Callable]:
        """Returns how to undo it; None if there is nothing to do it to."""
        action, what = name.split("_")
        host = choice.choice(self.hosts.names)
        if name == "cut_cable":
            self.hosts.cut(host)
            return lambda: self.hosts.reconnect(host)
        if action == "fill":
            folder, where = (self.hosts.local, host) if what == "local" else (self.hosts.save, LOGIN)
            self.hosts.fill(folder, where)
            return lambda: self.hosts.free(folder, where)
        if what == "service":
            return self.disturb_service(action, host)
        if name == "stop_program":
            program = choice.choice(self.job.of_kind("reader", "writer", "loader"))
            return program.go_on if program.signal(signal.SIGSTOP) else None
        if name == "kill_tracer":
            program = choice.choice([program for program in self.job.programs if program.traces])
            if not program.signal(signal.SIGKILL, "parent"):
                return None
            time.sleep(0.3)  # what it has started goes on, and must end before it is started again
            self.hosts.run(program.host, "pkill", "-9", "-f", program.reports[-1].name)
            return lambda: None
        return (lambda: None) if choice.choice(self.job.of_kind(what)).signal(signal.SIGKILL) else None

    def disturb_service(self, action: str, host: str) -> Optional[Callable]:
        def send(number: int) -> bool:
            read_pid = f"od -An -tu4 -j12 -N4 {self.job.node}/state"  # docs/formats/store-node.md
            return self.hosts.run(host, "sh", "-c", f"kill -{number} $({read_pid})").returncode == 0

        if action == "stop":
            return (lambda: send(signal.SIGCONT)) if send(signal.SIGSTOP) else None
        killed = self.job.killed_services | {host}
        if len(killed) == len(self.hosts.names) or not send(signal.SIGKILL):
            return None  # one stays
        self.job.killed_services = killed
        return lambda: None

    def run(self, seconds: float) -> None:
        begin, at, planned = time.time(), 2.0, []
        while at < seconds:  # all choices first: they must not depend on the timing
            name = self.choice.choices(self.names, [FAULTS[name] for name in self.names])[0]
            last, choice = self.choice.uniform(0.5, FAULT_S), random.Random(self.choice.random())
            # No flush succeeds without all services, so one is killed in the second half only.
            if name != "kill_service" or at > seconds / 2:
                planned.append((begin + at, name, last, choice))
            at += self.choice.uniform(1, 4)
        flushing, next_flush = threading.Thread(target=lambda: None), begin + 4
        while (now := time.time()) < begin + seconds or self.active:
            self.undo(now)
            if planned and planned[0][0] <= now:
                self.begin_one(*planned.pop(0)[1:])
            if next_flush <= now < begin + seconds and not flushing.is_alive():
                flushing, next_flush = threading.Thread(target=self.job.acknowledge, daemon=True), now + 4
                flushing.start()
            for program in self.job.programs:
                program.keep_alive()
            time.sleep(0.1)
        if flushing.ident is not None:
            flushing.join()

    def begin_one(self, name: str, seconds: float, choice: random.Random) -> None:
        span = [time.time(), float("inf")]
        undo = None if any(name == one[1] for one in self.active) else self.disturb(name, choice)
        if undo is None:
            return
        self.ledger.counts[name] += 1
        if name.startswith("stop"):
            self.ledger.stops.append(span)
        if name.startswith("fill"):
            self.ledger.fulls.append(span)
        self.active.append((span[0] + seconds, name, undo, span))
        if sys.stderr.isatty():
            print(f"\r\033[Kround {self.ledger.round}: {name} {seconds:.1f} s", end="", file=sys.stderr, flush=True)

    def undo(self, now: float) -> None:
        for one in [one for one in self.active if one[0] <= now]:
            one[2]()
            one[3][1] = time.time()
            self.active.remove(one)


# ---- a round ---------------------------------------------------------------------------------------------------------------


class Soak:
    """All rounds, on the same hosts."""

    def __init__(self, options: argparse.Namespace, hosts: SoakHosts, ledger: Ledger) -> None:
        self.options, self.hosts, self.ledger = options, hosts, ledger

    def prepare(self) -> None:
        shared = self.hosts.shared
        choice = random.Random(7)
        files = {f"class{i % 5}/{i:04}.bin": choice.randbytes(choice.choice((0, 10, 5000, 130_000))) for i in range(120)}
        files |= {f"raw/{'cat' if i % 3 else 'dog'}/{i}.bin": choice.randbytes(4096) for i in range(90)}
        files |= {"words.txt": b"one and two and three\n" * 150_000, "long.bin": choice.randbytes((3 << 20) + 11),
                  "val/every.bin": choice.randbytes(9000)}
        (shared / "sums").write_text(json.dumps({path: hashlib.md5(data).hexdigest() for path, data in files.items()}))
        for source in ("origin", "alone"):
            for path, data in files.items():
                (shared / source / path).parent.mkdir(parents=True, exist_ok=True)
                (shared / source / path).write_bytes(data)
            self.hosts.run(LOGIN, MILLRACE, "store", "pack", str(shared / source), "-o", str(shared / f"packs_{source}"),
                           "--partitions", "5", "--broadcast", "val/**", check=True)
        shutil.rmtree(shared / "alone")

    def plan(self, choice: random.Random) -> dict:
        plan = {}
        for what, words in SETTINGS.items():
            chosen, asked = choice.choice(words), [word for word in words if word in self.options.setting]
            plan[what] = chosen if not asked or chosen in asked else asked[0]
        names = self.hosts.names
        return {**plan, "replicas": choice.choice((1, 2)), "traced": choice.choice(names), "loader": choice.choice(names),
                "traces": choice.choice(("local", "shared")), "ends_on": choice.choice(names),
                "killed_full": choice.choice((True, False))}

    def round(self, number: int, seconds_left: float) -> None:
        begin, problems_before = time.time(), len(self.ledger.problems)
        seed = f"{self.options.seed}/{number}"
        choice = random.Random(seed)
        plan = self.plan(choice)
        self.ledger.round = number
        self.ledger.stops.clear()
        self.ledger.fulls.clear()
        self.job = Job(self.hosts, self.ledger, plan, seed)
        if self.job.start():
            self.job.start_programs()
            Disturbance(self.job, choice, self.options.faults).run(min(choice.uniform(25, 50), max(10.0, seconds_left)))
            self.end_programs()
            self.job.end()
        self.check_ended()
        self.check_saved("acknowledged", self.job.durable)
        self.save_what_is_left()
        self.check_saved("closed", self.job.promises())
        self.check_left()
        self.ledger.counts["rounds"] += 1
        is_fine = len(self.ledger.problems) == problems_before
        if not is_fine:
            self.start_clean(seed)
        shutil.rmtree(self.job.folder)
        counts = self.ledger.counts
        print(f"round {number}: {time.time() - begin:.0f} s, {', '.join(plan[what] for what in SETTINGS)}, replicas "
              f"{plan['replicas']}: {'ok' if is_fine else 'WRONG'}; so far {counts['reads']:,} reads, "
              f"{counts['checkpoints']:,} checkpoints, {sum(counts[name] for name in FAULTS)} faults, "
              f"{len(self.ledger.problems)} problems", flush=True)

    def end_programs(self) -> None:
        how = self.job.plan["end"]
        if how == "full" or (how == "kill" and self.job.plan["killed_full"]):  # files wait in the buffers
            self.ledger.fulls.append([time.time(), float("inf")])
            self.hosts.fill(self.hosts.save, LOGIN)
            time.sleep(1.5)
        if how == "kill":
            self.cancel()
        (self.job.folder / "stop").touch()
        until = time.time() + HANG_S + FAULT_S
        for program in self.job.programs:
            try:
                program.process.wait(max(1.0, until - time.time()))
            except subprocess.TimeoutExpired:
                there = [line for line in self.hosts.inspect()["processes"] if program.reports[-1].name in line]
                self.ledger.add("hang", f"{program.kind} of {program.host} does not end: {there} {program.log()}")
                program.was_killed = True
                program.process.kill()
                program.process.wait()
            program.check_end()
            self.count_lines(program)
        if how == "down":
            self.job.acknowledge()  # nobody writes any more: this is all
        if how != "kill":
            self.check_descriptors()
        self.check_traces()

    def cancel(self) -> None:
        for program in self.job.programs:
            program.was_killed = True
        self.hosts.kill_all()
        self.hosts.free(self.hosts.save, LOGIN)

    def count_lines(self, program: Program) -> None:
        who = f"{program.kind} of {program.host}"
        totals: dict[tuple, int] = {}
        latest = -1
        for line in program.lines():
            totals |= {(line["report"], what): line[what] for what in ("reads", "bytes", "looks") if what in line}
            self.ledger.counts["checkpoints"] += "made" in line
            if "wrong" in line:
                self.ledger.add("wrong", f"{who}: {line}")
            if "slow" in line:
                self.ledger.check_duration(f"{who}: {line['slow']}", line["begin"], line["at"])
            if line.get("resumed", latest) < latest:
                self.ledger.add("lost", f"{who}: step-{latest} was the latest, a new writer sees {line['resumed']}")
            latest = max(latest, line.get("latest", -1), line.get("resumed", -1))
            if "error" in line:
                self.count_error(program, line)
        for (_, what), total in totals.items():
            self.ledger.counts[what] += total

    def count_error(self, program: Program, line: dict) -> None:
        name = errno.errorcode.get(line["error"], str(line["error"]))
        is_allowed = self.ledger.was_full(line["at"]) if program.kind == "writer" and name == "ENOSPC" else (
            name == "EIO" and program.kind in ("reader", "loader") and self.job.plan["source"] == "alone")
        if is_allowed:
            self.ledger.counts[f"allowed: {name} for a {program.kind}"] += 1
        else:
            self.ledger.add("error", f"{program.kind} of {program.host}: {name}: {line['on']}; {program.log()}")

    # ---- what must hold ------------------------------------------------------------------------------------------------

    def check_descriptors(self) -> None:
        """Programs have ended: services have the descriptors of their beginning, and connections that they keep."""
        time.sleep(0.5)
        for pid, now in self.hosts.inspect()["services"].items():
            before = self.job.descriptors.get(pid, now)["descriptors"]
            for kind, count in now["descriptors"].items():
                most = {"tcp": 90, "file": 12}.get(kind, 2)  # connections for the next question; partitions
                if count - before[kind] > most:
                    self.ledger.add("leak", f"{count - before[kind]} more descriptors ({kind}): {now['command']}")

    def check_traces(self) -> None:
        """Each can be packed and read, however its program and its tracer have ended."""
        for program in self.job.programs:
            for trace in [str(program.trace_of(report)) for report in program.reports if program.traces]:
                for words in (("compact", trace), ("info", trace)):
                    done = self.job.millrace(program.host, *words)
                    if done.returncode != 0:
                        self.ledger.add("error", f"millrace {' '.join(words)}: {done.stderr} {program.log()}")
                self.ledger.counts["traces"] += 1
                self.hosts.run(program.host, "rm", "-rf", trace)

    def check_ended(self) -> None:
        until = time.time() + HANG_S
        while (found := self.hosts.inspect()["processes"]) and time.time() < until:
            time.sleep(0.3)
        if found:
            self.ledger.add("leak", "\n    ".join(["processes:", *(line[:200] for line in found)]))

    def save_what_is_left(self) -> None:
        """As a user does: the next job names what an earlier one has left, and `store flush --left` saves it."""
        for host, paths in self.hosts.inspect()["local"].items():
            paths = [path for path in paths if path.startswith("millrace-store-0/")]
            buffers = [path for path in paths if "/buffer-" in path]
            if buffers and self.job.is_saved:
                self.ledger.add("lost", f"{host}: {buffers} is left, but the job said that all is saved")
            if not paths:
                continue
            next_job = self.job.millrace(host, "store", "run", "--pack", str(self.hosts.shared / "packs_origin"), "--at", ROOT,
                                         "--save", str(self.hosts.save), "--local", str(self.hosts.local), "--", "true")
            if next_job.returncode != 0:
                self.ledger.add("error", f"the next job on {host}: {next_job.stderr}")
            for buffer in set(buffers) & set(self.hosts.inspect()["local"][host]):  # the others had no files
                path = f"{self.hosts.local}/{buffer}"
                self.ledger.counts["buffers kept, named and saved"] += 1
                if path not in next_job.stderr:
                    self.ledger.add("lost", f"the next job on {host} does not name {path}: {next_job.stderr}")
                done = self.job.millrace(host, "store", "flush", "--left", path)
                if done.returncode != 0:
                    self.ledger.add("lost", f"flush --left {path} on {host}: {done.stderr}")

    def check_saved(self, kind: str, promises: dict[str, Promise]) -> None:
        """What flushes have acknowledged is in --save at any time; all that was closed, when nothing is left in a buffer."""
        saved = self.hosts.inspect_saved()["hosts"]
        dropped = {host: promise.dropped for host, promise in self.job.promises().items()}
        for host, promise in promises.items():
            found = saved.get(host, {"steps": {}, "latest": None})
            latest = -1 if found["latest"] is None else found["latest"]
            complete = {int(number) for number, is_whole in found["steps"].items() if is_whole}
            if len(complete) < len(found["steps"]):
                self.ledger.add("wrong", f"{host}: of {sorted(found['steps'])} in --save, only {sorted(complete)} are complete")
            if latest >= 0 and latest not in complete:
                self.ledger.add("wrong", f"{host}: latest names step-{latest}, which is not in --save")
            wanted = promise.made - dropped[host]
            if wanted - complete or latest < promise.latest:
                self.ledger.add("lost", f"{host}: {kind} checkpoints {sorted(wanted - complete)}; latest is {latest}, and was "
                                        f"{promise.latest}")
            self.ledger.counts[f"checkpoints {kind} and found"] += len(wanted)

    def check_left(self) -> None:
        found = self.hosts.inspect()
        left = self.hosts.inspect_saved()["parts"] + [f"{what} on {host}" for kind in ("local", "temporary", "sockets")
                                 for host, names in found[kind].items() for what in names if what != "millrace-store-0"]
        for what in left:
            self.ledger.add("leak", what)

    def start_clean(self, seed: str) -> None:
        """What one round has left must not count against the next."""
        if self.options.keep:
            shutil.copytree(self.job.folder, f"{self.options.keep}/{seed}", dirs_exist_ok=True)
        self.hosts.kill_all()
        for name in self.hosts.names:
            self.hosts.run(name, "sh", "-c", f"rm -rf {self.hosts.local}/* /dev/shm/*millrace*")
        self.hosts.run(LOGIN, "sh", "-c", f"rm -rf {self.hosts.save}/ckpt {self.hosts.save}/.millrace-*")


def print_counts(seed: int, ledger: Ledger) -> None:
    names = ["rounds", "reads", "bytes", "looks", "checkpoints", "durable acknowledgements"]
    names += sorted(set(ledger.counts) - {*names, *FAULTS, *PROBLEMS}) + [*FAULTS, *PROBLEMS]
    for name in names:
        print(f"{name:<45} {ledger.counts[name]:>15,}")
    if ledger.problems:
        print("\n".join([*ledger.problems, f"{len(ledger.problems)} problems; seed {seed}"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--round", type=int, default=1, help="begin with this one")
    words = sorted({word for words in SETTINGS.values() for word in words})
    parser.add_argument("--setting", nargs="+", default=[], choices=words, help="only rounds with these")
    parser.add_argument("--faults", nargs="+", default=list(FAULTS), choices=FAULTS)
    parser.add_argument("--keep", help="directory for what programs and services have said in rounds with a problem")
    options = parser.parse_args()
    if reason := cluster.why_not():
        print(f"not possible here: {reason}")
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # clean up, also in the background
    os.environ["MILLRACE_BUILD"] = str(BUILD)  # visible on the hosts
    ledger = Ledger()
    print(f"seed {options.seed}", flush=True)
    until = time.time() + options.minutes * 60
    try:
        with SoakHosts(3, disk_bytes=DISK_BYTES) as hosts:
            soak = Soak(options, hosts, ledger)
            soak.prepare()
            number = options.round
            while time.time() < until:
                soak.round(number, until - time.time())
                number += 1
    except KeyboardInterrupt:
        print("interrupted")
    print_counts(options.seed, ledger)
    return 1 if ledger.problems else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["program"]:
        run_program(sys.argv[2:])
    elif sys.argv[1:2] == ["inspect"]:
        inspect(*sys.argv[2:])
    elif sys.argv[1:2] == ["inspect_saved"]:
        inspect_saved(*sys.argv[2:])
    else:
        sys.exit(main())
