#!/usr/bin/env python3
"""Fields of varying length, text, masks and boxes, in files that C++ reads."""

import io
import pickle
import struct
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

import numpy
import torch
from PIL import Image as Pillow

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "format"))

import millrace  # noqa: E402
import tfrecord_file  # noqa: E402
from millrace import Boxes, Image, Mask, Ragged, Text  # noqa: E402


def checksum(data: bytes) -> bytes:
    return struct.pack("<I", tfrecord_file.masked(data))


def message(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    text = b""
    while value >= 0x80:
        text += bytes([value & 0x7F | 0x80])
        value >>= 7
    return text + bytes([value])


def example(**features) -> bytes:
    """An Example of TensorFlow: lists of int or float, or bytes."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            feature = message(1, message(1, value))
        elif any(isinstance(each, float) for each in value):
            feature = message(2, message(1, struct.pack(f"<{len(value)}f", *value)))
        else:
            feature = message(3, message(1, b"".join(varint(each) for each in value)))
        entries += message(1, message(1, name.encode()) + message(2, feature))
    return message(1, entries)


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + checksum(length) + payload + checksum(payload)


def encoded(pixels: numpy.ndarray, mode=None, format="PNG", **options) -> bytes:
    out = io.BytesIO()
    picture = Pillow.fromarray(pixels)
    if mode == "P":
        picture = Pillow.fromarray(pixels, "P")
        picture.putpalette([value for index in range(256) for value in (255 - index, index, 7)])
    picture.save(out, format, **options)
    return out.getvalue()


def npy(array: numpy.ndarray) -> bytes:
    out = io.BytesIO()
    numpy.save(out, array)
    return out.getvalue()


class FilesTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def tar(self, samples: list, name: str = "a.tar") -> Path:
        """samples: a dict of members each."""
        path = self.folder / name
        with tarfile.open(path, "w") as archive:
            for index, members in enumerate(samples):
                for extension, content in members.items():
                    member = tarfile.TarInfo(f"{index:04}.{extension}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        return path

    def npz(self, arrays: list) -> Path:
        for index, by_name in enumerate(arrays):
            numpy.savez(self.folder / f"{index:03}.npz", **by_name)
        return self.folder


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


def nearest(mask: numpy.ndarray, **how) -> numpy.ndarray:
    """What PIL makes of a mask."""
    picture = Pillow.fromarray(mask)
    return numpy.asarray(picture.resize(how["size"], Pillow.NEAREST, box=how.get("box")))


class MaskTest(FilesTest):
    def sizes(self):
        numbers = numpy.random.default_rng(3)
        return [tuple(int(n) for n in numbers.integers(1, 130, 2)) for _ in range(60)] + [
            (64, 64), (32, 96), (128, 64), (1, 1), (1, 100), (100, 1), (33, 65)]

    def data(self, masks: list, image=None, member="seg.png", encode=encoded, **mask) -> millrace.Files:
        blank = [encoded(numpy.zeros((*each.shape, 3), numpy.uint8)) for each in masks]
        path = self.tar([{"png": picture, member: encode(each)} for picture, each in zip(blank, masks)])
        return millrace.Files([path], fields={"png": image, member: Mask(like="png", **mask)})

    def masks(self, dtype=numpy.uint8, high=255) -> list:
        noise = numpy.random.default_rng(0)
        return [noise.integers(0, high, size).astype(dtype) for size in self.sizes()]

    def test_resizing_is_that_of_pil(self):
        masks = self.masks()
        for size in ((32, 32), (33, 47), (96, 64), (7, 5)):
            data = self.data(masks, Image(size, "resize"))
            for index, mask in enumerate(masks):
                _, ours = data[index]
                numpy.testing.assert_array_equal(ours, nearest(mask, size=size[::-1]),
                                                 f"{mask.shape} to {size}")

    def test_the_centre_crop_is_that_of_torchvision(self):
        masks = [mask for mask in self.masks() if min(mask.shape) > 8]
        for size, resize_to in ((32, 36), (24, 61), (56, 64)):
            data = self.data(masks, Image(size, "resize_center_crop", resize_to=resize_to))
            for index, mask in enumerate(masks):
                height, width = mask.shape
                shorter = min(height, width)
                resized = (resize_to * width // shorter, resize_to * height // shorter)
                left, top = (int(round((side - size) / 2.0)) for side in resized)
                wanted = nearest(mask, size=resized)[top:top + size, left:left + size]
                numpy.testing.assert_array_equal(data[index][1], wanted, f"{mask.shape} to {size}")

    def test_random_crops_and_flips_are_those_of_the_image(self):
        # Each pixel of image and mask is its position, so that the crop can be read from the image.
        rows, columns = numpy.mgrid[0:90, 0:120].astype(numpy.uint8)
        image = numpy.stack([columns, rows, rows * 0], axis=2)
        path = self.tar([{"png": encoded(image), "x.png": encoded(columns), "y.png": encoded(rows)}])
        fields = {"x.png": Mask(like="png", dtype="int64"), "png": Image(40, flip=0.5),
                  "y.png": Mask(like="png")}
        loader = millrace.DataLoader(millrace.Files([path], fields=fields), seed=1)
        flips = set()
        for _ in range(40):
            for x, pixels, y in loader:
                self.assertEqual((x.dtype, y.dtype, tuple(x.shape)), (torch.int64, torch.uint8, (1, 40, 40)))
                step = (int(x.max()) - int(x.min()) + 1) / 40
                # A resampled gradient is the position of the centre; the nearest pixel is within half
                # a pixel of it, and the filter and its edges add some.
                self.assertLess((x[0] - pixels[0, 0].long()).abs().max(), 1.6 + step)
                self.assertLess((y[0].long() - pixels[0, 1].long()).abs().max(), 1.6 + step)
                flips.add(bool(x[0, 0, 0] > x[0, 0, -1]))
        self.assertEqual(flips, {False, True})

    def test_values_are_those_of_the_file(self):
        classes = numpy.array([[0, 1, 2], [3, 200, 255]], numpy.uint8)
        none = Image((2, 3), "none")
        same = {"gray": encoded(classes), "palette": encoded(classes, "P"),
                "interlaced": encoded(classes, "P")}
        for name, content in same.items():
            data = self.data([classes], none, encode=lambda mask: content)
            numpy.testing.assert_array_equal(data[0][1], classes, name)
        few = numpy.array([[0, 1, 2], [3, 1, 0]], numpy.uint8)
        for bits in (1, 2, 4):
            mask = numpy.minimum(few, 2**bits - 1)
            data = self.data([mask], none, encode=lambda mask: encoded(mask, "P", bits=bits))
            numpy.testing.assert_array_equal(data[0][1], mask, f"{bits} bits")
        deep = numpy.array([[0, 300, 65535], [1, 2, 3]], numpy.uint16)
        data = self.data([deep], none, dtype="int64", encode=lambda mask: encoded(mask.astype(numpy.int32)))
        numpy.testing.assert_array_equal(data[0][1], deep)
        with self.assertRaisesRegex(millrace.SampleError, "'0000'.*seg.png: the mask has the value 65535, "
                                    "which uint8 cannot hold; use int64"):
            self.data([deep], none, encode=lambda mask: encoded(mask.astype(numpy.int32)))[0]

    def test_arrays_are_masks_too(self):
        masks = self.masks(numpy.int32, 1000)
        data = self.data(masks, Image((20, 30), "resize"), member="mask.npy", encode=npy, dtype="int64")
        for index, mask in enumerate(masks):
            numpy.testing.assert_array_equal(data[index][1], nearest(mask, size=(30, 20)))

    def test_a_mask_that_does_not_fit_is_named(self):
        blank = numpy.zeros((10, 12, 3), numpy.uint8)
        for mask, text in ((numpy.zeros((12, 10), numpy.uint8), "has 10 x 12 pixels, but its image has 12 x 10"),
                           (blank, "a mask has one value per pixel")):
            path = self.tar([{"png": encoded(blank), "seg.png": encoded(mask)}])
            data = millrace.Files([path], fields={"png": Image(8), "seg.png": Mask(like="png")})
            with self.assertRaisesRegex(millrace.SampleError, "'0000'.*seg.png: .*" + text):
                next(iter(millrace.DataLoader(data)))
        with self.assertRaisesRegex(ValueError, "'seg.png' follows 'jpg', which is not among the fields"):
            millrace.Files([path], fields={"png": Image(8), "seg.png": Mask(like="jpg")})
        with self.assertRaisesRegex(ValueError, "must be an integer, not float32"):
            millrace.Files([path], fields={"png": Image(8), "seg.png": Mask("png", dtype="float32")})


class FoldersTest(FilesTest):
    def data(self, **mask) -> millrace.Folders:
        noise = numpy.random.default_rng(0)
        self.classes = {}
        for index in range(9):
            size = tuple(noise.integers(20, 50, 2))
            name = f"{'ab'[index % 2]}/{index}"
            self.classes[name] = noise.integers(0, 20, size, dtype=numpy.uint8)
            pixels = noise.integers(0, 255, (*size, 3), dtype=numpy.uint8)
            for folder, content in (("images", encoded(pixels, format="JPEG")),
                                    ("masks", encoded(self.classes[name], "P"))):
                path = self.folder / folder / f"{name}.{'jpg' if folder == 'images' else 'png'}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        (self.folder / "masks" / "unused.png").write_bytes(b"")
        return self.open(**mask)

    def open(self, **mask) -> millrace.Folders:
        return millrace.Folders({"image": self.folder / "images", "mask": self.folder / "masks"},
                                {"image": Image(24, "resize"), "mask": Mask(like="image", **mask)})

    def test_images_and_masks_are_matched_by_name(self):
        data = self.data(dtype="int64")
        self.assertEqual(len(data), 9)
        loader = millrace.DataLoader(data, batch_size=4, shuffle=True, num_workers=2, output="dict")
        seen = 0
        for batch in loader:
            for sample, image, mask in zip(batch["sample"].tolist(), batch["image"], batch["mask"]):
                name = str(Path(data.name(sample)).relative_to(self.folder / "images").with_suffix(""))
                numpy.testing.assert_array_equal(mask, nearest(self.classes[name], size=(24, 24)))
                self.assertTrue(torch.equal(image, data[sample][0]))
                seen += 1
        self.assertEqual(seen, 9)
        part = pickle.loads(pickle.dumps(data)).subset([3])
        self.assertTrue(torch.equal(part[0][1], data[3][1]))

    def test_the_tiers_keep_both_files(self):
        data = self.data()
        loader = millrace.DataLoader(data, batch_size=3, epochs=2, cache=millrace.Cache(memory="64 MiB"))
        batches = [mask for _ in range(2) for _, mask in loader]
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(batches[:3], batches[3:])))
        self.assertGreater(loader.stats()["cache"]["memory"]["samples"], 0)

    def test_a_file_without_its_mask_is_named(self):
        self.data()
        (self.folder / "masks" / "a" / "4.png").unlink()
        with self.assertRaisesRegex(ValueError, "masks: has no file for 'a/4'"):
            self.open()
        (self.folder / "images" / "a" / "4.jpg").unlink()
        self.assertEqual(len(self.open()), 8)
        (self.folder / "images" / "a" / "2.jpeg").write_bytes(b"")
        with self.assertRaisesRegex(ValueError, "have the same name but for the extension"):
            self.open()
        with self.assertRaisesRegex(ValueError, "give a field for each folder"):
            millrace.Folders({"image": self.folder}, {"mask": Mask("image")})

    def test_a_bad_mask_is_named(self):
        data = self.data()
        (self.folder / "masks" / "a" / "4.png").write_bytes(b"nothing")
        with self.assertRaisesRegex(millrace.SampleError, r"images/a/4\.jpg: mask: a mask is a PNG or"):
            list(millrace.DataLoader(data, batch_size=9))
        (self.folder / "masks" / "a" / "4.png").unlink()
        with self.assertRaisesRegex(millrace.SampleError, r"masks/a/4\.png"):
            list(millrace.DataLoader(data, batch_size=9))


class BoxesTest(FilesTest):
    """Images with a bright rectangle on black, whose box is known."""

    def detections(self, count: int, more=()) -> list:
        numbers = numpy.random.default_rng(1)
        samples = []
        for index in range(count):
            height, width = (int(side) for side in numbers.integers(60, 120, 2))
            left, top = int(numbers.integers(0, width - 30)), int(numbers.integers(0, height - 30))
            right, bottom = left + int(numbers.integers(15, 30)), top + int(numbers.integers(15, 30))
            pixels = numpy.zeros((height, width, 3), numpy.uint8)
            pixels[top:bottom, left:right] = 255
            samples.append({"size": (height, width), "box": (left, top, right, bottom),
                            "image": encoded(pixels)})
        return samples

    def painted(self, image: torch.Tensor):
        """The box of the bright pixels, or None."""
        bright = (image[0] >= 128).nonzero()
        if len(bright) == 0:
            return None
        (top, left), (bottom, right) = bright.min(0).values.tolist(), bright.max(0).values.tolist()
        return [left, top, right + 1, bottom + 1]

    def check(self, image, boxes, classes):
        box = self.painted(image)
        if len(boxes) == 0:
            self.assertTrue(box is None or (box[2] - box[0] <= 2 or box[3] - box[1] <= 2), box)
            self.assertEqual(len(classes), 0)
            return
        self.assertEqual(classes.tolist(), [5])
        self.assertLess(max(abs(a - b) for a, b in zip(box, boxes[0].tolist())), 1.01, (box, boxes))

    def test_the_painted_box_is_where_the_box_says(self):
        samples = self.detections(30)
        for form, convert in (("xyxy", lambda l, t, r, b: (l, t, r, b)),
                              ("xywh", lambda l, t, r, b: (l, t, r - l, b - t)),
                              ("cxcywh", lambda l, t, r, b: ((l + r) / 2, (t + b) / 2, r - l, b - t))):
            for normalized in (False, True):
                members = []
                for each in samples:
                    height, width = each["size"]
                    scale = (width, height, width, height) if normalized else (1, 1, 1, 1)
                    # The second box lies outside the image, so it is always dropped.
                    table = [convert(*each["box"]), convert(900, 900, 950, 950)]
                    boxes = numpy.array(table, numpy.float32) / numpy.array(scale, numpy.float32)
                    members.append({"png": each["image"], "bbox.npy": npy(boxes),
                                    "cls.npy": npy(numpy.array([5, 6]))})
                data = millrace.Files([self.tar(members)], fields={
                    "cls.npy": Ragged("int64", boxes="bbox.npy", form="list"), "png": Image(64),
                    "bbox.npy": Boxes(like="png", format=form, normalized=normalized, form="list")})
                loader = millrace.DataLoader(data, batch_size=7, shuffle=True, num_workers=2)
                counts = set()
                for _ in range(2):
                    for classes, images, boxes in loader:
                        for image, of_image, of_class in zip(images, boxes, classes):
                            counts.add(len(of_image))
                            self.check(image, self.as_xyxy(of_image, form, 64 if normalized else 1),
                                       of_class)
                self.assertEqual(counts, {0, 1})

    def as_xyxy(self, boxes, form: str, scale: int):
        boxes = boxes.clone() * scale
        if form == "cxcywh":
            boxes[:, :2] -= boxes[:, 2:] / 2
        if form != "xyxy":
            boxes[:, 2:] += boxes[:, :2]
        return boxes

    def test_without_minimums_every_box_keeps_its_row(self):
        members = [{"png": each["image"], "bbox.npy": npy(numpy.array([each["box"], (900, 900, 950, 950)]))}
                   for each in self.detections(5)]
        data = millrace.Files([self.tar(members)], fields={
            "png": Image(64), "bbox.npy": Boxes("png", min_size=0, min_area=0)})
        _, (values, offsets) = next(iter(millrace.DataLoader(data, batch_size=5)))
        self.assertEqual(offsets.tolist(), [0, 2, 4, 6, 8, 10])
        self.assertTrue((values >= 0).all() and (values <= 64).all())
        self.assertEqual(values[1::2].tolist(), [[64, 64, 64, 64]] * 5)

    def test_boxes_of_a_tfrecord_may_be_missing_and_are_padded(self):
        samples = self.detections(4)
        path = self.folder / "a.tfrecord"
        path.write_bytes(b"".join(
            record(example(image=each["image"], **({"box": [float(n) for n in each["box"]] * (index + 1)}
                                                   if index < 3 else {})))
            for index, each in enumerate(samples)))
        data = millrace.Files([path], fields={
            "image": Image(48, "resize"), "box": Boxes(like="image", pad=-1)})
        images, (values, lengths) = next(iter(millrace.DataLoader(data, batch_size=4)))
        self.assertEqual(lengths.tolist(), [1, 2, 3, 0])
        self.assertEqual(tuple(values.shape), (4, 3, 4))
        self.assertTrue((values[3] == -1).all())
        for image, boxes in zip(images[:3], values):
            self.check(image, boxes[:1], torch.tensor([5]))

    def test_the_numbers_of_boxes_may_be_lists(self):
        samples = self.detections(4)
        path = self.folder / "a.tfrecord"
        names = [f"bbox_{edge}" for edge in ("xmin", "ymin", "xmax", "ymax")]
        records = b""
        for index, each in enumerate(samples):
            height, width = each["size"]
            edges = [edge / side for edge, side in zip(each["box"], (width, height, width, height))]
            lists = {name: [edge] * (index + 1) for name, edge in zip(names, edges)} if index < 3 else {}
            records += record(example(image=each["image"], ids=list(range(len(lists) and index + 1)),
                                      **lists))
        path.write_bytes(records)
        data = millrace.Files([path], fields={
            "image": Image(48, "resize"), "ids": Ragged("int64", boxes="boxes"),
            "boxes": Boxes(like="image", normalized=True, columns=names)})
        images, ids, (values, offsets) = next(iter(millrace.DataLoader(data, batch_size=4)))
        self.assertEqual(offsets.tolist(), [0, 1, 3, 6, 6])
        self.assertEqual(ids.offsets.tolist(), offsets.tolist())
        for row in range(3):
            self.check(images[row], values[offsets[row]:offsets[row] + 1] * 48, torch.tensor([5]))
        path.write_bytes(record(example(image=samples[0]["image"], **dict.fromkeys(names[:3], [0.5]),
                                        bbox_ymax=[0.5, 0.6])))
        data = millrace.Files([path], fields={
            "image": Image(48), "boxes": Boxes(like="image", columns=names)})
        with self.assertRaisesRegex(millrace.SampleError, r"'bbox_ymax' is \[2\] of float32, but "
                                    r"'bbox_xmin' is \[1\] of float32; the columns must be alike"):
            data[0]
        with self.assertRaisesRegex(ValueError, "boxes have four columns, not 2"):
            millrace.Files([path], fields={"image": Image(48),
                                           "boxes": Boxes(like="image", columns=names[:2])})

    def test_bad_boxes_are_named(self):
        image = self.detections(1)[0]["image"]
        for boxes, text in ((numpy.zeros((2, 3), numpy.float32), r"boxes are \[count, 4\], but this is \[2, 3\]"),
                            (numpy.full((1, 4), numpy.nan), "box 0 has a number that is not finite")):
            data = millrace.Files([self.tar([{"png": image, "bbox.npy": npy(boxes)}])],
                                  fields={"png": Image(32), "bbox.npy": Boxes("png")})
            with self.assertRaisesRegex(millrace.SampleError, "'0000'.*bbox.npy: .*" + text):
                data[0]
        path = self.tar([{"png": image, "bbox.npy": npy(numpy.zeros((2, 4))), "c.npy": npy(numpy.zeros(3))}])
        data = millrace.Files([path], fields={"png": Image(32), "bbox.npy": Boxes("png"),
                                              "c.npy": Ragged(boxes="bbox.npy")})
        with self.assertRaisesRegex(millrace.SampleError, "'c.npy' has 3 items, but there are 2 boxes"):
            data[0]
        with self.assertRaisesRegex(ValueError, "unknown format 'yxyx' of boxes"):
            millrace.Files([path], fields={"png": Image(32), "bbox.npy": Boxes("png", format="yxyx")})


if __name__ == "__main__":
    unittest.main()
