"""The climatology that normalises a weather field is loaded from its .npz file for each sample.
Cure: loaded once, by the dataset."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "a file of means and deviations loaded for each sample"
EXPECTED = ["hot-small-file", "repeated-opens", "read-amplification"]

DAYS = 300
SHAPE = (96, 144)


def make(directory):
    generator = np.random.default_rng(41)
    (directory / "days").mkdir()
    for day in range(DAYS):
        np.save(directory / "days" / f"{day:03}.npy", generator.standard_normal(SHAPE, dtype=np.float32) * 10 + 280)
    np.savez_compressed(directory / "climatology.npz",
                        mean=generator.standard_normal((12, *SHAPE), dtype=np.float32) + 280,
                        std=generator.random((12, *SHAPE), dtype=np.float32) + 9)


class Era5(Dataset):
    def __init__(self, directory, keeps_climatology):
        self.files = sorted((directory / "days").glob("*.npy"))
        self.climatology_file = directory / "climatology.npz"
        self.climatology = self.load_climatology() if keeps_climatology else None

    def load_climatology(self):
        with np.load(self.climatology_file) as climatology:
            return climatology["mean"], climatology["std"]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        field = np.load(self.files[index])
        mean, std = self.climatology or self.load_climatology()
        month = index * 12 // DAYS
        return torch.from_numpy((field - mean[month]) / std[month]), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Era5(directory, cured), batch_size=16, shuffle=True)
    Training(model(SHAPE[0] * SHAPE[1], 128)).fit(loader, epochs=2)
