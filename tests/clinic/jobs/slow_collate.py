"""collate_fn loops over the values of each sample. Cure: it stacks arrays."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "collate_fn as a loop in Python"
EXPECTED = ["slow-transform"]

SAMPLES = 4000
VALUES = 768


def make(directory):
    np.save(directory / "samples.npy", np.random.default_rng(1).random((SAMPLES, VALUES), dtype=np.float32))


class Rows(Dataset):
    def __init__(self, path):
        self.values = np.load(path, mmap_mode="r")

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return np.array(self.values[index]), index % CLASSES


def loop(samples):
    return torch.tensor([[float(value) for value in values] for values, _ in samples]), labels_of(samples)


def stack(samples):
    return torch.from_numpy(np.stack([values for values, _ in samples])), labels_of(samples)


def labels_of(samples):
    return torch.tensor([label for _, label in samples])


def train(directory, cured):
    loader = DataLoader(Rows(directory / "samples.npy"), batch_size=32, shuffle=True, collate_fn=stack if cured else loop)
    Training(model(VALUES, 256)).fit(loader, epochs=8)
