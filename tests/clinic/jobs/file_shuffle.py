"""Files in a new order every epoch, but their samples always in the same. Cure: shuffle samples. Costs accuracy."""

import random

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler

DISEASE = "a shuffle of files, not of samples"
EXPECTED = ["file-shuffle"]
COSTS_TIME = False

FILES = 20
ROWS = 320
VALUES = 768


def make(directory):
    generator = np.random.default_rng(1)
    for index in range(FILES):
        generator.random((ROWS, VALUES), dtype=np.float32).tofile(directory / f"{index:02}.bin")


def row_of(data, index):
    return torch.from_numpy(np.frombuffer(data, dtype=np.float32).copy()), index % CLASSES


class FileOrder(Sampler):
    def __len__(self):
        return FILES * ROWS

    def __iter__(self):
        for file in random.sample(range(FILES), FILES):
            yield from range(file * ROWS, (file + 1) * ROWS)


class Rows(Dataset):
    def __init__(self, directory):
        self.files = [open(path, "rb", buffering=0) for path in sorted(directory.glob("*.bin"))]

    def __len__(self):
        return FILES * ROWS

    def __getitem__(self, index):
        file = self.files[index // ROWS]
        file.seek(index % ROWS * VALUES * 4)
        return row_of(file.read(VALUES * 4), index)


def train(directory, cured):
    dataset = Rows(directory)
    order = RandomSampler(dataset) if cured else FileOrder(dataset)
    Training(model(VALUES, 1024)).fit(DataLoader(dataset, batch_size=32, sampler=order), epochs=3)
