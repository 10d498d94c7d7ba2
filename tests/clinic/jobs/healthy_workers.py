"""A healthy job with two workers: loading overlaps with compute. There is nothing to cure."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "healthy, with two workers"
EXPECTED = []

FILES = 400
VALUES = 3072


def make(directory):
    generator = np.random.default_rng(1)
    for index in range(FILES):
        np.save(directory / f"{index:04}.npy", generator.random(VALUES, dtype=np.float32))


class Files(Dataset):
    def __init__(self, directory):
        self.paths = sorted(directory.glob("*.npy"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.from_numpy(np.load(self.paths[index])), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Files(directory), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    Training(model(VALUES, 1024)).fit(loader, epochs=5)
