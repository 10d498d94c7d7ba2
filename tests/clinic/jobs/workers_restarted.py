"""Workers that are started anew in each of many short epochs. Cure: persistent_workers=True."""

import os

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "workers started anew in each of many short epochs"
EXPECTED = ["worker-restart"]

SAMPLES = 256
VALUES = 3072


def make(directory):
    np.random.default_rng(1).random((SAMPLES, VALUES), dtype=np.float32).tofile(directory / "samples.bin")


class Samples(Dataset):
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        data = np.frombuffer(os.pread(self.fd, VALUES * 4, index * VALUES * 4), dtype=np.float32)
        return torch.from_numpy(data.copy()), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Samples(directory / "samples.bin"), batch_size=32, shuffle=True, num_workers=2,
                        persistent_workers=cured)
    Training(model(VALUES, 256)).fit(loader, epochs=40)
