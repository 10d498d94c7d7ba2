"""One large file that is opened, seeked, read and closed for every sample. Cure: open it once, and map it."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "one large file opened, seeked, read and closed for each sample"
EXPECTED = ["repeated-opens"]

SAMPLES = 40000
VALUES = 256


def make(directory):
    np.random.default_rng(1).random((SAMPLES, VALUES), dtype=np.float32).tofile(directory / "samples.bin")


class Opened(Dataset):
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        with open(self.path, "rb") as file:
            file.seek(index * VALUES * 4)
            data = file.read(VALUES * 4)
        return torch.from_numpy(np.frombuffer(data, dtype=np.float32).copy()), index % CLASSES


class Mapped(Dataset):
    def __init__(self, path):
        self.samples = np.memmap(path, dtype=np.float32, mode="r", shape=(SAMPLES, VALUES))

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.samples[index])), index % CLASSES


def train(directory, cured):
    path = directory / "samples.bin"
    loader = DataLoader(Mapped(path) if cured else Opened(path), batch_size=128, shuffle=True)
    Training(model(VALUES, 256)).fit(loader, epochs=3)
