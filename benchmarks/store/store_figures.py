#!/usr/bin/env python3
"""The figures of `millrace store`, each as a ratio to something measured in turns with it in the same run.

    benchmarks/store/store_figures.py build/release/bin/millrace [--folder DIR] [--only NAME...] [--sizes SIZE...] [--rounds N] [--json]

    read    whole files in random order, hot, by a C program and by Python, with 1 and 2 threads: the default mode and
            the fast mode against the same files on tmpfs; the fast mode against FUSE as libfuse makes it by default
            (benchmarks/store/store_fuse.c), and against copying the bytes in memory
    pack    pack --codec none against cp -r on the same file system. `pack` makes its files durable and `cp`
            does not, so there is also cp -r and sync
    list    find over a million files, against ext4 with everything cached (or what else DIR is)
    scale   a catalogue of ten million files (--many): bench_store_catalogue, beside millrace; and find over it
    epoch   an epoch of 16 KB files from a cold GlusterFS on loopback, against the store. Needs root, glusterfs-server
    larger  an epoch of a dataset four times as large as the capacity, pack and files on a cold GlusterFS: by itself, with
            its order known, and directly; beside reading the pack from beginning to end, and TCP on loopback
    buffer  checkpoints with fsync on a GlusterFS: through --buffer against --save alone, until the program goes on, and
            until all is durable there
    remote  reads from another host, against MPI itself: bench_store_remote, beside millrace, on two emulated hosts; needs root

Every figure is the median of the ratios of the rounds: the speed of a machine with other users changes from minute to
minute. In brackets is the range of the middle half. What is not built or not installed is said instead. Files are in DIR
(the default is that of temporary files) and in /dev/shm.
"""

import argparse
import contextlib
import json
import os
import random
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
KB = 1000
SIZES = {"16 KB": 16 * KB, "128 KB": 128 * KB, "1 MB": 1000 * KB}
READ_BYTES = {"16 KB": 64_000_000, "128 KB": 128_000_000, "1 MB": 200_000_000}

# (measured, baseline, reader) and the targets of the sizes in order. memcpy is what no reader can exceed.
READ_TARGETS = {
    ("default", "tmpfs", "C"): (">= 0.9", ">= 0.9", ">= 0.9"),
    ("default", "tmpfs", "Python"): (">= 0.9", ">= 0.9", ">= 0.9"),
    ("fast", "tmpfs", "C"): (">= 4", ">= 2", ">= 1.7"),
    ("fast", "tmpfs", "Python"): (">= 2", ">= 1.5", ">= 1"),
    ("fast", "FUSE default", "C"): (">= 30", ">= 15", ">= 8"),
    ("fast", "memcpy", "C"): ("", "", ""),
    ("memcpy", "FUSE default", "C"): ("", "", ""),
    ("memcpy", "tmpfs", "C"): ("", "", ""),
}

PYTHON_READER = """
import random, sys, threading, time
list_file, threads, seed, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
paths = open(list_file).read().splitlines()
generator = random.Random(seed)
def read(part):
    for path in part:
        with open(path, "rb") as file:
            file.read()
begin = time.perf_counter()
passes = 0
while passes < 2 or time.perf_counter() - begin < seconds:
    generator.shuffle(paths)
    parts = [paths[i::threads] for i in range(threads)]
    workers = [threading.Thread(target=read, args=(part,)) for part in parts[1:]]
    pass_begin = time.perf_counter()
    for worker in workers:
        worker.start()
    read(parts[0])
    for worker in workers:
        worker.join()
    if passes > 0:
        print(len(paths), time.perf_counter() - pass_begin)
    passes += 1
"""


class Missing(Exception):
    """What a figure needs is not there; the text says what."""


def run(*command, **settings) -> str:
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True,
                          **settings).stdout


def timed(*command, **settings) -> float:
    begin = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, **settings)
    return time.perf_counter() - begin


def is_root() -> bool:
    return os.geteuid() == 0


