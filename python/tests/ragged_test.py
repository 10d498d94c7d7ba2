#!/usr/bin/env python3
"""Fields of varying length, text, and encoded images, in files that C++ reads."""

import pickle
import unittest
from pathlib import Path

import numpy
import torch

import millrace
from millrace import Ragged, Text
from sample_files import FilesTest, encoded, example, record


def points(index: int) -> numpy.ndarray:
    count = index * 7 % 5
    return numpy.arange(count * 3, dtype=numpy.float32).reshape(count, 3) + index


class RaggedTest(FilesTest):
    def data(self, count: int = 23, **options) -> millrace.ArrayFolder:
        self.npz([{"points": points(i), "id": numpy.int64(i)} for i in range(count)])
        return millrace.ArrayFolder(self.folder, "npz", fields={"points": Ragged(**options), "id": None})

    def check(self, values, offsets, ids):
        self.assertEqual(len(offsets), len(ids) + 1)
        self.assertEqual((int(offsets[0]), int(offsets[-1])), (0, len(values)))
        for row, index in enumerate(ids.tolist()):
            numpy.testing.assert_array_equal(values[offsets[row]:offsets[row + 1]], points(index))

    def test_a_batch_has_values_and_offsets(self):
        data = self.data()
        self.assertEqual(data.fields, [("points", "float32", (None, 3)), ("id", "int64", ())])
        for workers in (1, 3):
            loader = millrace.DataLoader(data, batch_size=4, shuffle=True, num_workers=workers)
            seen = []
            for _ in range(3):
                for batch, ids in loader:
                    self.assertIsInstance(batch, millrace.RaggedBatch)
                    self.assertEqual((batch.values.dtype, batch.offsets.dtype),
                                     (torch.float32, torch.int64))
                    self.check(*batch, ids)
                    seen += ids.tolist()
            self.assertEqual(sorted(seen), sorted(list(range(23)) * 3))

    def test_a_single_sample_has_its_own_length(self):
        data = self.data()
        for index in (0, 1, 2, 22):
            array, number = data[index]
            numpy.testing.assert_array_equal(array, points(index))
            self.assertEqual(int(number), index)

    def test_a_list_has_views_without_a_copy(self):
        loader = millrace.DataLoader(self.data(form="list"), batch_size=5, output="numpy")
        for rows, ids in loader:
            self.assertIsInstance(rows, list)
            for row, index in zip(rows, ids.tolist()):
                numpy.testing.assert_array_equal(row, points(index))
            self.assertEqual(len({row.base is None for row in rows} - {False}), 0)

    def test_padded_rows_are_as_long_as_the_longest_or_as_asked(self):
        loader = millrace.DataLoader(self.data(pad=-1), batch_size=5)
        for (values, lengths), ids in loader:
            longest = max(len(points(index)) for index in ids.tolist())
            self.assertEqual(tuple(values.shape), (len(ids), longest, 3))
            for row, index in enumerate(ids.tolist()):
                numpy.testing.assert_array_equal(values[row, :lengths[row]], points(index))
                self.assertTrue((values[row, lengths[row]:] == -1).all())
        for batch, _ in millrace.DataLoader(self.data(pad=0.5, max_length=9), batch_size=5):
            self.assertIsInstance(batch, millrace.PaddedBatch)
            self.assertEqual(tuple(batch.values.shape[1:]), (9, 3))

    def test_a_sample_that_is_too_long_is_named_or_cut(self):
        with self.assertRaisesRegex(millrace.SampleError,
                                    r"002\.npz: 'points' has 4 items, but at most 3 are allowed; raise "
                                    "max_length, or truncate"):
            list(millrace.DataLoader(self.data(max_length=3), batch_size=5))
        for (_, lengths), _ in millrace.DataLoader(self.data(max_length=3, truncate=True, pad=0),
                                                   batch_size=5):
            self.assertLessEqual(lengths.max(), 3)

    def test_bad_samples_are_skipped(self):
        data = self.data()
        (self.folder / "004.npz").write_bytes(b"not an npz")
        numpy.savez(self.folder / "009.npz", points=numpy.zeros((2, 2), numpy.float32), id=9)
        loader = millrace.DataLoader(data, batch_size=6, skip_bad_samples=True, num_workers=2)
        seen = []
        for batch, ids in loader:
            self.check(*batch, ids)
            seen += ids.tolist()
        self.assertEqual(seen, [i for i in range(23) if i not in (4, 9)])
        self.assertEqual(loader.stats()["bad_samples"], 2)
        with self.assertRaisesRegex(millrace.SampleError, r"009\.npz: 'points' is \[2, 2\] of float32, "
                                    r"but \[any, 3\] of float32 is expected"):
            data[9]

    def test_padding_rows_of_the_tail_are_whole_samples(self):
        loader = millrace.DataLoader(self.data(), batch_size=6, tail="pad")
        batches = list(loader)
        self.assertEqual([len(ids) for _, ids in batches], [6] * 4)
        for batch, ids in batches:
            self.check(*batch, ids)

    def test_a_subset_and_a_resumed_loader_give_the_same_items(self):
        part = self.data().subset([3, 22, 7, 1, 9, 4, 4, 12])
        loader = millrace.DataLoader(part, batch_size=3, shuffle=True, seed=5)
        whole = [(batch, ids) for batch, ids in loader]
        other = millrace.DataLoader(part, batch_size=3, shuffle=True, seed=5)
        next(iter(other))
        state = other.state_dict()
        other = millrace.DataLoader(part, batch_size=3, shuffle=True, seed=5)
        other.load_state_dict(state)
        for (batch, ids), (wanted, wanted_ids) in zip(other, whole[1:]):
            self.assertTrue(torch.equal(batch.values, wanted.values))
            self.assertTrue(torch.equal(batch.offsets, wanted.offsets))
            self.assertTrue(torch.equal(ids, wanted_ids))
            self.check(*batch, ids)

    def test_batches_that_are_held_stay_as_they_are(self):
        held = list(millrace.DataLoader(self.data(), batch_size=4))
        for batch, ids in held:
            self.check(*batch, ids)

    def test_without_numpy_and_torch_the_arrays_are_buffers(self):
        for (values, offsets), ids in millrace.DataLoader(self.data(), batch_size=4, output="array"):
            self.check(numpy.asarray(values), numpy.asarray(offsets), numpy.asarray(ids))

    def test_a_batch_above_the_memory_says_what_to_do(self):
        (self.folder / "big").mkdir()
        for index in range(6):
            (self.folder / "big" / f"{index}").write_bytes(bytes(1_000_000))
        data = millrace.RawFolder(self.folder / "big", shape=(None,))
        loader = millrace.DataLoader(data, batch_size=6, prefetch=millrace.Prefetch(memory="8 MiB"))
        with self.assertRaisesRegex(millrace.SampleError, "use a smaller batch_size"):
            list(loader)
        data = millrace.RawFolder(self.folder / "big", shape=(None,))
        loader = millrace.DataLoader(data, batch_size=3, prefetch=millrace.Prefetch(memory="8 MiB"))
        self.assertEqual([len(batch.values) for batch in loader], [3_000_000] * 2)

    def test_files_without_a_header_have_any_length(self):
        (self.folder / "raw").mkdir()
        for index in range(9):
            numpy.arange(index * 2, dtype=numpy.int32).tofile(self.folder / "raw" / f"{index}")
        for shape in ((None, 2), Ragged("int32", (2,))):
            data = millrace.RawFolder(self.folder / "raw", shape=shape, dtype="int32")
            values, offsets = next(iter(millrace.DataLoader(data, batch_size=9)))
            self.assertEqual(offsets.tolist(), [sum(range(i)) for i in range(10)])
            self.assertEqual(values[offsets[8]:].flatten().tolist(), list(range(16)))
        again = pickle.loads(pickle.dumps(data))
        self.assertEqual(again[3].tolist(), [[0, 1], [2, 3], [4, 5]])
        (self.folder / "raw" / "9").write_bytes(b"abc")
        data = millrace.RawFolder(self.folder / "raw", shape=(None, 2), dtype="int32")
        with self.assertRaisesRegex(millrace.SampleError, r"raw/9: 'data' is \[3\] of uint8, but "
                                    r"\[any, 2\] of int32 is expected"):
            data[9]

    def test_lists_of_tfrecords_vary_in_length(self):
        path = self.folder / "a.tfrecord"
        path.write_bytes(b"".join(record(example(ids=list(range(n)), xy=[float(n)] * (2 * n),
                                                 name=b"sample %d" % n)) for n in (1, 3, 0, 2)) +
                         record(example(name=b"no lists")))
        data = millrace.Files([path], fields={"ids": ("int64", (None,)), "xy": Ragged("float32", (2,)),
                                              "name": "str"})
        ids, xy, name = next(iter(millrace.DataLoader(data, batch_size=5)))
        self.assertEqual(ids.offsets.tolist(), [0, 1, 4, 4, 6, 6])
        self.assertEqual(ids.values.tolist(), [0, 0, 1, 2, 0, 1])
        self.assertEqual(tuple(xy.values.shape), (6, 2))
        self.assertEqual(name, ["sample 1", "sample 3", "sample 0", "sample 2", "no lists"])

    def test_options_that_make_no_sense_are_refused(self):
        for options, text in (({"form": "padded"}, "give pad="), ({"form": "list", "pad": 0}, "not both"),
                              ({"max_length": 0}, "1 or more"), ({"truncate": True}, "max_length=")):
            with self.assertRaisesRegex(ValueError, text):
                Ragged("int64", **options)
        self.npz([{"a": numpy.arange(3), "b": numpy.int64(1)}])
        with self.assertRaisesRegex(ValueError, "pad=300 does not fit uint8"):
            millrace.ArrayFolder(self.folder, "npz", fields={"a": Ragged("uint8", (), pad=300)})
        with self.assertRaisesRegex(ValueError, "'b' is a single number in the first sample"):
            millrace.ArrayFolder(self.folder, "npz", fields={"b": Ragged()})
        with self.assertRaisesRegex(ValueError, "unknown dtype 'int7'"):
            millrace.ArrayFolder(self.folder, "npz", fields={"a": Ragged("int7")})


