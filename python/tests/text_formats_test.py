#!/usr/bin/env python3
"""Files of text and tokens as batches: csv, json, Megatron's tokens, compressed TFRecords, DLIO's indexed binary."""

import csv
import gzip
import json
import pickle
import struct
import tempfile
import unittest
from pathlib import Path

import numpy

import millrace


class TextFormatsTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def table(self, count: int, name: str = "a.csv") -> Path:
        with open(self.folder / name, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "score", "text"])
            writer.writerows([i, i / 4, "x" * i + ",\n"] for i in range(count))
        return self.folder / name

    def test_a_table_has_numbers_and_text(self):
        dataset = millrace.Files(self.table(10))
        self.assertEqual(len(dataset), 10)
        self.assertEqual(dataset[3][2], "xxx,\n")
        batches = list(millrace.DataLoader(dataset, batch_size=4, output="dict"))
        self.assertEqual([text for batch in batches for text in batch["text"]], ["x" * i + ",\n" for i in range(10)])
        self.assertEqual(numpy.asarray(batches[0]["id"]).dtype, numpy.int64)
        self.assertEqual(numpy.asarray(batches[1]["id"]).tolist(), [4, 5, 6, 7])
        self.assertEqual(numpy.asarray(batches[1]["score"]).dtype, numpy.float32)
        self.assertEqual(numpy.asarray(batches[1]["score"]).tolist(), [1.0, 1.25, 1.5, 1.75])

    def test_text_can_be_values_and_offsets(self):
        fields = {"text": millrace.Ragged("uint8")}
        (batch,) = millrace.DataLoader(millrace.Files(self.table(5), fields=fields), batch_size=5, output="dict")
        text = batch["text"]
        self.assertEqual(bytes(numpy.asarray(text.values)), b"".join(b"x" * i + b",\n" for i in range(5)))
        self.assertEqual(numpy.asarray(text.offsets).tolist(), [0, 2, 5, 9, 14, 20])

    def test_a_column_has_the_type_that_is_asked_for(self):
        fields = {"id": "int32", "score": "float64"}
        (batch,) = millrace.DataLoader(millrace.Files(self.table(5), fields=fields), batch_size=5, output="dict")
        self.assertEqual([numpy.asarray(batch[name]).dtype.name for name in ("id", "score")], ["int32", "float64"])
        with self.assertRaisesRegex(Exception, "'score' has a number that does not fit int64"):
            list(millrace.DataLoader(millrace.Files(self.table(5), fields={"score": "int64"}), batch_size=5))

    def test_rows_of_numbers_are_one_array(self):
        numbers = numpy.random.default_rng(0).normal(size=(6, 1000)).astype("f4")
        numpy.savetxt(self.folder / "n.csv", numbers, delimiter=",")
        dataset = millrace.Files(self.folder / "n.csv")
        numpy.testing.assert_array_equal(numpy.stack([numpy.asarray(dataset[i]) for i in range(6)]), numbers)
        again = pickle.loads(pickle.dumps(dataset))
        numpy.testing.assert_array_equal(numpy.asarray(again[5]), numbers[5])

    def test_json_lines_have_text_and_lists(self):
        values = [{"id": i, "words": "\u00e9" * i, "box": {"at": [i, 0.5]}, "list": list(range(i))} for i in range(7)]
        (self.folder / "a.jsonl").write_text("\n".join(map(json.dumps, values)), encoding="utf-8")
        fields = {"id": None, "words": None, "box.at": ("float32", (2,)), "list": millrace.Ragged("int32")}
        dataset = millrace.Files(self.folder / "a.jsonl", fields=fields)
        (batch,) = millrace.DataLoader(dataset, batch_size=7, output="dict")
        self.assertEqual(batch["words"], ["\u00e9" * i for i in range(7)])
        self.assertEqual(numpy.asarray(batch["box.at"]).tolist(), [[i, 0.5] for i in range(7)])
        self.assertEqual(numpy.asarray(batch["list"].values).tolist(), [j for i in range(7) for j in range(i)])
        self.assertEqual(numpy.asarray(batch["list"].values).dtype, numpy.int32)

    def test_windows_of_tokens_go_straight_into_the_batch(self):
        tokens = numpy.arange(100, dtype="<u2")
        tokens.tofile(self.folder / "t.bin")
        (self.folder / "t.idx").write_bytes(
            b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 2, 3) + struct.pack("<2i2q3q", 60, 40, 0, 120, 0, 1, 2))
        dataset = millrace.Files(self.folder / "t.bin", format="megatron", window_tokens=16)
        (batch,) = millrace.DataLoader(dataset, batch_size=6, output="numpy")
        batch = numpy.asarray(batch)
        self.assertEqual((batch.dtype, batch.shape), (numpy.uint16, (6, 17)))
        numpy.testing.assert_array_equal(batch[:, :-1].ravel(), tokens[:96])
        numpy.testing.assert_array_equal(batch[:, 1:].ravel(), tokens[1:97])
        documents = millrace.Files(self.folder / "t.bin", format="megatron", fields={"tokens": millrace.Ragged("uint16")})
        self.assertEqual(len(documents), 2)

    def test_indexed_binary_has_any_lengths(self):
        (self.folder / "a.indexed_binary").write_bytes(b"abcdef")
        numpy.array([0, 1, 3], "<u8").tofile(self.folder / "a.indexed_binary.off.idx")
        numpy.array([1, 2, 3], "<u8").tofile(self.folder / "a.indexed_binary.sz.idx")
        dataset = millrace.Files(self.folder / "a.indexed_binary", fields={"data": "bytes"})
        self.assertEqual([dataset[i] for i in range(3)], [b"a", b"bc", b"def"])

    def test_compressed_records_are_read_in_any_order(self):
        golden = Path(__file__).resolve().parents[2] / "tests" / "golden" / "tensorflow.tfrecord"
        for i in range(3):
            (self.folder / f"{i}.tfrecord.gz").write_bytes(gzip.compress(golden.read_bytes()))
        try:
            dataset = millrace.Files(self.folder, format="tfrecord_gzip", fields={"label": millrace.Ragged("int64")})
        except Exception as error:
            if "zlib" in str(error):
                self.skipTest(str(error))
            raise
        self.assertEqual(len(dataset), 9)
        batches = list(millrace.DataLoader(dataset, batch_size=3, shuffle=True, seed=1, output="dict"))
        values = sorted(value for batch in batches for value in numpy.asarray(
            batch["label"].values).tolist())
        self.assertEqual(values, sorted([7, -1, 0, 2**62, -2**63] * 3))


if __name__ == "__main__":
    unittest.main()
