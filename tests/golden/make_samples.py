"""Writes the golden files of samples with numpy, tarfile and zipfile: make_samples.py FOLDER

samples.npy: 2x3 float32 of 0 to 5. samples.npz: "x" stored and "y" deflated. samples.tar: two samples of a text and a
class, the second with a long name in a pax header. indexed.mrd and .mrx: three samples, "", "a" and "bc", labels 5, -1
and 6, from docs/formats/indexed.md. samples.csv, .json and .jsonl: two samples of an integer, a float and a text, with
csv and json. tokens.bin and .idx: three sequences of uint16 in two documents, from docs/formats/megatron.md.
samples.indexed_binary and its indexes: samples of 3, 0 and 2 bytes. samples.tfrecord.gz: tensorflow.tfrecord, compressed."""

import csv
import gzip
import io
import json
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


def write_texts() -> None:
    samples = [{"id": 7, "score": 0.5, "text": "cat"}, {"id": -8, "score": 1e20, "text": 'a, "b"\n\u00e9'}]
    with open(FOLDER / "samples.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "score", "text"])
        writer.writeheader()
        writer.writerows(samples)
    (FOLDER / "samples.json").write_text(json.dumps(samples, indent=1))
    (FOLDER / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))


def write_tokens() -> None:
    numpy.arange(6, dtype="<u2").tofile(FOLDER / "tokens.bin")
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 3, 3)
    (FOLDER / "tokens.idx").write_bytes(index + struct.pack("<3i3q3q", 2, 3, 1, 0, 4, 10, 0, 1, 3))


def write_dlio() -> None:
    (FOLDER / "samples.indexed_binary").write_bytes(b"abcde")
    numpy.array([0, 3, 3], "<u8").tofile(FOLDER / "samples.indexed_binary.off.idx")
    numpy.array([3, 0, 2], "<u8").tofile(FOLDER / "samples.indexed_binary.sz.idx")


def write_gzip() -> None:
    records = (Path(__file__).parent / "tensorflow.tfrecord").read_bytes()
    (FOLDER / "samples.tfrecord.gz").write_bytes(gzip.compress(records, mtime=0))


numpy.save(FOLDER / "samples.npy", numpy.arange(6, dtype="f4").reshape(2, 3))
write_npz()
write_tar()
write_indexed()
write_texts()
write_tokens()
write_dlio()
write_gzip()
