"""HDF5 files against h5py and h5dump."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

import numpy
from format_case import IMAGES, FormatTest, array_of, main

try:
    import h5py
except ImportError:
    h5py = None


@unittest.skipUnless(h5py and os.environ.get("HAS_HDF5"), "needs h5py, and a build with HDF5")
class Hdf5Test(FormatTest):
    def write(self, libver="earliest", name="a.h5", **datasets) -> Path:
        """Each dataset is an array, or (array, options of create_dataset)."""
        with h5py.File(self.folder / name, "w", libver=libver) as file:
            for name_in_file, what in datasets.items():
                array, options = what if isinstance(what, tuple) else (what, {})
                file.create_dataset(name_in_file.replace("__", "/"), data=array, **options)
        return self.folder / name

    def assert_rows(self, path: Path, expected: dict, option="-"):
        samples = self.read("hdf5", path, option=option)
        self.assertEqual(len(samples), len(next(iter(expected.values()))))
        for i, sample in enumerate(samples):
            self.assertEqual(sorted(sample["fields"]), sorted(expected))
            for name, array in expected.items():
                read = array_of(sample["fields"][name])
                self.assertEqual((read.dtype, read.shape), (array.dtype, array[i].shape))
                numpy.testing.assert_array_equal(read, array[i])

    def test_we_read_every_type(self):
        for kind in ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "?"]:
            array = (numpy.arange(60) % 2 if kind == "?" else numpy.arange(60)).astype(kind).reshape(5, 3, 4)
            for libver in ("earliest", "latest"):
                self.assert_rows(self.write(libver, x=array), {"x": array})

    def test_we_read_other_byte_orders_by_libhdf5(self):
        small, large = numpy.arange(12, dtype=">i4").reshape(4, 3), numpy.arange(80000, dtype=">f8").reshape(4, 20000)
        self.assert_rows(self.write(a=small, b=large), {"a": small.astype("<i4"), "b": large.astype("<f8")})

    def test_we_read_every_layout(self):
        numbers = numpy.random.default_rng(1)
        array = numbers.integers(0, 50, (37, 23, 11)).astype("i4")
        chunked = {"chunks": (5, 7, 4)}
        layouts = [{}, {"chunks": (1, 23, 11)}, {"chunks": (4, 23, 11)}, chunked, {"chunks": (64, 23, 32), "maxshape": (None, None, None)}]
        filters = [{}, {"fletcher32": True}, {"shuffle": True}]
        if os.environ.get("HAS_ZLIB"):
            filters += [{"compression": "gzip"}, {"compression": "gzip", "shuffle": True},
                        {"compression": "gzip", "shuffle": True, "fletcher32": True}]
        filters += [{"compression": "lzf"}, {"scaleoffset": 8}]  # by libhdf5
        for layout in layouts:
            for how in filters if layout else [{}]:
                for libver in ("earliest", "latest"):
                    with self.subTest(layout=layout, how=how, libver=libver):
                        self.assert_rows(self.write(libver, x=(array, {**layout, **how})), {"x": array})

    def test_we_read_all_indexes_of_chunks(self):
        array = numpy.arange(600 * 3, dtype="u2").reshape(600, 3)
        for maxshape in ((600, 3), (None, 3), (None, None)):  # fixed array, extensible array, B-tree
            for libver in ("earliest", "latest"):
                self.assert_rows(self.write(libver, x=(array, {"chunks": (1, 3), "maxshape": maxshape})), {"x": array})

    def test_chunks_that_were_never_written_have_the_fill_value(self):
        with h5py.File(self.folder / "a.h5", "w") as file:
            file.create_dataset("chunked", (6, 4), "i2", chunks=(2, 4), fillvalue=-7)[2:4] = 5
            file.create_dataset("contiguous", (6, 4), "f4", fillvalue=1.5)
            expected = {name: file[name][:] for name in file}
        self.assert_rows(self.folder / "a.h5", expected)

    def test_rows_of_all_datasets_of_one_length_make_a_sample(self):
        x, y, mean = numpy.arange(40, dtype="f4").reshape(10, 4), numpy.arange(10), numpy.zeros(3)
        path = self.write(train__x=x, train__labels=y, mean=mean, version=3, names=numpy.array([b"one"] * 10))
        self.assert_rows(path, {"train/x": x, "train/labels": y, "names": numpy.tile(numpy.frombuffer(b"one", "u1"), (10, 1))})
        self.assert_rows(path, {"mean": mean}, option="dataset=mean")
        self.assertIn("has 3 rows, but 'train/x' has 10", self.refused("hdf5", path, "dataset=train/x,dataset=mean"))
        self.assertIn("has no dataset 'train/y'", self.refused("hdf5", path, "dataset=train/y"))

    def test_a_file_can_be_a_sample(self):
        x, scalar, empty = numpy.arange(24, dtype="f8").reshape(2, 3, 4), numpy.float32(2.5), numpy.zeros((0, 3), "i4")
        path = self.write(x=(x, {"chunks": (1, 2, 3)}), scalar=scalar, empty=empty)
        (sample,) = self.read("hdf5", path, option="whole")
        for name, array in {"x": x, "scalar": scalar, "empty": empty}.items():
            numpy.testing.assert_array_equal(array_of(sample["fields"][name]), array)

    def test_empty_datasets_have_no_samples(self):
        for options in ({}, {"chunks": (1, 3), "maxshape": (None, 3)}):
            self.assertEqual(self.read("hdf5", self.write(x=(numpy.zeros((0, 3)), options))), [])
        self.assertEqual(len(self.read("hdf5", self.write(x=numpy.zeros((4, 0))))), 4)

    def test_we_read_what_dlio_writes(self):
        # hdf5_generator.py: libver latest, records_k of (samples, d1, d2), labels of zeros
        records = numpy.random.default_rng(2).integers(0, 255, (3, 15, 17)).astype("u1")
        path = self.write("latest", records_0=records, records_1=records[::-1], labels=[0] * 3)
        self.assert_rows(path, {"records_0": records, "records_1": records[::-1], "labels": numpy.zeros(3, "i8")})

    def test_a_file_after_a_user_block_is_read(self):
        array = numpy.arange(20, dtype="i4").reshape(5, 4)
        for chunks in (None, (2, 4)):
            with h5py.File(self.folder / "a.h5", "w", userblock_size=1024) as file:
                file.create_dataset("x", data=array, chunks=chunks)
            self.assert_rows(self.folder / "a.h5", {"x": array})

    def test_what_is_not_numbers_is_named(self):
        path = self.write(text=numpy.array(["a", "b"], dtype=object), pairs=numpy.zeros(2, [("a", "f4"), ("b", "i4")]))
        refused = self.refused("hdf5", path)
        self.assertIn("'pairs' (compound), 'text' (of any length)", refused)

    def test_h5py_reads_what_we_write(self):
        for option in ("-", "count", "gzip", "count,gzip,shuffle", "chunk", "count,chunk"):
            path = self.ours("b.h5", "hdf5", option)
            with h5py.File(path) as file:
                self.assertEqual(sorted(file), ["image", "label"])
                self.assertEqual((file["image"].dtype, file["label"].dtype), ("<f4", "<i8"))
                numpy.testing.assert_array_equal(file["image"][:], numpy.array(IMAGES, "f4"))
                numpy.testing.assert_array_equal(file["label"][:], [[0], [1], [2]])
                self.assertEqual(file["image"].chunks is None, option == "count")
                self.assertEqual(file["image"].compression, "gzip" if "gzip" in option else None)
            self.assert_rows(path, {"image": numpy.array(IMAGES, "f4"), "label": numpy.array([[0], [1], [2]])})
            self.assertEqual(path.read_bytes(), self.ours("c.h5", "hdf5", option).read_bytes())
        with h5py.File(self.ours("d.h5", "hdf5", "whole")) as file:
            numpy.testing.assert_array_equal(file["image"][:], numpy.array(IMAGES[0], "f4"))

    @unittest.skipUnless(shutil.which("h5dump"), "needs h5dump")
    def test_h5dump_reads_what_we_write(self):
        for option in ("count", "gzip,shuffle"):
            path = self.ours("b.h5", "hdf5", option)
            dump = subprocess.run(["h5dump", "-d", "image", "-y", "-w", "0", path], capture_output=True, text=True, check=True)
            self.assertIn("H5T_IEEE_F32LE", dump.stdout)
            self.assertIn("0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 7", " ".join(dump.stdout.split()).replace(" }", ""))

    def test_damaged_files_are_named(self):
        path = self.write(x=(numpy.arange(9000, dtype="i8").reshape(9, 1000), {"chunks": (1, 1000), "fletcher32": True}))
        data = bytearray(path.read_bytes())
        path.write_bytes(data[:-100])
        self.assertIn("truncated", self.refused("hdf5", path))
        path.write_bytes(b"no HDF5 here" * 100)
        self.assertIn("cannot be opened as HDF5", self.refused("hdf5", path))
        at = data.index((4000).to_bytes(8, "little"))
        data[at] ^= 1
        path.write_bytes(data)
        self.assertRegex(self.refused("hdf5", path), r"row 4: dataset 'x': the chunk at byte \d+: its 8000 bytes have the checksum")


if __name__ == "__main__":
    main()
