#!/usr/bin/env python3
"""What it costs to read samples from HDF5 files: Millrace compared with h5py, in one process each, in one run.

    benchmarks/hdf5_peers.py                       # from the root, after cmake --workflow --preset bench
    benchmarks/hdf5_peers.py --build build/dev     # another build; its Python must have numpy and h5py

Reads samples of 338 x 338 bytes (DLIO's resnet50, 115 KB) in a random order, from the page cache: contiguous, in chunks of
one sample, and in gzip chunks of one and of 16 samples, with and without shuffle. h5py reads dataset[i] with one thread,
the same into batches of 64, and with as many threads as there are CPUs: its lock lets only one of them work. Millrace reads
the same with as many threads, through its loader, in batches of 64; `source` reads sample by sample with one thread. Rounds
are interleaved, and the best of each is shown. The ratio needs free CPUs: other work on the machine takes them from the
loader's threads first."""

import argparse
import os
import random
import sys
import tempfile
import threading
import time

SIDE = 338
BATCH = 64


def make_files(directory, count):
    import h5py
    import numpy
    # Bytes that compress to about a half, as images of raw pixels do.
    noise = numpy.random.default_rng(1).integers(0, 16, (count, SIDE, SIDE)).astype("u1")
    layouts = {"contiguous": {}, "chunks of 1": {"chunks": (1, SIDE, SIDE)},
               "gzip chunks of 1": {"chunks": (1, SIDE, SIDE), "compression": "gzip"},
               "gzip chunks of 1, shuffled floats": {"chunks": (1, SIDE // 2, SIDE // 2), "compression": "gzip", "shuffle": True},
               "gzip chunks of 16, in order": {"chunks": (16, SIDE, SIDE), "compression": "gzip"}}
    for name, options in layouts.items():
        data = noise
        if "floats" in name:
            data = noise[:, :SIDE // 2, :SIDE // 2].astype("f4")
        with h5py.File(f"{directory}/{name}.h5", "w", libver="latest") as file:
            file.create_dataset("records_0", data=data, **options)
            file.create_dataset("labels", data=[0] * count)
    return list(layouts)


def read_h5py(path, order, thread_count):
    import h5py
    with h5py.File(path, "r") as file:
        records, labels = file["records_0"], file["labels"]
        began = time.perf_counter()

        def work(part):
            for index in part:
                records[index], labels[index]

        threads = [threading.Thread(target=work, args=(order[i::thread_count],)) for i in range(thread_count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - began


def read_h5py_batches(path, order):
    """As a trainer needs them: rows of one array per batch."""
    import h5py
    import numpy
    with h5py.File(path, "r") as file:
        records, labels = file["records_0"], file["labels"]
        began = time.perf_counter()
        for first in range(0, len(order), BATCH):
            batch = numpy.empty((BATCH, *records.shape[1:]), records.dtype)
            for row, index in enumerate(order[first:first + BATCH]):
                batch[row], _ = records[index], labels[index]
        return time.perf_counter() - began


def read_source(path, order):
    import millrace
    files = millrace.Files([path])
    source = files._source
    began = time.perf_counter()
    for index in order:
        source.read(index)
    return time.perf_counter() - began


def read_loader(path, is_ordered, thread_count):
    import millrace
    files = millrace.Files([path])
    loader = millrace.DataLoader(files, batch_size=BATCH, shuffle=not is_ordered, num_workers=thread_count)
    for _ in loader:  # the first epoch starts threads and opens files
        pass
    began = time.perf_counter()
    seen = sum(len(labels) for labels, _ in loader)
    taken = time.perf_counter() - began
    if seen != len(files):
        raise AssertionError(f"{seen} samples instead of {len(files)}")
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="the build tree with the Python package")
    parser.add_argument("--count", type=int, default=1024, help="samples of each file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", help="where to put the files; default: a temporary directory")
    given = parser.parse_args()
    sys.path.insert(0, f"{given.build}/python")
    threads = len(os.sched_getaffinity(0))
    ways = {"h5py": lambda path, order, _: read_h5py(path, order, 1),
            "h5py, batches": lambda path, order, _: read_h5py_batches(path, order),
            f"h5py, {threads} threads": lambda path, order, _: read_h5py(path, order, threads),
            "source, 1 thread": lambda path, order, _: read_source(path, order),
            f"loader, {threads} threads": lambda path, _, is_ordered: read_loader(path, is_ordered, threads)}
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        layouts = make_files(directory, given.count)
        print(f"{'samples/s':36}" + "".join(f"{name:>20}" for name in ways) + f"{'loader / h5py':>16}")
        for layout in layouts:
            is_ordered = "in order" in layout
            order = list(range(given.count))
            if not is_ordered:
                random.Random(1).shuffle(order)
            best = dict.fromkeys(ways, float("inf"))
            for _ in range(given.rounds):
                for name, way in ways.items():
                    best[name] = min(best[name], way(f"{directory}/{layout}.h5", order, is_ordered))
            rates = {name: given.count / taken for name, taken in best.items()}
            ratio = rates[f"loader, {threads} threads"] / rates["h5py"]
            print(f"{layout:36}" + "".join(f"{rate:20,.0f}" for rate in rates.values()) + f"{ratio:16.1f}")


if __name__ == "__main__":
    main()
