"""A healthy job: it computes, and loads little. There is nothing to cure."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "healthy, compute-bound"
EXPECTED = []

SAMPLES = 2000
VALUES = 3072


def make(directory):
    np.random.default_rng(1).random((SAMPLES, VALUES), dtype=np.float32).tofile(directory / "samples.bin")


class Samples(Dataset):
    def __init__(self, path):
        self.samples = np.memmap(path, dtype=np.float32, mode="r", shape=(SAMPLES, VALUES))

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.samples[index])), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Samples(directory / "samples.bin"), batch_size=32, shuffle=True)
    Training(model(VALUES, 1024)).fit(loader, epochs=2)
