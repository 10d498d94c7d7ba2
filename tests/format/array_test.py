"""Arrays: npy, npz, indexed and raw files against numpy and zipfile; folders against torchvision."""

import io
import os
import struct
import zipfile

import numpy
from format_case import IMAGES, FormatTest, array_of, main, run
from tfrecord_file import crc32c


class NumpyTest(FormatTest):
    def test_numpy_reads_our_npy(self):
        numpy.testing.assert_array_equal(numpy.load(self.ours("a.npy", "npy")), numpy.array(IMAGES[0], "f4"))
        rows = numpy.load(self.ours("b.npy", "npy", "rows"), mmap_mode="r")
        self.assertEqual(rows.dtype, numpy.float32)
        numpy.testing.assert_array_equal(rows, numpy.array(IMAGES, "f4"))

    def test_we_read_npy_of_every_type_and_version(self):
        types = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "?"]
        shapes = [(), (0,), (5,), (2, 3), (1, 2, 3, 4)]
        for kind in types:
            for shape in shapes:
                array = (numpy.arange(numpy.prod(shape, dtype=int)) % 2).astype(kind).reshape(shape)
                for version in ((1, 0), (2, 0), (3, 0)):
                    with open(self.folder / "a.npy", "wb") as file:
                        numpy.lib.format.write_array(file, array, version=version)
                    (sample,) = self.read("npy", self.folder / "a.npy")
                    read = array_of(sample["fields"]["data"])
                    self.assertEqual((read.dtype, read.shape), (array.dtype, array.shape))
                    numpy.testing.assert_array_equal(read, array)

    def test_we_read_rows(self):
        array = numpy.arange(24, dtype="i4").reshape(4, 3, 2)
        numpy.save(self.folder / "a.npy", array)
        samples = self.read("npy", self.folder / "a.npy", option="rows")
        self.assertEqual([sample["fields"]["data"]["bytes"] for sample in samples], [row.tobytes().hex() for row in array])
        self.assertIn("a.npy: record 3 at byte 200", samples[3]["name"])

    def test_arrays_not_in_plain_c_order_are_refused_with_the_next_step(self):
        path = self.folder / "a.npy"
        cases = {
            "array.astype('<f4')": numpy.zeros(3, ">f4"),
            "ascontiguousarray": numpy.asfortranarray(numpy.zeros((2, 3))),
            "named fields": numpy.zeros(3, [("a", "f4")]),
            "'|O'": numpy.array([{}], dtype=object),
            "'<U3'": numpy.array(["abc"]),
            "'<c8'": numpy.zeros(3, "c8"),
        }
        for message, array in cases.items():
            numpy.save(path, array)
            self.assertIn(message, self.refused("npy", path))

    def test_numpy_and_zipfile_read_our_npz(self):
        path = self.ours("a.npz", "npz")
        with numpy.load(path) as arrays:
            self.assertEqual(sorted(arrays), ["image", "label"])
            numpy.testing.assert_array_equal(arrays["image"], numpy.array(IMAGES[0], "f4"))
            numpy.testing.assert_array_equal(arrays["label"], numpy.array([0]))
        with zipfile.ZipFile(path) as members:
            self.assertIsNone(members.testzip())

    def test_we_read_stored_and_deflated_npz(self):
        arrays = {"x": numpy.arange(5000, dtype="f8"), "y": numpy.zeros((3, 4), "u1"), "empty": numpy.zeros(0, "i4")}
        savers = [numpy.savez] + ([numpy.savez_compressed] if os.environ.get("HAS_ZLIB") else [])
        for save in savers:
            save(self.folder / "a.npz", **arrays)
            (sample,) = self.read("npz", self.folder / "a.npz")
            self.assertEqual(sorted(sample["fields"]), sorted(arrays))
            for name, array in arrays.items():
                numpy.testing.assert_array_equal(array_of(sample["fields"][name]), array)

    def test_we_read_zip64(self):
        content = io.BytesIO()
        numpy.lib.format.write_array(content, numpy.arange(3, dtype="i8"))
        with zipfile.ZipFile(self.folder / "a.npz", "w") as members:
            with members.open("x.npy", "w", force_zip64=True) as member:
                member.write(content.getvalue())
        (sample,) = self.read("npz", self.folder / "a.npz")
        self.assertEqual(array_of(sample["fields"]["x"]).tolist(), [0, 1, 2])

    def test_a_damaged_array_is_named(self):
        numpy.savez(self.folder / "a.npz", x=numpy.arange(100))
        data = bytearray((self.folder / "a.npz").read_bytes())
        data[300] ^= 1
        (self.folder / "a.npz").write_bytes(data)
        self.assertIn("array 'x.npy': its 928 bytes have the checksum", self.refused("npz", self.folder / "a.npz"))


