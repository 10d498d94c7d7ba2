"""Files of samples for tests: TFRecords, encoded images, arrays, and a folder to put them into."""

import io
import struct
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

import numpy
from PIL import Image as Pillow

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "format"))

import tfrecord_file  # noqa: E402


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
