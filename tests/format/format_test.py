"""Files of samples compared with numpy, tarfile, zipfile, csv, json, torchvision and readers of TFRecord and of Megatron's
index written from their descriptions: they read what we write, and we read what they write.

Usage: format_test.py FORMAT_SAMPLES [unittest arguments]"""

import csv
import gzip
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

import numpy
from tfrecord_file import crc32c, masked, tfrecords

try:
    import h5py
except ImportError:
    h5py = None

PROGRAM = sys.argv[1]
GOLDEN = Path(__file__).resolve().parent.parent / "golden"
IMAGES = [[[i, i + 1, i + 2], [i + 3, i + 4, i + 5]] for i in range(3)]


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def messages(data: bytes) -> list[tuple[int, bytes]]:
    """The fields of a message, all of which are length-delimited."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        assert key & 7 == 2, key
        length, at = varint(data, at)
        found.append((key >> 3, data[at:at + length]))
        at += length
    return found


def example(payload: bytes) -> dict:
    """A tf.train.Example as a dict of lists, decoded from the description of its message."""
    features = {}
    ((_, all_features),) = messages(payload)
    for _, entry in messages(all_features):
        (_, name), (_, feature) = messages(entry)
        ((kind, values),) = messages(feature)
        values = [value for _, value in messages(values)]
        if kind == 2:
            values = list(struct.unpack(f"<{len(values[0]) // 4}f", values[0]))
        if kind == 3:
            packed, at, values = values[0], 0, []
            while at < len(packed):
                value, at = varint(packed, at)
                values.append(value - (1 << 64 if value >> 63 else 0))
        features[name.decode()] = values
    return features


def run(*words) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=100, check=False)


class FormatTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def ours(self, name: str, form: str, option="-") -> Path:
        done = run("write", form, option, self.folder / name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / name

    def read(self, form: str, *files, option="-") -> list[dict]:
        done = run("read", form, option, *files)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def refused(self, form: str, file, option="-") -> str:
        done = run("read", form, option, file)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(str(file), done.stderr)
        return done.stderr


def array_of(field: dict):
    shape = json.loads(field["shape"])
    return numpy.frombuffer(bytes.fromhex(field["bytes"]), field["type"]).reshape(shape)


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


class TarTest(FormatTest):
    def test_tarfile_reads_our_tar(self):
        with tarfile.open(self.ours("a.tar", "tar")) as tar:
            found = {member.name: tar.extractfile(member).read() for member in tar}
        keys = ["ddd/0000", "ddd/0001", "d" * 120 + "/0002"]
        self.assertEqual(found, {key + end: data for i, key in enumerate(keys) for end, data in
                                 ((".txt", f"sample {i}\n".encode()), (".cls", str(i * 100).encode()))})

    def test_we_read_our_tar(self):
        samples = self.read("tar", self.ours("a.tar", "tar"))
        self.assertEqual([sample["label"] for sample in samples], [0, 100, 200])
        self.assertIn("sample 'ddd/0001' at byte 2048", samples[1]["name"])

    def write(self, members: list[tuple[str, bytes]], form: int, **more) -> Path:
        with tarfile.open(self.folder / "b.tar", "w", format=form, **more) as tar:
            directory = tarfile.TarInfo("set")
            directory.type = tarfile.DIRTYPE
            tar.addfile(directory)
            for name, data in members:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return self.folder / "b.tar"

    def test_we_read_all_formats_of_tarfile(self):
        long = "set/" + "x" * 200
        members = [("set/a.jpg", b"J" * 1000), ("set/a.CLS", b"1"), ("README", b"none"), ("set/b.seg.png", b""),
                   ("set/b.cls", b"22\n"), (long + ".txt", b"long"), ("set/\u00e9\u4e2d.txt", b"u")]
        for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            these = [(name, data) for name, data in members if form != tarfile.USTAR_FORMAT or len(name) < 100]
            pax = {"pax_headers": {"comment": "of all members"}} if form == tarfile.PAX_FORMAT else {}
            samples = self.read("tar", self.write(these, form, **pax))
            fields = [{name: bytes.fromhex(field["bytes"]) for name, field in sample["fields"].items()} for sample in samples]
            expected = [{"jpg": b"J" * 1000, "cls": b"1"}, {"seg.png": b"", "cls": b"22\n"}, {"txt": b"long"}, {"txt": b"u"}]
            self.assertEqual(fields, expected if len(these) == len(members) else expected[:2] + expected[3:])
            self.assertEqual([sample["label"] for sample in samples][:2], [-1, 22])
            self.assertIn("sample 'set/\u00e9\u4e2d'", samples[-1]["name"])

    def test_a_large_size_in_binary_is_read(self):
        path = self.write([("a.txt", b"12345")], tarfile.GNU_FORMAT)
        data = bytearray(path.read_bytes())
        data[512 + 124:512 + 136] = b"\x80" + (5).to_bytes(11, "big")
        data[512 + 148:512 + 156] = b" " * 8
        data[512 + 148:512 + 156] = f"{sum(data[512:1024]):06o}\0 ".encode()
        path.write_bytes(data)
        (sample,) = self.read("tar", path)
        self.assertEqual(bytes.fromhex(sample["fields"]["txt"]["bytes"]), b"12345")

    def test_compressed_and_truncated_archives_are_refused(self):
        with tarfile.open(self.folder / "c.tar", "w:gz") as tar:
            tar.addfile(tarfile.TarInfo("a.txt"))
        path = self.folder / "c.tar"
        path.write_bytes(path.read_bytes().ljust(1024, b"\1"))
        self.assertIn("must be decompressed first", self.refused("tar", path))
        path = self.write([("a.txt", b"x" * 3000)], tarfile.USTAR_FORMAT)
        path.write_bytes(path.read_bytes()[:2000])
        self.assertIn("the member at byte 1024 claims 3000 bytes, but the archive ends at 2000", self.refused("tar", path))


class TfrecordTest(FormatTest):
    def test_an_independent_reader_reads_our_tfrecord(self):
        records = list(tfrecords(self.ours("a.tfrecord", "tfrecord").read_bytes()))
        self.assertEqual([example(record) for record in records],
                         [{"image": sum(IMAGES[i], []), "label": [i], "text": [f"sample {i}\n".encode()]} for i in range(3)])

    def test_we_read_the_tfrecord_of_tensorflow(self):
        first, second, third = (sample["fields"] for sample in self.read("tfrecord", GOLDEN / "tensorflow.tfrecord"))
        self.assertEqual(bytes.fromhex(first["image"]["bytes"]), bytes(range(256)))
        self.assertEqual(struct.unpack("<3f", bytes.fromhex(first["scale"]["bytes"])), (0.5, -1.25, 3.0))
        self.assertEqual(first["label"], {"type": "int64", "shape": "[1]", "bytes": (7).to_bytes(8, "little").hex()})
        self.assertEqual(struct.unpack("<4q", bytes.fromhex(second["label"]["bytes"])), (-1, 0, 2**62, -2**63))
        self.assertEqual([bytes.fromhex(second[f"words/{i}"]["bytes"]) for i in range(3)], [b"one", b"", b"three"])
        self.assertEqual({name: field["bytes"] for name, field in third.items()}, {"image": "", "scale": "", "label": ""})

    def test_the_independent_reader_reads_the_tfrecord_of_tensorflow(self):
        records = list(tfrecords((GOLDEN / "tensorflow.tfrecord").read_bytes()))
        self.assertEqual(example(records[0])["label"], [7])

    def test_unpacked_values_are_read(self):
        # repeated fields one by one, as written by old versions of protobuf
        floats = b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.5, 2.5))
        integers = b"\x08\x05\x08\x06"

        def message(number: int, data: bytes) -> bytes:
            return bytes([number << 3 | 2, len(data)]) + data

        entries = [message(1, b"f") + message(2, message(2, floats)), message(1, b"i") + message(2, message(3, integers))]
        payload = message(1, b"".join(message(1, entry) for entry in entries))
        head = struct.pack("<Q", len(payload))
        path = self.folder / "b.tfrecord"
        path.write_bytes(head + struct.pack("<I", masked(head)) + payload + struct.pack("<I", masked(payload)))
        ((sample),) = self.read("tfrecord", path)
        self.assertEqual(struct.unpack("<2f", bytes.fromhex(sample["fields"]["f"]["bytes"])), (1.5, 2.5))
        self.assertEqual(struct.unpack("<2q", bytes.fromhex(sample["fields"]["i"]["bytes"])), (5, 6))

    def test_damage_is_named(self):
        data = bytearray((GOLDEN / "tensorflow.tfrecord").read_bytes())
        path = self.folder / "b.tfrecord"
        path.write_bytes(data[:-1])
        self.assertIn("record at byte 427 claims 41 bytes, but the file ends at 483", self.refused("tfrecord", path))
        data[100] ^= 1
        path.write_bytes(data)
        self.assertIn("record 0 at byte 0: the record's 321 bytes have the checksum", self.refused("tfrecord", path))


    @unittest.skipUnless(os.environ.get("HAS_ZLIB"), "this build has no zlib")
    def test_gzip_reads_our_compressed_tfrecord_and_we_read_its(self):
        ours = self.ours("a.tfrecord.gz", "tfrecord_gzip").read_bytes()
        plain = self.ours("a.tfrecord", "tfrecord").read_bytes()
        self.assertEqual(gzip.decompress(ours), plain)
        self.assertEqual([example(record)["label"] for record in tfrecords(gzip.decompress(ours))], [[0], [1], [2]])
        golden = (GOLDEN / "tensorflow.tfrecord").read_bytes()
        # Two members, as written by a program that flushes in between.
        (self.folder / "b.tfrecord.gz").write_bytes(gzip.compress(golden[:100]) + gzip.compress(golden[100:]))
        samples = self.read("tfrecord_gzip", self.folder / "b.tfrecord.gz", self.folder / "a.tfrecord.gz")
        self.assertEqual([sample["fields"] for sample in samples[:3]],
                         [sample["fields"] for sample in self.read("tfrecord", GOLDEN / "tensorflow.tfrecord")])
        self.assertEqual(len(samples), 6)


def plain(sample: dict) -> dict:
    """The fields as Python values: text as str, numbers as they are."""
    return {name: bytes.fromhex(field["bytes"]).decode() if field["type"] == "uint8" else array_of(field).tolist()
            for name, field in sample["fields"].items()}


class CsvTest(FormatTest):
    def test_the_csv_module_reads_our_csv(self):
        for form, dialect in (("csv", "excel"), ("tsv", "excel-tab")):
            with open(self.ours(f"a.{form}", form), newline="") as file:
                self.assertEqual(list(csv.reader(file, dialect)),
                                 [["label", "text"]] + [[str(i), f"sample {i}\n"] for i in range(3)])

    def test_we_read_what_the_csv_module_writes(self):
        noise = random.Random(5)
        texts = ["".join(noise.choices('a,"\n\r\t \u00e9;', k=noise.randrange(12))) + "x" for _ in range(300)]
        rows = [[i - 150, noise.uniform(-1e9, 1e9), text] for i, text in enumerate(texts)]
        for form, dialect in (("csv", "excel"), ("tsv", "excel-tab"), ("csv", "unix")):
            quoting = csv.QUOTE_NONNUMERIC if dialect == "unix" else csv.QUOTE_MINIMAL
            with open(self.folder / "b", "w", newline="", encoding="utf-8") as file:
                csv.writer(file, dialect, quoting=quoting).writerows([["i", "f", "t"], *rows])
            samples = [plain(sample) for sample in self.read(form, self.folder / "b", option="float64")]
            self.assertEqual([[sample["i"], sample["f"], sample["t"]] for sample in samples], rows)

    def test_we_read_what_numpy_writes(self):
        numbers = numpy.random.default_rng(0).normal(size=(20, 50)).astype("f4")
        numpy.savetxt(self.folder / "c.csv", numbers, delimiter=",")
        samples = self.read("csv", self.folder / "c.csv")
        read = numpy.stack([array_of(sample["fields"]["data"]) for sample in samples])
        self.assertEqual(read.dtype, numpy.float32)
        numpy.testing.assert_array_equal(read, numbers)

    def test_rows_of_integers_as_dlio_writes_them(self):
        row = numpy.random.default_rng(0).integers(0, 256, 60484)
        (self.folder / "d.csv").write_text((",".join(map(str, row)) + "\n") * 2)
        samples = self.read("csv", self.folder / "d.csv")
        self.assertEqual(len(samples), 2)
        numpy.testing.assert_array_equal(array_of(samples[1]["fields"]["data"]), row)

    def test_the_header_can_be_given(self):
        (self.folder / "e.csv").write_text("a,b\nc,d\n")
        self.assertEqual([plain(sample) for sample in self.read("csv", self.folder / "e.csv")], [{"a": "c", "b": "d"}])
        self.assertEqual(len(self.read("csv", self.folder / "e.csv", option="no-header")), 2)


class JsonTest(FormatTest):
    EXPECTED = [{"image": IMAGES[i], "label": [i], "text": f"sample {i}\n"} for i in range(3)]

    def test_the_json_module_reads_our_json(self):
        self.assertEqual(json.loads(self.ours("a.json", "json").read_text()), self.EXPECTED)
        lines = self.ours("a.jsonl", "jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line) for line in lines], self.EXPECTED)

    def test_we_read_what_the_json_module_writes(self):
        values = [{"i": i, "f": i / 7, "s": 'a"\\\n\u00e9\U0001f600', "list": [i, 2.5], "deep": {"x": {"y": [[1, 2], [3, 4]]}},
                   "words": ["a", ""], "yes": True} for i in range(50)]
        flat = [{"i": v["i"], "f": v["f"], "s": v["s"], "list": v["list"], "deep.x.y": [[1, 2], [3, 4]], "words.0": "a",
                 "words.1": "", "yes": True} for v in values]
        (self.folder / "b.jsonl").write_text("\n".join(map(json.dumps, values)))
        (self.folder / "b.json").write_text(json.dumps(values, indent=2))
        (self.folder / "c.json").write_text(json.dumps(values[7], ensure_ascii=False), encoding="utf-8")
        for form, file in (("jsonl", "b.jsonl"), ("json", "b.json")):
            self.assertEqual([plain(sample) for sample in self.read(form, self.folder / file, option="float64")], flat)
        self.assertEqual([plain(sample) for sample in self.read("json", self.folder / "c.json", option="float64")], [flat[7]])

    def test_damage_is_named(self):
        (self.folder / "d.jsonl").write_text('{"a": 1}\n{"a": }\n')
        self.assertIn("record 1 at byte 9: json:1: expected a value, found '}'", self.refused("jsonl", self.folder / "d.jsonl"))


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


class MegatronTest(FormatTest):
    TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}

    def documents(self, path: Path) -> list:
        """From the description of the format: header, lengths, byte offsets, documents as ranges of sequences."""
        index = path.with_suffix(".idx").read_bytes()
        self.assertEqual(index[:9], b"MMIDIDX\0\0")
        version, code, sequences, boundaries = struct.unpack_from("<QBQQ", index, 9)
        self.assertEqual(version, 1)
        lengths = numpy.frombuffer(index, "<i4", sequences, 34)
        pointers = numpy.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
        ends = numpy.frombuffer(index, "<i8", boundaries, 34 + 12 * sequences)
        self.assertEqual(len(index), 34 + 12 * sequences + 8 * boundaries)
        tokens = [numpy.fromfile(path, self.TYPES[code], n, offset=p) for n, p in zip(lengths, pointers)]
        return [numpy.concatenate(tokens[a:b]).tolist() for a, b in zip(ends, ends[1:])]

    def write(self, path: Path, documents: list, code: int) -> None:
        sequences = [sequence for document in documents for sequence in document]
        width = numpy.dtype(self.TYPES[code]).itemsize
        lengths = [len(sequence) for sequence in sequences]
        pointers = [sum(lengths[:i]) * width for i in range(len(lengths))]
        ends = [sum(map(len, documents[:i])) for i in range(len(documents) + 1)]
        path.write_bytes(b"".join(numpy.array(s, self.TYPES[code]).tobytes() for s in sequences))
        path.with_suffix(".idx").write_bytes(
            b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(ends)) + numpy.array(lengths, "<i4").tobytes()
            + numpy.array(pointers, "<i8").tobytes() + numpy.array(ends, "<i8").tobytes())

    def test_an_independent_reader_reads_our_tokens(self):
        path = self.ours("a.bin", "megatron")
        self.assertEqual(self.documents(path), [sum(image, []) for image in IMAGES])

    def test_we_read_documents_and_windows_of_every_type(self):
        documents = [[[1, 2, 3], [4]], [], [[5, 6, 7, 8, 9]]]
        path = self.folder / "b.bin"
        for code, kind in self.TYPES.items():
            self.write(path, documents, code)
            samples = self.read("megatron", path)
            self.assertEqual([array_of(s["fields"]["tokens"]).tolist() for s in samples], [[1, 2, 3, 4], [], [5, 6, 7, 8, 9]])
            self.assertEqual(array_of(samples[0]["fields"]["tokens"]).dtype, numpy.dtype(kind))
            samples = self.read("megatron", path, option="window=4")
            self.assertEqual([array_of(s["fields"]["tokens"]).tolist() for s in samples], [[1, 2, 3, 4, 5], [5, 6, 7, 8, 9]])

    def test_damage_is_named(self):
        path = self.folder / "c.bin"
        self.write(path, [[[1, 2, 3]]], 4)
        path.write_bytes(path.read_bytes()[:-1])
        self.assertIn("c.bin: .idx: sequence 0 has 3 tokens at byte 0", self.refused("megatron", path))
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
class ParquetTest(FormatTest):
    """Files of pyarrow are in golden/parquet, because the distribution has no pyarrow. With it, our files are read too."""
    def test_we_read_the_parquet_of_pyarrow(self):
        for name in ("v1_none", "v1_snappy", "v1_zstd", "v2_zstd", "v2_deltas"):
            path = GOLDEN / "parquet" / f"{name}.parquet"
            samples = self.read("parquet", path, option="columns=list")
            lists = [array_of(sample["fields"]["list"]).tolist() for sample in samples]
            self.assertEqual(lists, [[k * 10 + j for j in range(k % 4)] for k in range(20)])
            self.assertEqual(samples[9]["name"], f"{path}: row 9")
            texts = [bytes.fromhex(sample["fields"]["ns"]["bytes"]) for sample in self.read("parquet", path, option="columns=ns")]
            self.assertEqual(texts, [b"" if k % 4 == 2 else str(k).encode() for k in range(20)])
    def test_we_read_our_parquet(self):
        for compression in ("none", "snappy", "zstd"):
            path = self.ours("a.parquet", "parquet", f"compression={compression}")
            data = path.read_bytes()
            self.assertEqual((data[:4], data[-4:]), (b"PAR1", b"PAR1"))
            samples = self.read("parquet", path)
            self.assertEqual([array_of(sample["fields"]["image"]).tolist() for sample in samples], IMAGES)
            self.assertEqual([array_of(sample["fields"]["label"]).tolist() for sample in samples], [[0], [1], [2]])
            self.assertEqual(bytes.fromhex(samples[2]["fields"]["text"]["bytes"]), b"sample 2\n")
    def test_pyarrow_reads_our_parquet(self):
        try:
            import pyarrow.parquet
        except ImportError:
            self.skipTest("needs pyarrow")
        for compression in ("none", "snappy", "zstd"):
            path = self.ours("a.parquet", "parquet", f"compression={compression}")
            table = pyarrow.parquet.read_table(path, page_checksum_verification=True).to_pydict()
            self.assertEqual(table, {"image": [sum(image, []) for image in IMAGES], "label": [[0], [1], [2]],
                                     "text": [b"sample 0\n", b"sample 1\n", b"sample 2\n"]})
    def test_a_file_that_is_none_is_refused(self):
        (self.folder / "a.parquet").write_bytes(b"PAR1 and some more")
        self.assertIn("this is not a Parquet file, or it was cut: it does not end in PAR1",
                      self.refused("parquet", self.folder / "a.parquet"))


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
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