class Figures:
    def __init__(self, options):
        self.millrace = os.path.abspath(options.millrace)
        self.rounds = options.rounds
        self.options = options
        self.rows = []

    def row(self, figure: str, target: str, seconds: dict, baseline: str, measured: str) -> None:
        """From the seconds of each round. Of a round, everything ran within a second or so."""
        ratios = sorted(theirs / ours for theirs, ours in zip(seconds[baseline], seconds[measured]))
        quarter = len(ratios) // 4
        low, high = ratios[quarter], ratios[-1 - quarter]
        row = {"figure": figure, "target": target, "ratio": statistics.median(ratios), "low": low, "high": high,
               "best_seconds": {name: min(times) for name, times in seconds.items()}}
        self.rows.append(row)
        if not self.options.json:
            print(f"{figure:<58} {target:>8}  {row['ratio']:6.2f} [{low:.2f} {high:.2f}]", flush=True)

    def note(self, text: str) -> None:
        self.rows.append({"note": text})
        if not self.options.json:
            print(text, flush=True)

    def missing(self, figure: str, reason: str) -> None:
        self.rows.append({"figure": figure, "missing": reason})
        if not self.options.json:
            print(f"{figure:<58}           not measured: {reason}", flush=True)

    @contextlib.contextmanager
    def store(self, packs: Path, root: Path, *flags):
        """The environment of a program that reads the store."""
        words = [self.millrace, "store", "up", "--pack", packs, "--at", root, *flags]
        environment = dict(os.environ)
        for line in run(*words).splitlines():
            name, _, value = line.removeprefix("export ").partition("=")
            environment[name] = shlex.split(value)[0]
        try:
            yield environment
        finally:
            run(self.millrace, "store", "down", "--node", environment["MILLRACE_STORE"])