class TextTest(FilesTest):
    texts = ["7", "", "caf\u00e9", "a much longer text\n" * 50, "{\"a\": 1}"]

    def test_text_is_a_list_of_str_or_bytes(self):
        path = self.tar([{"txt": text.encode(), "json": text.encode()} for text in self.texts])
        data = millrace.Files([path], fields={"txt": Text(), "json": "bytes"})
        texts, raw = next(iter(millrace.DataLoader(data, batch_size=5)))
        self.assertEqual(texts, self.texts)
        self.assertEqual(raw, [text.encode() for text in self.texts])
        self.assertEqual(data[2], ("caf\u00e9", "caf\u00e9".encode()))
        fields = next(iter(millrace.DataLoader(data, batch_size=5, output="dict")))
        self.assertEqual(fields["txt"], self.texts)

    def test_what_is_not_text_is_named(self):
        path = self.tar([{"txt": b"fine"}, {"txt": b"\xff\xfe"}])
        data = millrace.Files([path], fields={"txt": "str"})
        with self.assertRaisesRegex(ValueError, "'0001'.*not utf-8 text.*or 'bytes'"):
            list(millrace.DataLoader(data, batch_size=2))
        with self.assertRaisesRegex(ValueError, "'0001'.*not utf-8 text"):
            data[1]
        data = millrace.Files([path], fields={"txt": Text(errors="replace")})
        self.assertEqual(next(iter(millrace.DataLoader(data, batch_size=2))), ["fine", "\ufffd\ufffd"])


class EncodedTest(FilesTest):
    def test_an_image_folder_can_return_its_files(self):
        noise = numpy.random.default_rng(0)
        files = []
        for index in range(5):
            folder = self.folder / "ab"[index % 2]
            folder.mkdir(exist_ok=True)
            files.append(folder / f"{index}.png")
            size = (10 + index, 20, 3)
            files[-1].write_bytes(encoded(noise.integers(0, 255, size, dtype=numpy.uint8)))
        data = millrace.ImageFolder(self.folder, decode=False)
        files = [Path(path) for path, _ in data.samples]
        images, labels = next(iter(millrace.DataLoader(data, batch_size=5)))
        self.assertEqual([bytes(image.tolist()) for image in images],
                         [path.read_bytes() for path in files])
        self.assertEqual(labels.tolist(), [0, 0, 0, 1, 1])
        image, label = data[4]
        self.assertEqual((bytes(image.tolist()), label), (files[4].read_bytes(), 1))
        with self.assertRaisesRegex(ValueError, "remove transform="):
            millrace.ImageFolder(self.folder, decode=False, transform=lambda image: image)


if __name__ == "__main__":
    unittest.main()
