#!/usr/bin/env python3
"""Boxes in images, in files that C++ reads."""

import unittest

import numpy
import torch

import millrace
from millrace import Boxes, Image, Ragged
from sample_files import FilesTest, encoded, example, npy, record


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
