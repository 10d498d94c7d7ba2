"""Two large files that are opened, seeked, read and closed for every sample. Cure: open them once, and map them."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "large files opened, seeked, read and closed for each sample"
EXPECTED = ["repeated-opens"]

SAMPLES = 30000
VALUES = 256


def make(directory):
    np.random.default_rng(1).random((SAMPLES, VALUES), dtype=np.float32).tofile(directory / "samples.bin")
    (np.arange(SAMPLES) % CLASSES).astype(np.int64).tofile(directory / "labels.bin")


def read(path, offset, count):
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(count)


class Opened(Dataset):
    def __init__(self, directory):
        self.directory = directory

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        sample = np.frombuffer(read(self.directory / "samples.bin", index * VALUES * 4, VALUES * 4), dtype=np.float32)
        label = np.frombuffer(read(self.directory / "labels.bin", index * 8, 8), dtype=np.int64)
        return torch.from_numpy(sample.copy()), label[0]


class Mapped(Dataset):
    def __init__(self, directory):
        self.samples = np.memmap(directory / "samples.bin", dtype=np.float32, mode="r", shape=(SAMPLES, VALUES))
        self.labels = np.memmap(directory / "labels.bin", dtype=np.int64, mode="r")

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.samples[index])), self.labels[index]


def train(directory, cured):
    loader = DataLoader(Mapped(directory) if cured else Opened(directory), batch_size=128, shuffle=True)
    Training(model(VALUES, 128)).fit(loader, epochs=3)
