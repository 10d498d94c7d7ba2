"""Compressed .npz files that are decompressed in every epoch. Cure: the same arrays, not compressed."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "compressed samples, decompressed in every epoch"
EXPECTED = ["compressed-samples", "decode-bound"]

SAMPLES = 300
SHAPE = (16, 64, 64)


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
            return torch.from_numpy(file["volume"]), int(file["label"])


def train(directory, cured):
    loader = DataLoader(Volumes(directory / ("plain" if cured else "compressed")), batch_size=10, shuffle=True)
    Training(model(SHAPE[0] * SHAPE[1] * SHAPE[2], 16)).fit(loader, epochs=4)
