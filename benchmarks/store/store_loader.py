#!/usr/bin/env python3
"""The loader on a store, against the same loader on the same files on tmpfs and on one packed file.

    PYTHONPATH=build/release/python benchmarks/store/store_loader.py build/release/bin/millrace [--rounds N] [--json]

Raw samples of 16 and 128 KB, shuffled, batches of 64, 1 and 2 threads, all in memory (/dev/shm). A round runs each variant
in a process of its own, one after the other; a process reads one epoch and measures the next three. Every figure is the
median over the rounds of the ratio to tmpfs. The last variant has partitions that are not on this node: the service
fetches files ahead of the loader, with room for a quarter of them.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = {"16 KB": 16_000, "128 KB": 128_000}
DATA_BYTES = 128_000_000

READER = """
import sys, time
import millrace
kind, path, size, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if kind == "packed":
    data = millrace.Files([path], format="raw", shape=(size,))
else:
    data = millrace.RawFolder(path, shape=(size,), has_classes=False)
loader = millrace.DataLoader(data, 64, shuffle=True, num_workers=threads, output="numpy")
for _ in loader:
    pass
begin, cpu = time.perf_counter(), time.process_time()
for _ in range(3):
    for _ in loader:
        pass
took = time.perf_counter() - begin
print(3 * len(data) / took, 1000 * (time.process_time() - cpu) / (3 * len(data)))
"""


def make_files(folder: Path, size: int) -> None:
    generator = random.Random(size)
    (folder / "files").mkdir(parents=True)
    with open(folder / "all.raw", "wb") as packed:
        for i in range(DATA_BYTES // size):
            sample = generator.randbytes(size)
            (folder / "files" / f"{i:06}").write_bytes(sample)
            packed.write(sample)


class Store:
    def __init__(self, millrace: str, folder: Path, name: str, codec: str, room: int = 0) -> None:
        self.millrace = millrace
        packs, self.root = folder / f"packs-{name}", folder / f"data-{name}"
        run(millrace, "store", "pack", folder / "files", "-o", packs, "--codec", codec)
        words = ["--origin", folder / "files", "--capacity", str(room)] if room else []
        if room:
            for part in packs.glob("*.pack"):
                part.unlink()
        lines = run(millrace, "store", "up", "--pack", packs, "--at", self.root, *words).splitlines()
        exports = dict(line.removeprefix("export ").split("=", 1) for line in lines)
        self.node = exports["MILLRACE_STORE"].strip("'")

    def down(self) -> None:
        run(self.millrace, "store", "down", "--node", self.node)


def run(*command, **settings) -> str:
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **settings).stdout


def measure(kind: str, path: Path, size: int, threads: int, node: str = "") -> float:
    environment = {**os.environ, "MILLRACE_STORE": node}
    out = run(sys.executable, "-c", READER, kind, path, size, threads, env=environment)
    return float(out.split()[0])


def figures(millrace: str, folder: Path, size: int, rounds: int) -> list:
    make_files(folder, size)
    stores = {"store": Store(millrace, folder, "raw", "none"),
              "store, a quarter fits": Store(millrace, folder, "small", "none", DATA_BYTES // 4)}
    rows = []
    try:
        for threads in (1, 2):
            speeds: dict = {}
            for _ in range(rounds):
                once = {"tmpfs": measure("folder", folder / "files", size, threads),
                        "packed": measure("packed", folder / "all.raw", size, threads)}
                for name, store in stores.items():
                    once[name] = measure("folder", store.root, size, threads, store.node)
                for name, speed in once.items():
                    speeds.setdefault(name, []).append((speed, speed / once["tmpfs"]))
            for name, all_speeds in speeds.items():
                rows.append({"size": size, "threads": threads, "what": name,
                             "samples_per_s": round(statistics.median(speed for speed, _ in all_speeds)),
                             "ratio": round(statistics.median(ratio for _, ratio in all_speeds), 2)})
    finally:
        for store in stores.values():
            store.down()
    return rows


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("millrace")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--sizes", nargs="*", default=list(SIZES))
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    rows = []
    for size in options.sizes:
        folder = Path(tempfile.mkdtemp(prefix="millrace-", dir="/dev/shm"))
        try:
            rows += figures(options.millrace, folder, SIZES[size], options.rounds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        print(f"{row['size']:>7} B  {row['threads']} threads  {row['what']:<22} {row['samples_per_s']:>9,} /s  "
              f"{row['ratio']:.2f} of tmpfs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
