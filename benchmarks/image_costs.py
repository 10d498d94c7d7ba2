#!/usr/bin/env python3
"""What it costs to decode a JPEG into a batch: Millrace compared with libjpeg-turbo alone, torchvision and Pillow.

    benchmarks/image_costs.py                       # from the root, after cmake --workflow --preset bench
    benchmarks/image_costs.py --rounds 20 --images 200 --directory DIR

Makes images of noise (500 x 375, about 95 kB, 4:2:0, quality 90) unless DIR has some, then runs the contenders in turn,
with one thread each. Prints the CPU time per image, the minimum of the rounds, and ratios. It measures the torchvision
of the Python that runs it; without torchvision, only Millrace and libjpeg-turbo."""

import argparse
import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
from PIL import Image

WIDTH, HEIGHT = 500, 375
OCTAVES = range(1, 8)


def landscape(random) -> numpy.ndarray:
    """Noise on all scales, strongest on large scales, mostly in brightness."""
    pixels = numpy.full((HEIGHT, WIDTH, 3), 128.0)
    for octave in OCTAVES:
        shape = (max(2, HEIGHT * 2**octave // 256), max(2, WIDTH * 2**octave // 256), 3)
        noise = random.normal(size=shape)
        noise = noise.mean(axis=2, keepdims=True) * 0.8 + noise * 0.35
        for channel in range(3):
            plane = Image.fromarray(noise[..., channel].astype(numpy.float32))
            pixels[..., channel] += numpy.asarray(plane.resize((WIDTH, HEIGHT), Image.BICUBIC)) * 60 / octave**1.3
    return pixels


def photograph(random) -> bytes:
    """Adds grain until the file is as large as a photograph of these dimensions."""
    pixels, grain = landscape(random), random.normal(size=(HEIGHT, WIDTH, 1))
    wanted = random.uniform(75_000, 115_000)
    low, high = 0.0, 60.0
    for _ in range(7):
        middle = (low + high) / 2
        encoded = io.BytesIO()
        image = Image.fromarray(numpy.clip(pixels + grain * middle, 0, 255).astype(numpy.uint8))
        image.save(encoded, "JPEG", quality=90)
        low, high = (low, middle) if len(encoded.getvalue()) > wanted else (middle, high)
    return encoded.getvalue()


def torchvision_contenders(files: list) -> dict:
    try:
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg
        try:
            # Newer versions resize bytes without converting them, and are much faster.
            from torchvision.transforms.v2 import RandomResizedCrop
        except ImportError:
            from torchvision.transforms import RandomResizedCrop
        from torchvision.transforms import functional
    except ImportError:
        return {}
    torch.set_num_threads(1)
    crop = RandomResizedCrop(224, antialias=True)
    mean, deviation = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

    def flipped(image):
        return functional.hflip(image) if torch.rand(1) < 0.5 else image

    def opened(file):
        return Image.open(io.BytesIO(file)).convert("RGB")

    def decoded(file):
        return decode_jpeg(torch.frombuffer(file, dtype=torch.uint8), mode=ImageReadMode.RGB)

    def normalised(image):
        return functional.normalize(image.to(torch.float32).div(255), mean, deviation)

    ways = {
        "torchvision decode": decoded,
        "Pillow decode": lambda file: functional.pil_to_tensor(opened(file)),
        "torchvision crop": lambda file: flipped(crop(decoded(file))),
        "Pillow crop": lambda file: functional.pil_to_tensor(flipped(crop(opened(file)))),
        "torchvision crop f32": lambda file: normalised(flipped(crop(decoded(file)))),
        "Pillow crop f32": lambda file: functional.normalize(
            functional.to_tensor(flipped(crop(opened(file)))), mean, deviation),
    }
    files = [bytearray(file) for file in files]
    return {name: (lambda way=way: [way(file) for file in files]) for name, way in ways.items()}


def run_ours(program: Path, directory: Path) -> dict:
    done = subprocess.run([program, directory, "1"], capture_output=True, text=True, check=True)
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return {name: float(micros) for name, micros in rows}


def measure(program: Path, directory: Path, rounds: int) -> dict:
    files = [path.read_bytes() for path in sorted(directory.glob("*.jpg"))]
    peers = torchvision_contenders(files)
    best = {}
    for _ in range(rounds):
        found = run_ours(program, directory)
        for name, run in peers.items():
            begin = time.process_time()
            run()
            found[name] = (time.process_time() - begin) / len(files) * 1e6
        for name, micros in found.items():
            best[name] = min(best.get(name, micros), micros)
    return best


def print_ratios(best: dict):
    for title, ours, others in (
            ("decode to RGB", "decode", ("libjpeg-turbo", "torchvision decode", "Pillow decode")),
            ("decode to planes", "decode nchw", ("libjpeg-turbo",)),
            ("random crop to 224, bytes", "crop", ("libjpeg-turbo", "torchvision crop", "Pillow crop")),
            ("random crop to 224, floats", "crop f32", ("torchvision crop f32", "Pillow crop f32")),
            ("centre crop to 224", "centre", ())):
        print(f"{title}: {best[ours]:.0f} us of CPU per image")
        for other in others:
            if other in best:
                print(f"  {other}: {best[other]:.0f} us, {best[other] / best[ours]:.2f}x")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--program", type=Path, default=Path("build/release/bin/bench_image_costs"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        directory = options.directory or Path(made)
        if not any(directory.glob("*.jpg")):
            random = numpy.random.default_rng(1)
            for index in range(options.images):
                (directory / f"{index:05}.jpg").write_bytes(photograph(random))
        print_ratios(measure(options.program, directory, options.rounds))


if __name__ == "__main__":
    sys.exit(main())
