#!/usr/bin/env python3
"""What reading one sample costs in Python, by the way it is stored: the figures behind the limits of `millrace advise`.

    benchmarks/sample_costs.py            # needs numpy and h5py

Prints the best of 5 rounds, in microseconds, from the page cache. Samples are 768 floats (3 KiB)."""

import gzip
import os
import tempfile
import time

import h5py
import numpy

VALUES = 768
ROWS = 500


def microseconds(work, count):
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for index in range(count):
            work(index % ROWS)
        best = min(best, time.perf_counter() - began)
    return best / count * 1e6


def open_hdf5(path):
    with h5py.File(path, "r") as file:
        return file["x"]


def main():
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        rows = numpy.random.default_rng(1).integers(0, 9, (ROWS, VALUES)).astype(numpy.float32)
        numpy.save("all.npy", rows)
        numpy.save("one.npy", rows[0])
        numpy.savez_compressed("one.npz", x=rows[0])
        with h5py.File("all.h5", "w") as file:
            file.create_dataset("x", data=rows, chunks=(1, VALUES))
        with h5py.File("chunks.h5", "w") as file:
            file.create_dataset("x", data=rows, chunks=(ROWS // 2, VALUES), compression="gzip")
        packed = gzip.compress(rows.tobytes())
        mapped = numpy.load("all.npy", mmap_mode="r")
        plain = h5py.File("all.h5", "r")["x"]
        chunked = h5py.File("chunks.h5", "r", rdcc_nbytes=0)["x"]
        costs = [("a row of a mapped .npy file", lambda i: numpy.array(mapped[i]), 5000),
                 ("np.load of a .npy file", lambda _: numpy.load("one.npy"), 1000),
                 ("np.load of a compressed .npz file", lambda _: numpy.load("one.npz")["x"], 500),
                 ("HDF5: a row, chunks of one row", lambda i: plain[i], 2000),
                 ("HDF5: a row, gzip chunks of 250 rows", lambda i: chunked[i], 100),
                 ("HDF5: open file and dataset, close", lambda _: open_hdf5("all.h5"), 300),
                 ("open and close a file", lambda _: os.close(os.open("one.npy", os.O_RDONLY)), 5000)]
        for name, work, count in costs:
            print(f"{name:38} {microseconds(work, count):9.1f}")
        rate = rows.nbytes / microseconds(lambda _: gzip.decompress(packed), 5)
        print(f"{'gzip, decompressed MB/s':38} {rate:9.0f}")


if __name__ == "__main__":
    main()