def make_files(root: Path, file_bytes: int, total_bytes: int) -> list:
    """Names relative to the root."""
    names = []
    for i in range(max(1, total_bytes // file_bytes)):
        name = f"{i % 16:02}/{i:07}.jpg"
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(os.urandom(file_bytes))
        names.append(name)
    return names


# ---- read


def make_reader(folder: Path) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise Missing("there is no C compiler")
    reader = folder / "reader"
    run(compiler, "-O2", "-pthread", "-o", reader, HERE / "store_read.c")
    return reader


@contextlib.contextmanager
def fuse_default(plain: Path, folder: Path):
    """The plain files through a file system of libfuse without any option. None if it cannot be."""
    place, program = folder / "fuse", folder / "store_fuse"
    place.mkdir()
    compiler = shutil.which(os.environ.get("CC", "cc"))
    settings = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True)
    words = [str(compiler), "-O2", "-o", str(program), str(HERE / "store_fuse.c"), *settings.stdout.split()]
    if settings.returncode != 0 or subprocess.run(words, capture_output=True).returncode != 0 or \
            subprocess.run([program, plain, place], capture_output=True).returncode != 0:
        yield None
        return
    try:
        yield place
    finally:
        run("fusermount3", "-u", place)


class Place:
    """A way to the files: the reader's list of paths and its environment."""

    def __init__(self, folder: Path, name: str, root: Path, names: list, environment=None, words=()):
        self.words = words
        self.list = folder / f"{name}.list"
        self.list.write_text("".join(f"{root}/{file}\n" for file in names))
        self.environment = environment


def best_pass(reader: list, place: Place, threads: int, seed: int) -> float:
    """Seconds of the fastest pass over all files."""
    text = run(*reader, place.list, threads, seed, 0.12, *place.words, env=place.environment)
    return min(float(line.split()[1]) for line in text.splitlines())


def in_turns(folder: Path, source: Path, names: list, environments: list, root: Path) -> Path:
    """The plain files, each written just before the store writes its own. Otherwise the pages of one set are less
    scattered in memory than those of the other: copying files on tmpfs made reading them up to 30 % slower."""
    plain = folder / "plain"
    feeder = "import sys\nfor line in sys.stdin:\n    print(len(open(line[:-1], 'rb').read()), flush=True)\n"
    readers = [subprocess.Popen([sys.executable, "-c", feeder], env=environment, text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE) for environment in environments]
    for name in names:
        (plain / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, plain / name)
        for reader in readers:
            print(f"{root}/{name}", file=reader.stdin, flush=True)
            reader.stdout.readline()
    for reader in readers:
        reader.communicate()
    return plain


def measure_size(figures: Figures, size: str, folder: Path, readers: dict) -> None:
    source, packs, root = folder / "source", folder / "packs", folder / "store"
    names = make_files(source, SIZES[size], READ_BYTES[size])
    run(figures.millrace, "store", "pack", source, "-o", packs, "--codec", "none", stderr=subprocess.DEVNULL)
    with contextlib.ExitStack() as stack:
        default = stack.enter_context(figures.store(packs, root, "--local", folder.parent))
        plain = in_turns(folder, source, names, [default], root)
        places = {"tmpfs": Place(folder, "tmpfs", plain, names), "default": Place(folder, "default", root, names, default)}
        fast = stack.enter_context(figures.store(packs, root, "--local", folder.parent, "--fast"))
        places["fast"] = Place(folder, "fast", root, names, fast)
        fuse = stack.enter_context(fuse_default(plain, folder))
        if fuse is not None:
            places["FUSE default"] = Place(folder, "fuse", fuse, names)
        places["memcpy"] = Place(folder, "memcpy", plain, names, words=["copy"])
        shutil.rmtree(source)
        for reader_name, reader in readers.items():
            for threads in (1, 2):
                measure_read(figures, size, places, reader_name, reader, threads)


def measure_read(figures: Figures, size: str, places: dict, reader_name: str, reader: list, threads: int) -> None:
    needed = {name for kind in READ_TARGETS if kind[2] == reader_name for name in kind[:2]}
    seconds = {name: [] for name in places if name in needed}
    for seed in range(figures.rounds):
        for name in seconds:
            seconds[name].append(best_pass(reader, places[name], threads, seed + 1))
    for (measured, baseline, for_reader), targets in READ_TARGETS.items():
        if for_reader != reader_name:
            continue
        figure = f"{measured} against {baseline}, {size}, {reader_name}, {threads} thread{'s' * (threads - 1)}"
        lacking = [name for name in (measured, baseline) if name not in seconds]
        if lacking:
            figures.missing(figure, f"there is no {lacking[0]}")
        else:
            figures.row(figure, targets[list(SIZES).index(size)], seconds, baseline, measured)


def measure_reads(figures: Figures) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="store-") as folder:
        readers = {"C": [make_reader(Path(folder))], "Python": [sys.executable, "-c", PYTHON_READER]}
        for size in figures.options.sizes:
            one = Path(folder) / str(SIZES[size])
            one.mkdir()
            measure_size(figures, size, one, readers)
            shutil.rmtree(one)


# ---- pack


def measure_pack(figures: Figures) -> None:
    for size, file_bytes in (*SIZES.items(), ("64 MB", 64_000_000)):
        with tempfile.TemporaryDirectory(dir=figures.options.folder, prefix="millrace-store-") as name:
            folder = Path(name)
            source = folder / "source"
            make_files(source, file_bytes, figures.options.bytes)
            os.sync()
            seconds = {"cp": [], "cp and sync": [], "none": [], "auto": []}
            for _ in range(figures.rounds):
                for codec in ("none", "auto"):
                    seconds[codec].append(timed(figures.millrace, "store", "pack", source, "-o", folder / "pack", "--codec",
                                                codec, stderr=subprocess.DEVNULL))
                    shutil.rmtree(folder / "pack")
                copied = timed("cp", "-r", source, folder / "copy")
                seconds["cp"].append(copied)
                seconds["cp and sync"].append(copied + timed("sync", "-f", folder / "copy"))
                shutil.rmtree(folder / "copy")
            figures.row(f"pack, codec none, against cp -r, {size}", ">= 0.7", seconds, "cp", "none")
            figures.row(f"pack, codec none, against cp -r and sync, {size}", "", seconds, "cp and sync", "none")


