"""Thousands of small .npy files, read without workers. Cure: all samples in one file, mapped into memory."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "thousands of small files, no workers"
EXPECTED = ["many-small-files"]

SAMPLES = 6000
SHAPE = (3, 16, 16)


def make(directory):
    generator = np.random.default_rng(1)
    samples = generator.random((SAMPLES, *SHAPE), dtype=np.float32)
    for index, sample in enumerate(samples):
        folder = directory / "files" / str(index % CLASSES)
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{index:05}.npy", sample)
    np.save(directory / "packed.npy", samples)


class Files(Dataset):
    def __init__(self, directory):
        self.paths = sorted(directory.glob("*/*.npy"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return torch.from_numpy(np.load(path)), int(path.parent.name)


class Packed(Dataset):
    def __init__(self, path):
        self.samples = np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return torch.from_numpy(self.samples[index].copy()), index % CLASSES


def train(directory, cured):
    dataset = Packed(directory / "packed.npy") if cured else Files(directory / "files")
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    Training(model(768, 256)).fit(loader, epochs=3)
