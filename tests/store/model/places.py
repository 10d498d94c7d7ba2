"""Where the operations of model_test.py happen: a plain directory, or a store in one of its settings, on one host or several.

Each place has a root, a directory outside of it, drivers, and an upper directory, which has what was created."""

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Optional

import operations

MILLRACE = os.environ.get("MILLRACE", "millrace")
sys.path.insert(0, str(Path(__file__).absolute().parents[2] / "cluster"))
PATIENCE_S = 60
HIDDEN = b"hidden"
JOB = "0123456789abcdef"


class DriverError(Exception):
    """The driver died, or it does not answer."""


class Driver:
    """A process that runs the commands it reads; see driver.c."""

    def __init__(self, command: list, environment: dict) -> None:
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.number = int(self.ask("pid"))
        if self.ask("reset") != "0":
            raise DriverError(f"{command}: its root is not there")

    def ask(self, line: str) -> str:
        try:
            os.write(self.process.stdin.fileno(), line.encode() + b"\n")
        except OSError as error:
            raise DriverError(f"the driver died before '{line}', status {self.process.wait(5)}") from error
        found = b""
        while not found.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], PATIENCE_S)[0]:
                raise DriverError(f"no answer to '{line}' after {PATIENCE_S} s")
            more = os.read(self.process.stdout.fileno(), 1 << 20)
            if not more:
                raise DriverError(f"the driver died of '{line}', status {self.process.wait(5)}")
            found += more
        return found.decode(errors="backslashreplace").rstrip("\n")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def snapshot(folder: str) -> dict:
    """All names of a directory: type, mode, links, extended attributes and bytes or target."""
    found = {}
    pending = [""]
    while pending:
        below = pending.pop()
        if not os.access(f"{folder}/{below}", os.R_OK | os.X_OK):
            continue  # of a user who has locked himself out
        with os.scandir(f"{folder}/{below}") as entries:
            for entry in entries:
                if entry.name.startswith(".millrace-"):
                    continue  # a copy that is being made
                name = f"{below}/{entry.name}".lstrip("/")
                status = entry.stat(follow_symlinks=False)
                if entry.is_symlink():
                    found[name] = ("l", 0, 0, (), os.readlink(entry.path))
                elif entry.is_dir(follow_symlinks=False):
                    found[name] = ("d", status.st_mode & 0o7777, 0, attributes(entry.path), None)
                    pending.append(name)
                else:
                    found[name] = ("f", status.st_mode & 0o7777, status.st_nlink, attributes(entry.path), bytes_of(entry.path))
    return found


def bytes_of(path: str) -> Optional[bytes]:
    """None if this user may not read it."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except PermissionError:
        return None


def attributes(path: str) -> tuple:
    if not os.access(path, os.R_OK):
        return ()
    return tuple((name, os.getxattr(path, name)) for name in sorted(os.listxattr(path)) if name.startswith("user."))


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        for entry in list(os.scandir(path)):
            remove(entry.path)
        os.rmdir(path)
    else:
        os.unlink(path)


def keep_only(folder: str, kept: frozenset, below: str = "") -> None:
    """Removes all names but `kept`."""
    with os.scandir(f"{folder}/{below}") as entries:
        for entry in list(entries):
            name = f"{below}/{entry.name}".lstrip("/")
            if name not in kept:
                remove(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                keep_only(folder, kept, name)


class Plain:
    """A plain directory. If the dataset is not kept, it can be changed: both sides of the test of the test are like that."""

    def __init__(self, folder: Path, driver: list, count: int, keeps_dataset: bool = True, mutant: str = "") -> None:
        self.root, self.outside = str(folder / "root"), str(folder / "out")
        os.makedirs(self.root)
        os.makedirs(self.outside)
        self.kept = operations.DATASET if keeps_dataset else frozenset([""])  # the root stays
        operations.make_dataset(self.root)
        self.drivers = [Driver([*driver, self.root, self.outside], {**os.environ, "MODEL_MUTANT": mutant}) for _ in range(count)]

    def wipe(self) -> None:
        for driver in self.drivers:
            driver.ask("reset")
        keep_only(self.root, self.kept)
        keep_only(self.outside, frozenset())
        if self.kept != operations.DATASET:
            os.chmod(self.root, 0o755)
            operations.make_dataset(self.root)

    def created(self) -> dict:
        return {name: found for name, found in snapshot(self.root).items() if name not in self.kept}

    def plant(self, name: str, text: str) -> None:
        """A file of an earlier job."""
        Path(self.root, name).write_text(text)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        for driver in self.drivers:
            driver.close()


class Store:
    """A store on this host. Settings: `save` has a directory for what is created, `origin` uses the origin, `same` uses the
    origin and its path is the root."""

    def __init__(self, folder: Path, driver: list, count: int, setting: str, words: tuple = (), local: str = "") -> None:
        self.folder, self.setting, self.words = folder, setting, words
        self.root, self.outside = str(folder / "root"), str(folder / "out")
        self.local = Path(local) if local else folder / "local"
        self.origin = self.root if setting == "same" else str(folder / "origin")
        self.upper = str(folder / "save") if setting == "save" else self.origin
        for path in (self.outside, self.origin, self.upper, self.local):
            os.makedirs(path, exist_ok=True)
        operations.make_dataset(self.origin)
        self.wanted_origin = snapshot(self.origin)
        self.drivers: list[Driver] = []
        try:
            self.start(driver, count)
        except BaseException:
            self.close()
            raise

    def arguments(self) -> list[str]:
        save = ("--save", self.upper) if self.setting == "save" else ()
        return ["--pack", str(self.folder / "packs"), "--at", self.root, *save, *self.words]

    def start(self, driver: list, count: int) -> None:
        run([MILLRACE, "store", "pack", self.origin, "-o", str(self.folder / "packs")])
        text = run([MILLRACE, "store", "up", *self.arguments(), "--local", str(self.local)])
        exports = dict(line.removeprefix("export ").split("=", 1) for line in text.splitlines() if line.startswith("export "))
        self.environment = {**os.environ, **{name: value.strip("'") for name, value in exports.items()}}
        if self.is_buffered:
            self.environment["MILLRACE_STORE_DEADLINE_MS"] = "100"  # of waiting for files that are still written
        self.drivers = [Driver([*driver, self.root, self.outside], self.environment) for _ in range(count)]

    def wipe(self) -> None:
        for driver in self.drivers:
            driver.ask("reset")
        self.flush()
        keep_only(self.upper, frozenset() if self.setting == "save" else operations.DATASET)
        keep_only(self.outside, frozenset())
        if self.setting != "save" and snapshot(self.origin) != self.wanted_origin:  # a run that failed changed it
            keep_only(self.origin, frozenset())
            operations.make_dataset(self.origin)

    def created(self) -> dict:
        """What the upper directory has, besides the dataset and its directories."""
        found = snapshot(self.upper)
        if self.setting != "save":
            for name, wanted in self.wanted_origin.items():
                if found.get(name) != wanted:
                    found["CHANGED " + name] = found.get(name)
        else:
            for name, mode in operations.FOLDERS.items():
                if name in found and found[name][1] != mode:
                    found[f"MODE {found[name][1]:o} of {name}"] = found[name]
                if name in found and found[name][0] != "d":
                    found[f"TYPE of {name}"] = found[name]
            for name in {*operations.FILES, *operations.LINKS} & set(found):
                if found[name][4] != HIDDEN:
                    found[f"OF THE DATASET {name}"] = found[name]
        return {name: what for name, what in found.items() if name not in operations.DATASET}

    def plant(self, name: str, text: str) -> None:
        Path(self.upper, name).write_text(text)

    def hide(self) -> None:
        """Names of the dataset in the upper directory too: the dataset's are shown."""
        if self.setting == "save":
            Path(self.upper, "r").write_bytes(HIDDEN)
            Path(self.upper, "l").write_bytes(HIDDEN)

    def flush(self) -> None:
        """Waits for what is buffered; all else is in the upper directory already."""
        if self.is_buffered:
            run([MILLRACE, "store", "flush", "--wait"], self.environment)

    @property
    def is_buffered(self) -> bool:
        return any(word.startswith("--buffer") for word in self.words)

    def close(self) -> None:
        for driver in self.drivers:
            driver.close()
        if hasattr(self, "environment"):
            done = subprocess.run([MILLRACE, "store", "down", "--node", self.environment["MILLRACE_STORE"]], capture_output=True,
                                  text=True, env=self.environment, timeout=PATIENCE_S, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"store down: {done.stderr}")