class DlioTest(FormatTest):
    def test_numpy_reads_our_indexed_binary_as_dlio_does(self):
        for form in ("indexed_binary", "mmap_indexed_binary"):
            path = self.ours(f"img_0_of_1.{form}", form)
            offsets = numpy.fromfile(f"{path}.off.idx", "<u8")
            sizes = numpy.fromfile(f"{path}.sz.idx", "<u8")
            self.assertEqual((offsets.tolist(), sizes.tolist()), ([0, 24, 48], [24, 24, 24]))
            data = numpy.memmap(path, mode="r")
            numpy.testing.assert_array_equal(data[24:48].view("<f4"), numpy.array(IMAGES[1], "f4").ravel())

    def test_we_read_what_numpy_writes(self):
        path = self.folder / "a.indexed_binary"
        data = numpy.arange(100, dtype="u1")
        data.tofile(path)
        for offsets, sizes in (([0, 50], [50, 50]), ([0, 10, 10], [10, 0, 90])):
            numpy.array(offsets, "<u8").tofile(f"{path}.off.idx")
            numpy.array(sizes, "<u8").tofile(f"{path}.sz.idx")
            samples = self.read("indexed_binary", path)
            self.assertEqual([array_of(sample["fields"]["data"]).tolist() for sample in samples],
                             [data[o:o + s].tolist() for o, s in zip(offsets, sizes)])
        os.unlink(f"{path}.sz.idx")
        self.assertIn("a.indexed_binary.sz.idx", self.refused("indexed_binary", path))


class OwnTest(FormatTest):
    def test_indexed_follows_its_format_page(self):
        path = self.ours("a.mrd", "indexed")
        data, index = path.read_bytes(), path.with_suffix(".mrx").read_bytes()
        self.assertEqual((data[:8], index[:8]), (b"\0RMIDATA", b"\0RMINDEX"))
        version, flags, identity, count, size = struct.unpack("<IIQQQ", index[8:40])
        self.assertEqual((version, flags, count, size), (1, 1, 3, len(data)))
        self.assertEqual(struct.unpack("<Q", data[16:24])[0], identity)
        self.assertEqual(struct.unpack("<I", index[60:64])[0], crc32c(index[:60]))
        self.assertEqual(struct.unpack("<I", index[40:44])[0], crc32c(index[64:]))
        self.assertEqual(struct.unpack("<3Q3I3i", index[64:]), (88, 112, 136, *(crc32c(data[at:at + 24]) for at in (64, 88, 112)), 0, 1, 2))
        samples = self.read("indexed", path)
        self.assertEqual([sample["label"] for sample in samples], [0, 1, 2])
        self.assertEqual(bytes.fromhex(samples[1]["fields"]["data"]["bytes"]), struct.pack("<6f", *range(1, 7)))

    def test_raw_is_plain_bytes(self):
        self.assertEqual(self.ours("a.bin", "raw", "24").read_bytes(),
                         b"".join(struct.pack("<6f", *range(i, i + 6)) for i in range(3)))

    def test_folders_are_read_as_in_torchvision(self):
        from torchvision.datasets import ImageFolder
        names = ["b/2.png", "b/10.png", "b/x/1.png", "b/x-y/1.png", "B/1.png", "\u00e9/1.PNG", "a/.hidden.png", "a/z.txt"]
        for name in names:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).touch()
        (self.folder / "a/link.png").symlink_to(self.folder / "b/2.png")
        (self.folder / "c").symlink_to(self.folder / "b")
        theirs = "".join(f"{label} {name}\n" for name, label in ImageFolder(str(self.folder)).samples)
        self.assertEqual(run("folder", self.folder, ".png").stdout, theirs)


if __name__ == "__main__":
    main()
