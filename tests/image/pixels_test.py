#!/usr/bin/env python3
"""Decoded and resized pixels compared with Pillow's, for all kinds of files in datasets."""

import io
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

import numpy
from PIL import Image

PROBE = sys.argv.pop(1)
WIDTH, HEIGHT = 150, 113


def probe(*words) -> subprocess.CompletedProcess:
    return subprocess.run([PROBE, *map(str, words)], capture_output=True, check=False)


def sample(path, width, height, dtype=numpy.uint8, **options) -> numpy.ndarray:
    words = [f"{key}={value}" for key, value in options.items()]
    done = probe("sample", path, f"width={width}", f"height={height}", *words)
    assert done.returncode == 0, done.stderr
    return numpy.frombuffer(done.stdout, dtype=dtype).reshape(height, width, 3)


def pixels(path) -> numpy.ndarray:
    return numpy.asarray(Image.open(path).convert("RGB"))


def difference(left, right) -> int:
    return int(numpy.abs(left.astype(int) - right.astype(int)).max())


def picture(width=WIDTH, height=HEIGHT) -> Image.Image:
    random = numpy.random.default_rng(3)
    y, x = numpy.mgrid[0:height, 0:width]
    waves = numpy.stack([numpy.sin(x / (7 + c)) + numpy.cos(y / (5 + c)) for c in range(3)], axis=-1)
    noise = random.normal(size=(height, width, 3)) * 10
    return Image.fromarray(numpy.clip(128 + 50 * waves + noise, 0, 255).astype(numpy.uint8))


def interlaced_png(values: numpy.ndarray) -> bytes:
    """Adam7: seven passes, each finer than the last. Pillow reads this but does not write it."""
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    rows = [row for x, y, dx, dy in passes for row in values[y::dy, x::dx]]
    height, width = values.shape[:2]

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)) +
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))) + chunk(b"IEND", b""))


class PixelsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.base = Path(self.folder.name)

    def saved(self, name, image, **options) -> Path:
        image.save(self.base / name, **options)
        return self.base / name

    def whole(self, path) -> numpy.ndarray:
        return sample(path, WIDTH, HEIGHT, transform="none")

    def test_jpegs_have_pillows_pixels(self):
        image = picture()
        kinds = {
            "420": {"image": image, "subsampling": 2},
            "422": {"image": image, "subsampling": 1},
            "444": {"image": image, "subsampling": 0},
            "progressive": {"image": image, "progressive": True},
            "gray": {"image": image.convert("L")},
            "coarse": {"image": image, "quality": 20},
        }
        for name, options in kinds.items():
            path = self.saved(f"{name}.jpg", options.pop("image"), **options)
            with self.subTest(name):
                # Pillow may contain its own libjpeg.
                self.assertLessEqual(difference(self.whole(path), pixels(path)), 1)

    def test_cmyk_is_converted_as_pillow_does(self):
        path = self.saved("cmyk.jpg", picture().convert("CMYK"), quality=95)
        self.assertLessEqual(difference(self.whole(path), pixels(path)), 2)

    def test_orientation_in_exif_is_ignored(self):
        exif = Image.Exif()
        exif[0x0112] = 6  # rotate by 90 degrees
        path = self.saved("turned.jpg", picture(), exif=exif)
        self.assertLessEqual(difference(self.whole(path), pixels(path)), 1)

    def test_pngs_have_pillows_pixels(self):
        image = picture()
        transparent = image.copy()
        transparent.putalpha(Image.linear_gradient("L").resize(image.size))
        kinds = {
            "rgb": image,
            "gray": image.convert("L"),
            "bits": image.convert("1"),
            "palette": image.quantize(16),
            "alpha": transparent,
            "gray_alpha": transparent.convert("LA"),
        }
        for name, kind in kinds.items():
            path = self.saved(f"{name}.png", kind)
            with self.subTest(name):
                self.assertEqual(difference(self.whole(path), pixels(path)), 0)

    def test_an_interlaced_png_has_the_same_pixels_as_a_plain_one(self):
        image = picture()
        path = self.base / "interlaced.png"
        path.write_bytes(interlaced_png(numpy.asarray(image)))
        self.assertEqual(difference(pixels(path), numpy.asarray(image)), 0)  # the test file is correct
        self.assertEqual(difference(self.whole(path), numpy.asarray(image)), 0)
        plain = self.saved("plain.png", image)
        for index in range(5):
            self.assertTrue((sample(path, 40, 40, sample=index) == sample(plain, 40, 40, sample=index)).all())

    def test_sixteen_bit_pixels_lose_their_lower_eight_bits(self):
        values = (numpy.arange(WIDTH * HEIGHT) * 37 % 65536).astype(numpy.uint16).reshape(HEIGHT, WIDTH)
        path = self.saved("deep.png", Image.fromarray(values.astype(numpy.int32), mode="I"))
        self.assertTrue((self.whole(path)[..., 1] == values >> 8).all())

    def test_encoded_images_are_read_by_pillow(self):
        image = picture()
        raw = self.base / "raw"
        raw.write_bytes(image.tobytes())
        for kind, tolerance in (("png", 0), ("jpeg", 60)):
            encoded = probe(kind, raw, WIDTH, HEIGHT).stdout
            read = Image.open(io.BytesIO(encoded))
            self.assertEqual(read.size, image.size)
            self.assertLessEqual(difference(numpy.asarray(read), numpy.asarray(image)), tolerance)

    def test_resized_pixels_differ_from_pillows_by_at_most_one(self):
        path = self.saved("image.png", picture())
        original = Image.open(path)
        for width, height in ((224, 224), (64, 48), (20, 20), (149, 113), (7, 200), (1, 1)):
            expected = numpy.asarray(original.resize((width, height), Image.BILINEAR))
            found = sample(path, width, height, transform="resize")
            self.assertLessEqual(difference(found, expected), 1, (width, height))

    def test_random_crops_equal_pillows_of_the_same_part(self):
        path = self.saved("image.png", picture())
        original = Image.open(path)
        parts = probe("crops", WIDTH, HEIGHT, 30).stdout.decode().splitlines()
        for index, line in enumerate(parts):
            x, y, width, height, flip = map(int, line.split())
            part = original.crop((x, y, x + width, y + height)).resize((64, 64), Image.BILINEAR)
            part = part.transpose(Image.FLIP_LEFT_RIGHT) if flip else part
            found = sample(path, 64, 64, flip=0.5, sample=index)
            self.assertLessEqual(difference(found, numpy.asarray(part)), 1, line)

    def test_random_crops_of_jpegs_equal_crops_of_the_whole_image(self):
        path = self.saved("image.jpg", picture(), quality=90)
        copy = self.saved("image.png", Image.open(path))
        for index in range(30):
            from_part = sample(path, 64, 64, sample=index, scaled=0)
            from_whole = sample(copy, 64, 64, sample=index)
            self.assertLessEqual(difference(from_part, from_whole), 1)

    def test_a_centre_crop_equals_pillows_resize_and_crop(self):
        path = self.saved("image.png", picture())
        resized = Image.open(path).resize((int(64 * WIDTH / HEIGHT), 64), Image.BILINEAR)
        left, top = round((resized.width - 56) / 2), round((resized.height - 56) / 2)
        expected = numpy.asarray(resized.crop((left, top, left + 56, top + 56)))
        found = sample(path, 56, 56, transform="centre", resize_to=64)
        self.assertLessEqual(difference(found, expected), 1)

    def test_floats_are_the_normalised_bytes(self):
        path = self.saved("image.png", picture())
        mean = numpy.array([0.485, 0.456, 0.406], numpy.float32)
        deviation = numpy.array([0.229, 0.224, 0.225], numpy.float32)
        values = (sample(path, 64, 64).astype(numpy.float32) / numpy.float32(255) - mean) / deviation
        for kind, dtype in (("f32", numpy.float32), ("f16", numpy.float16)):
            found = sample(path, 64, 64, dtype=dtype, type=kind, normalise=1)
            self.assertTrue((found == values.astype(dtype)).all(), kind)
        bits = sample(path, 64, 64, dtype=numpy.uint16, type="bf16", normalise=1)
        found = (bits.astype(numpy.uint32) << 16).view(numpy.float32)
        self.assertLessEqual(float(numpy.abs(found / values - 1).max()), 2**-8)

    def test_a_scaled_decode_equals_pillows_draft(self):
        path = self.saved("large.jpg", picture(600, 450))
        for eighths, scale in ((4, 2), (2, 4), (1, 8)):
            draft = Image.open(path)
            draft.draft("RGB", (600 // scale, 450 // scale))
            expected = numpy.asarray(draft)
            height, width = expected.shape[:2]
            raw = probe("window", path, 0, 0, width, height, eighths).stdout
            found = numpy.frombuffer(raw, numpy.uint8).reshape(height, width, 3)
            self.assertLessEqual(difference(found, expected), 1)

    def test_a_truncated_file_is_an_error_that_says_so(self):
        path = self.saved("whole.jpg", picture())
        cut = self.base / "cut.jpg"
        cut.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        done = probe("sample", cut, f"width={WIDTH}", f"height={HEIGHT}", "transform=none")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"premature end", done.stderr)


if __name__ == "__main__":
    unittest.main()