class HostsStore(Store):
    """A store of several hosts, with one driver a host in turn. The upper directory is one that all of them see."""

    def __init__(self, driver: list, count: int, setting: str, words: tuple, hosts) -> None:
        self.hosts = hosts
        self.up: Optional[subprocess.Popen] = None
        super().__init__(hosts.shared / "s", driver, count, setting, words)

    def start(self, driver: list, count: int) -> None:
        import hosts as cluster  # pylint: disable=import-outside-toplevel
        run([MILLRACE, "store", "pack", self.origin, "-o", str(self.folder / "packs"), "--partitions", "4"])
        mca = {"plm": "rsh", "plm_rsh_agent": str(self.hosts.folder / "rsh"), "oob_tcp_if_include": cluster.NETWORK,
               "btl_tcp_if_include": cluster.NETWORK, "btl": "self,vader,tcp", "pml": "ob1", "mpi_yield_when_idle": "1"}
        variables = [*(f"OMPI_MCA_{name}={value}" for name, value in mca.items()), "OMPI_ALLOW_RUN_AS_ROOT=1",
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
        local = str(self.hosts.local)
        self.log = self.hosts.shared / "up.log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.up = subprocess.Popen(self.hosts.command(
                cluster.LOGIN, *variables, MILLRACE, "store", "up", *self.arguments(), "--local", local, "--job", JOB,
                "--hosts", ",".join(self.hosts.names)), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        cluster.wait_until(lambda: "export LD_PRELOAD" in self.log.read_text() or self.up.poll() is not None, "the services")
        exports = dict(line.removeprefix("export ").split("=", 1) for line in self.log.read_text().splitlines()
                       if line.startswith("export "))
        if "LD_PRELOAD" not in exports:
            raise RuntimeError(f"store up: {self.log.read_text()}")
        settings = [f"{name}={exports[name].strip(chr(39))}" for name in ("MILLRACE_STORE", "LD_PRELOAD")]
        self.node = settings[0].split("=", 1)[1]
        for index in range(count):
            name = self.hosts.names[index % len(self.hosts.names)]
            self.drivers.append(Driver(self.hosts.command(name, *settings, *driver, self.root, self.outside), dict(os.environ)))

    def flush(self) -> None:
        if self.is_buffered:
            run(self.hosts.command("node1", MILLRACE, "store", "flush", "--wait", "--node", self.node))

    def close(self) -> None:
        for driver in self.drivers:
            driver.close()
        if self.up is not None:
            done = self.hosts.run("node1", MILLRACE, "store", "down", "--node", self.node)
            if done.returncode != 0:
                raise RuntimeError(f"store down: {done.stderr}")
            self.up.wait(PATIENCE_S)


def run(command: list, environment: Optional[dict] = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout
