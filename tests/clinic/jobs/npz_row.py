"""One row of a large .npz file, which is unpacked whole for each sample. Cure: a mapped .npy file."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "one row of a large .npz file for each sample"
EXPECTED = ["partial-use", "compressed-samples"]

ROWS = 2000
VALUES = 768
SAMPLES = 800


def make(directory):
    values = np.random.default_rng(1).random((ROWS, VALUES), dtype=np.float32)
    np.savez(directory / "all.npz", x=values)
    np.save(directory / "all.npy", values)


class Rows(Dataset):
    def __init__(self, directory, cured):
        self.path = directory / "all.npz"
        self.values = np.load(directory / "all.npy", mmap_mode="r") if cured else None

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        values = np.load(self.path)["x"] if self.values is None else self.values
        return torch.from_numpy(np.array(values[index])), index % CLASSES


def train(directory, cured):
    Training(model(VALUES, 256)).fit(DataLoader(Rows(directory, cured), batch_size=32, shuffle=True), epochs=1)
