"""All files are listed and their sizes asked for at every batch, in the training loop. Cure: once, before it."""

import os

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "listdir and stat of all files at each batch"
EXPECTED = ["metadata-storm", "loop-stall"]

FILES = 6000
SHAPE = (3, 16, 16)


def make(directory):
    generator = np.random.default_rng(1)
    (directory / "files").mkdir()
    for index in range(FILES):
        np.save(directory / "files" / f"{index:05}.npy", generator.random(SHAPE, dtype=np.float32))


class Files(Dataset):
    def __init__(self, directory):
        self.paths = [os.path.join(directory, name) for name in sorted(os.listdir(directory))]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.from_numpy(np.load(self.paths[index])), index % CLASSES


def dataset_bytes(directory):
    return sum(os.stat(os.path.join(directory, name)).st_size for name in os.listdir(directory))


def train(directory, cured):
    training = Training(model(768, 256))
    loader = DataLoader(Files(directory / "files"), batch_size=32, shuffle=True)
    size_bytes = dataset_bytes(directory / "files")
    seen_bytes = 0
    for values, labels in loader:
        training.step(values, labels)
        if not cured:
            size_bytes = dataset_bytes(directory / "files")
        seen_bytes += size_bytes // len(loader)  # progress, in bytes of the dataset
