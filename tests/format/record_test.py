"""Records: tar files against tarfile; TFRecord and Megatron's tokens against readers written from their descriptions; Parquet
against pyarrow."""

import gzip
import io
import os
import struct
import tarfile
import unittest
from pathlib import Path

import numpy
from format_case import GOLDEN, IMAGES, FormatTest, array_of, main
from tfrecord_file import masked, tfrecords


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


if __name__ == "__main__":
    main()
