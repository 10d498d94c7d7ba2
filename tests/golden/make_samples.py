"""Writes the golden files of samples with numpy, tarfile and zipfile: make_samples.py FOLDER

samples.npy: 2x3 float32 of 0 to 5. samples.npz: "x" stored and "y" deflated. samples.tar: two samples of a text and a
class, the second with a long name in a pax header. indexed.mrd and .mrx: three samples, "", "a" and "bc", labels 5, -1
and 6, from docs/formats/indexed.md."""

import io
import os
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy

FOLDER = Path(sys.argv[1])


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def npy(array: numpy.ndarray) -> bytes:
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def write_npz() -> None:
    with zipfile.ZipFile(FOLDER / "samples.npz", "w") as members:
        for name, array, method in (("x", numpy.arange(6, dtype="f4").reshape(2, 3), zipfile.ZIP_STORED),
                                    ("y", numpy.zeros(100, "i8"), zipfile.ZIP_DEFLATED)):
            info = zipfile.ZipInfo(f"{name}.npy")
            info.compress_type = method
            members.writestr(info, npy(array))


def write_tar() -> None:
    with tarfile.open(FOLDER / "samples.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in (("a/0.txt", b"zero"), ("a/0.cls", b"3"), ("a/" + "1" * 120 + ".txt", b"one")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    # Without the zeros with which tarfile fills its records of 10 KiB.
    os.truncate(FOLDER / "samples.tar", tar.offset)


def write_indexed() -> None:
    samples, labels = [b"", b"a", b"bc"], [5, -1, 6]
    ends = struct.pack("<3Q", 64, 65, 67)
    checksums = struct.pack("<3I", *map(crc32c, samples))
    tables = ends + checksums + struct.pack("<3i", *labels)
    identity = crc32c(ends + checksums) << 32 | crc32c(checksums)
    data = b"\0RMIDATA" + struct.pack("<IIQQQ", 1, 0, identity, 3, 67) + bytes(20)
    index = b"\0RMINDEX" + struct.pack("<IIQQQI", 1, 1, identity, 3, 67, crc32c(tables)) + bytes(16)
    (FOLDER / "indexed.mrd").write_bytes(data + struct.pack("<I", crc32c(data)) + b"".join(samples))
    (FOLDER / "indexed.mrx").write_bytes(index + struct.pack("<I", crc32c(index)) + tables)


numpy.save(FOLDER / "samples.npy", numpy.arange(6, dtype="f4").reshape(2, 3))
write_npz()
write_tar()
write_indexed()
