"""Compressed .npz files that are decompressed in every epoch. Cure: the same arrays, not compressed."""

import math

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "compressed samples, decompressed in every epoch"
EXPECTED = ["compressed-samples", "decode-bound"]

SAMPLES = 200
SHAPE = (64, 64, 64)
CROP = (16, 32, 32)


def make(directory):
    generator = np.random.default_rng(1)
    (directory / "compressed").mkdir()
    (directory / "plain").mkdir()
    for index in range(SAMPLES):
        volume = generator.integers(0, 8, SHAPE).astype(np.float32)
        np.savez_compressed(directory / "compressed" / f"{index:04}.npz", volume=volume, label=index % CLASSES)
        np.savez(directory / "plain" / f"{index:04}.npz", volume=volume, label=index % CLASSES)


class Volumes(Dataset):
    def __init__(self, directory):
        self.paths = sorted(directory.glob("*.npz"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with np.load(self.paths[index]) as file:
            volume, label = file["volume"], int(file["label"])
        corner = [torch.randint(0, side - part + 1, ()).item() for side, part in zip(SHAPE, CROP)]
        crop = volume[tuple(slice(begin, begin + part) for begin, part in zip(corner, CROP))]
        return torch.from_numpy(crop.copy()), label


def train(directory, cured):
    loader = DataLoader(Volumes(directory / ("plain" if cured else "compressed")), batch_size=10, shuffle=True)
    Training(model(math.prod(CROP), 64)).fit(loader, epochs=4)
