#!/usr/bin/env python3
"""Masks next to images, in files that C++ reads."""

import pickle
import unittest
from pathlib import Path

import numpy
import torch
from PIL import Image as Pillow

import millrace
from millrace import Image, Mask
from sample_files import FilesTest, encoded, npy


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


if __name__ == "__main__":
    unittest.main()
