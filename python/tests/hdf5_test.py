#!/usr/bin/env python3
"""HDF5 files as datasets: compared with what h5py reads, also while h5py reads in the same process, and after a fork."""

import os
import pickle
import tempfile
import threading
import unittest
from pathlib import Path

import numpy

import millrace

try:
    import h5py
except ImportError:
    h5py = None


@unittest.skipUnless(h5py, "needs h5py")
class Hdf5Test(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.x = numpy.random.default_rng(1).integers(0, 9, (50, 6, 5)).astype("f4")
        self.labels = numpy.arange(50)
        for name, rows in (("a.h5", slice(0, 20)), ("b.h5", slice(20, 50))):
            with h5py.File(self.folder / name, "w") as file:
                file.create_dataset("x", data=self.x[rows], chunks=(4, 6, 5), compression="gzip", shuffle=True)
                file.create_dataset("labels", data=self.labels[rows])
        try:
            millrace.Files([self.folder / "a.h5"])
        except Exception as error:
            if "this build" in str(error):
                self.skipTest(str(error))
            raise
        self.files = [self.folder / "a.h5", self.folder / "b.h5"]

    def assert_epoch(self, loader):
        seen = []
        for labels, x in loader:  # sorted by name
            numpy.testing.assert_array_equal(numpy.asarray(x), self.x[numpy.asarray(labels)])
            seen += numpy.asarray(labels).tolist()
        self.assertEqual(sorted(seen), list(range(50)))

    def test_rows_are_samples(self):
        data = millrace.Files(self.files, fields={"x": "float32", "labels": "int64"})
        self.assertEqual(len(data), 50)
        x, label = data[33]
        numpy.testing.assert_array_equal(x, self.x[33])
        self.assertEqual(int(label), 33)
        for engine in ("auto", "posix", "direct"):
            for workers in (1, 3):
                data = millrace.Files(self.files, engine=engine)
                self.assert_epoch(millrace.DataLoader(data, batch_size=7, shuffle=True, num_workers=workers))

    def test_a_directory_and_a_subset(self):
        data = millrace.Files(self.folder, format="hdf5")
        self.assert_epoch(millrace.DataLoader(data, batch_size=8))
        part = data.subset([3, 40])
        numpy.testing.assert_array_equal(part[1][1], self.x[40])
        numpy.testing.assert_array_equal(pickle.loads(pickle.dumps(data))[49][1], self.x[49])

    def test_only_named_fields_are_read(self):
        data = millrace.Files(self.files, fields=["labels"])
        self.assertEqual(int(data[21]), 21)
        with self.assertRaisesRegex(Exception, "a.h5: has no dataset 'lables'; did you mean 'labels'"):
            millrace.Files(self.files, fields=["lables"])

    def test_a_file_can_be_a_sample(self):
        data = millrace.Files([self.folder / "a.h5"] * 2, rows=False)
        self.assertEqual(len(data), 2)
        numpy.testing.assert_array_equal(data[1][1], self.x[:20])

    def test_h5py_reads_at_the_same_time(self):
        stop = threading.Event()
        wrong = []

        def read():
            while not stop.is_set():
                with h5py.File(self.folder / "b.h5") as file:
                    if not numpy.array_equal(file["x"][5], self.x[25]):
                        wrong.append("x")

        thread = threading.Thread(target=read)
        thread.start()
        try:
            for _ in range(20):
                self.assert_epoch(millrace.DataLoader(millrace.Files(self.files), batch_size=16, num_workers=2))
        finally:
            stop.set()
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_forked_child_reads(self):
        data = millrace.Files(self.files)
        data[0]
        child = os.fork()
        if child == 0:
            same = numpy.array_equal(data[30][1], self.x[30])
            again = numpy.array_equal(millrace.Files(self.files)[7][1], self.x[7])
            os._exit(0 if same and again else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_damaged_row_is_named(self):
        data = bytearray((self.folder / "a.h5").read_bytes())
        with h5py.File(self.folder / "a.h5") as file:
            chunk = file["x"].id.get_chunk_info_by_coord((8, 0, 0))
        data[chunk.byte_offset + 10:chunk.byte_offset + 30] = bytes(20)
        (self.folder / "c.h5").write_bytes(data)
        files = millrace.Files([self.folder / "c.h5"])
        files[7]
        with self.assertRaisesRegex(Exception, f"c.h5: row 9: dataset 'x': the chunk at byte {chunk.byte_offset}: "):
            files[9]


if __name__ == "__main__":
    unittest.main()
