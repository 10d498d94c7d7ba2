"""Mean and deviation of each channel are read value by value from a file, for every sample. Cure: read them once."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "a statistics file read in pieces"
EXPECTED = ["stats-file-pieces", "hot-small-file"]

SAMPLES = 4000
CHANNELS = 128
SIDE = 4


def make(directory):
    generator = np.random.default_rng(1)
    np.save(directory / "samples.npy", generator.random((SAMPLES, CHANNELS, SIDE, SIDE), dtype=np.float32))
    generator.uniform(0.5, 1, (2, CHANNELS)).tofile(directory / "statistics.bin")


def read_statistics(path):
    values = []
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(8):
            values.append(np.frombuffer(piece)[0])
    return np.array(values, dtype=np.float32).reshape(2, CHANNELS, 1, 1)


class Normalized(Dataset):
    def __init__(self, directory, keep):
        self.samples = np.load(directory / "samples.npy", mmap_mode="r")
        self.path = directory / "statistics.bin"
        self.statistics = read_statistics(self.path) if keep else None

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        mean, deviation = read_statistics(self.path) if self.statistics is None else self.statistics
        return torch.from_numpy((self.samples[index] - mean) / deviation), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Normalized(directory, keep=cured), batch_size=32, shuffle=True)
    Training(model(CHANNELS * SIDE * SIDE, 256)).fit(loader, epochs=2)