# ---- list


def make_empty_files(root: Path, directories: int, per_directory: int) -> None:
    for i in range(directories):
        place = root / f"{i:04}"
        place.mkdir(parents=True)
        fd = os.open(place, os.O_RDONLY)
        for j in range(per_directory):
            os.close(os.open(f"{i * per_directory + j:08}.jpg", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
        os.close(fd)


LISTINGS = {"find -type f": ["find", "ROOT", "-type", "f"], "find -size +0 (looks at each file)": ["find", "ROOT", "-size", "+0"],
            "ls -lR": ["ls", "-lR", "ROOT"]}


def measure_list(figures: Figures) -> None:
    with tempfile.TemporaryDirectory(dir=figures.options.folder, prefix="millrace-store-") as name:
        folder = Path(name)
        plain, packs, root = folder / "plain", folder / "packs", folder / "store"
        make_empty_files(plain, 1000, figures.options.files // 1000)
        run(figures.millrace, "store", "pack", plain, "-o", packs, "--codec", "none", stderr=subprocess.DEVNULL)
        file_system = run("stat", "-f", "-c", "%T", folder).strip()
        with figures.store(packs, root) as environment:
            for listing, words in LISTINGS.items():
                seconds = {"plain": [], "store": []}
                for i in range(figures.rounds + 1):
                    for kind, place, settings in (("plain", plain, None), ("store", root, environment)):
                        spent = timed(*[word.replace("ROOT", str(place)) for word in words], env=settings)
                        if i > 0:  # the first one makes it hot
                            seconds[kind].append(spent)
                figures.row(f"{figures.options.files:,} files, {listing}, against {file_system}",
                            "> 1" if listing == "find -type f" else "", seconds, "plain", "store")


# ---- scale


def measure_scale(figures: Figures) -> None:
    """Not ratios, but what a target of the design bounds: bytes, and what a job waits for."""
    program = Path(figures.millrace).parent / "bench_store_catalogue"
    if not program.exists():
        raise Missing("bench_store_catalogue is not built")
    count = figures.options.many
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="store-") as name:
        folder = Path(name)
        (folder / "origin").mkdir()
        for line in run(program, folder / "packs", count).splitlines():
            figures.note(f"{count:,} files: {line}")
        begin = time.perf_counter()
        with figures.store(folder / "packs", folder / "store", "--origin", folder / "origin") as environment:
            figures.note(f"{count:,} files: the service is ready after {time.perf_counter() - begin:.2f} s")
            seconds = timed("find", folder / "store", "-type", "f", env=environment)
            figures.note(f"{count:,} files: find -type f takes {seconds:.2f} s, {count / seconds / 1e6:.1f} M files/s")


# ---- epoch


@contextlib.contextmanager
def gluster(parent):
    if not is_root():
        raise Missing("GlusterFS needs root")
    if shutil.which("glusterd") is None:
        raise Missing("glusterfs-server is not installed")
    folder = Path(tempfile.mkdtemp(dir=parent, prefix="millrace-gluster-"))
    script = HERE / "store_gluster.sh"
    try:
        run(script, "up", folder)
        yield folder / "mount", lambda: run(script, "cold", folder)
    finally:
        run(script, "down", folder)


def one_epoch(reader: Path, place: Place) -> float:
    """Seconds for all files, one after the other in random order, from the start of the reader to its end."""
    return timed(reader, place.list, 1, 1, -1, env=place.environment)


def measure_epoch(figures: Figures) -> None:
    with gluster(figures.options.folder) as (mount, forget), tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        reader = make_reader(folder)
        names = make_files(mount / "plain", SIZES["16 KB"], 64_000_000)
        random.Random(1).shuffle(names)
        packs, root = mount / "packs", folder / "store"
        run(figures.millrace, "store", "pack", mount / "plain", "-o", packs, "--codec", "none", stderr=subprocess.DEVNULL)
        shared = Place(folder, "shared", mount / "plain", names)
        seconds = {"shared": [], "first": [], "warmed first": [], "later": []}
        for _ in range(max(1, figures.rounds // 3)):
            forget()
            seconds["shared"].append(one_epoch(reader, shared))
            for kind in ("first", "warmed first"):
                forget()
                begin = time.perf_counter()
                with figures.store(packs, root) as environment:
                    if kind != "first":
                        run(figures.millrace, "store", "warm", env=environment | {"LD_PRELOAD": ""})
                    place = Place(folder, "store", root, names, environment)
                    one_epoch(reader, place)
                    seconds[kind].append(time.perf_counter() - begin)  # with the start of the service, and warm
                    later = one_epoch(reader, place)
            seconds["later"].append(later)
        for kind in ("first", "warmed first", "later"):
            figures.row(f"{kind} epoch of 16 KB files, against cold GlusterFS", ">= 5", seconds, "shared", kind)


# ---- larger


LARGER_BYTES = {"16 KB": 64_000_000, "128 KB": 128_000_000}

TCP_SENDER = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as out:
    piece = bytes(1 << 20)
    for _ in range(1024):
        out.sendall(piece)
"""


def tcp_bytes_per_second() -> float:
    """What two processes reach over loopback, which carries GlusterFS here."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = subprocess.Popen([sys.executable, "-c", TCP_SENDER, str(server.getsockname()[1])])
        connection, _ = server.accept()
        room, received, begin = bytearray(1 << 20), 0, time.perf_counter()
        while size := connection.recv_into(room):
            received += size
        seconds = time.perf_counter() - begin
        connection.close()
        sender.wait()
    return received / seconds


def larger_epoch(figures: Figures, reader: Path, folder: Path, packs: Path, names: list, capacity: int, order: bool) -> float:
    """Seconds, with the start of the service."""
    begin = time.perf_counter()
    with figures.store(packs, folder / "store", "--capacity", capacity) as environment:
        plain = environment | {"LD_PRELOAD": ""}
        order_file = folder / "order"
        order_file.write_text("".join(f"{name}\n" for name in names))
        words = [figures.millrace, "store", "warm", "--order", order_file]
        warm = subprocess.Popen(words, env=plain, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if order else None
        place = Place(folder, "store", folder / "store", names, environment)
        timed(reader, place.list, 1, 0, -1, env=environment)
        seconds = time.perf_counter() - begin
    if warm is not None:
        warm.wait()
    return seconds


def measure_larger(figures: Figures) -> None:
    for size, total in LARGER_BYTES.items():
        with gluster(figures.options.folder) as (mount, forget), tempfile.TemporaryDirectory(dir="/dev/shm") as name:
            folder = Path(name)
            reader = make_reader(folder)
            names = make_files(mount / "plain", SIZES[size], total)
            random.Random(1).shuffle(names)
            packs = mount / "packs"
            run(figures.millrace, "store", "pack", mount / "plain", "-o", packs, "--codec", "none", stderr=subprocess.DEVNULL)
            shared = Place(folder, "shared", mount / "plain", names)
            seconds = {"shared": [], "store": [], "order": [], "pack": []}
            for _ in range(max(1, figures.rounds // 3)):
                forget()
                seconds["shared"].append(timed(reader, shared.list, 1, 0, -1))
                for kind in ("store", "order"):
                    forget()
                    seconds[kind].append(larger_epoch(figures, reader, folder, packs, names, total // 4, kind == "order"))
                forget()
                seconds["pack"].append(timed("dd", f"if={packs / 'part-00000.pack'}", "of=/dev/null", "bs=4M",
                                             stderr=subprocess.DEVNULL))
            figures.row(f"epoch with room for a quarter, {size}, against cold GlusterFS", "", seconds, "shared", "store")
            figures.row(f"the same, with its order known, {size}", "", seconds, "shared", "order")
            speeds = {kind: total / statistics.median(times) / 1e6 for kind, times in seconds.items()}
            figures.note(f"larger, {size}: files of GlusterFS {speeds['shared']:.0f} MB/s, store {speeds['store']:.0f}, "
                         f"with its order {speeds['order']:.0f}, the pack from beginning to end {speeds['pack']:.0f}")
    figures.note(f"larger: TCP on loopback {tcp_bytes_per_second() / 1e6:.0f} MB/s")


# ---- remote


# ---- checkpoints


CHECKPOINT = """
import os, sys, time
root, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
content = os.urandom(size)
os.makedirs(root + "/ck", exist_ok=True)
begin = time.perf_counter()
for number in range(count):
    with open(root + "/ck/new", "wb", buffering=0) as file:
        for at in range(0, size, 1 << 20):
            file.write(content[at:at + (1 << 20)])
        os.fsync(file.fileno())
    os.rename(root + "/ck/new", f"{root}/ck/{number}")
print(time.perf_counter() - begin)
"""


def measure_buffer(figures: Figures) -> None:
    """One large checkpoint, and many small files."""
    with gluster(figures.options.folder) as (mount, _), tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        source, packs, root = mount / "source", mount / "packs", Path(name) / "store"
        make_files(source, 1000, 1000)
        run(figures.millrace, "store", "pack", source, "-o", packs, stderr=subprocess.DEVNULL)
        for what, count, size in (("a checkpoint of 256 MB", 1, 256_000_000), ("200 files of 64 KB", 200, 64_000)):
            seconds = {"direct": [], "buffered": [], "durable": []}
            for number in range(max(3, figures.rounds // 2)):
                for kind in ("direct", "buffered"):
                    save = mount / f"save-{size}-{number}-{kind}"
                    buffer = ("--buffer", "ck/*") if kind == "buffered" else ()
                    with figures.store(packs, root, "--save", save, *buffer) as environment:
                        begin = time.perf_counter()
                        seconds[kind].append(float(run(sys.executable, "-c", CHECKPOINT, root, count, size, env=environment)))
                        if buffer:
                            run(figures.millrace, "store", "flush", "--wait", env=environment | {"LD_PRELOAD": ""})
                            seconds["durable"].append(time.perf_counter() - begin)
            figures.row(f"{what}, --buffer: until the program goes on", "", seconds, "direct", "buffered")
            figures.row(f"{what}, --buffer: until all is durable", "", seconds, "direct", "durable")


def measure_remote(figures: Figures) -> None:
    """Bandwidth with 16 reads in flight as a ratio to MPI's; times in microseconds."""
    program = Path(figures.millrace).parent / "bench_store_remote"
    if not program.exists():
        raise Missing("bench_store_remote is not built")
    sys.path.insert(0, str(HERE.parents[1] / "tests" / "cluster"))
    import hosts as cluster
    if reason := cluster.why_not():
        raise Missing(reason)
    with cluster.Hosts(2) as hosts:
        done = hosts.mpirun(str(program))
    for line in done.stdout.splitlines():
        figures.note(f"remote: {line}")


MEASURES = {"read": measure_reads, "pack": measure_pack, "list": measure_list, "scale": measure_scale,
            "epoch": measure_epoch, "larger": measure_larger, "buffer": measure_buffer,
            "remote": measure_remote}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millrace")
    parser.add_argument("--folder", help="where to write; the default is that of temporary files")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="of the files that are read")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bytes", type=int, default=200_000_000, help="of each tree that is packed")
    parser.add_argument("--files", type=int, default=1_000_000, help="number of files to list")
    parser.add_argument("--many", type=int, default=10_000_000, help="number of files in a catalogue that has no files")
    parser.add_argument("--json", action="store_true")
    figures = Figures(parser.parse_args())
    for name in figures.options.only:
        try:
            MEASURES[name](figures)
        except Missing as reason:
            figures.missing(name, str(reason))
    if figures.options.json:
        print(json.dumps(figures.rows, indent=1))


if __name__ == "__main__":
    main()
