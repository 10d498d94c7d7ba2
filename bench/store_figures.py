#!/usr/bin/env python3
"""Speed of `millrace store pack` against `cp -r` of the same tree: interleaved, hot, one run.

    bench/store_figures.py build/release/bin/millrace [--folder DIR] [--bytes N] [--rounds N]

Both write to the same file system. `pack` makes its files durable and `cp` does not, so the time of `sync -f` on the
copy is printed as well. The target is the ratio of cp to pack --codec none, at least 0.7.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

SIZES = {"16 KB": 16_000, "128 KB": 128_000, "1 MB": 1_000_000, "64 MB": 64_000_000}


def make_tree(root: Path, file_bytes: int, total_bytes: int) -> int:
    count = max(1, total_bytes // file_bytes)
    for i in range(count):
        folder = root / f"{i % 16:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:07}.jpg").write_bytes(os.urandom(file_bytes))
    return count


def timed(*command) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def measure(millrace: str, folder: Path, file_bytes: int, arguments) -> None:
    source = folder / "source"
    count = make_tree(source, file_bytes, arguments.bytes)
    seconds = {"cp": [], "cp and sync": [], "none": [], "auto": []}
    os.sync()
    for _ in range(arguments.rounds):
        for codec in ("none", "auto"):
            seconds[codec].append(timed(millrace, "store", "pack", source, "-o", folder / "pack", "--codec", codec))
            shutil.rmtree(folder / "pack")
        copied = timed("cp", "-r", source, folder / "copy")
        seconds["cp"].append(copied)
        seconds["cp and sync"].append(copied + timed("sync", "-f", folder / "copy"))
        shutil.rmtree(folder / "copy")
    shutil.rmtree(source)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    ratios = [f"{median[name] / median['none']:.2f}" for name in ("cp", "cp and sync")]
    print(f"{count} files of {file_bytes:,} bytes: "
          + ", ".join(f"{name} {value:.2f} s" for name, value in median.items())
          + f"; pack none is {ratios[0]} times as fast as cp -r, {ratios[1]} times as fast as cp -r and sync", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millrace")
    parser.add_argument("--folder", help="where to write; the default is that of temporary files")
    parser.add_argument("--bytes", type=int, default=200_000_000, help="of each tree")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for name, file_bytes in SIZES.items():
        with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="millrace-store-") as folder:
            measure(os.path.abspath(arguments.millrace), Path(folder), file_bytes, arguments)


if __name__ == "__main__":
    main()
