"""Makes a small dataset of images: one .npy file per sample, one directory per class.

Each class is a pattern of stripes of a certain angle and width, with noise. A network can learn them, and nothing
has to be downloaded.
"""
import argparse
import pathlib

import numpy


def image(label: int, size: int, random: numpy.random.Generator) -> numpy.ndarray:
    y, x = numpy.mgrid[0:size, 0:size] / size
    angle = label * numpy.pi / 10 + random.normal(0, 0.05)
    waves = 4 + label % 3 * 3
    pattern = numpy.sin(2 * numpy.pi * waves * (x * numpy.cos(angle) + y * numpy.sin(angle)) + random.uniform(0, 6.28))
    noisy = 127 + 60 * pattern[..., None] + random.normal(0, 40, (size, size, 3))
    return noisy.clip(0, 255).astype(numpy.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--size", type=int, default=64, help="width and height in pixels")
    arguments = parser.parse_args()
    if arguments.directory.exists() and any(arguments.directory.iterdir()):
        parser.error(f"{arguments.directory} is not empty; give a new directory")
    random = numpy.random.default_rng(1)
    for label in range(arguments.classes):
        (arguments.directory / f"class{label}").mkdir(parents=True, exist_ok=True)
    for index in range(arguments.samples):
        label = index % arguments.classes
        path = arguments.directory / f"class{label}" / f"{index:06}.npy"
        numpy.save(path, image(label, arguments.size, random))


if __name__ == "__main__":
    main()
