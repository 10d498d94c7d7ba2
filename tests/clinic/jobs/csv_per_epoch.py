"""A CSV file that is parsed in every epoch. Cure: the same numbers in a binary file."""

import csv

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, IterableDataset

DISEASE = "CSV, one pass an epoch"
EXPECTED = ["text-parsing"]

ROWS = 4000
COLUMNS = 256


def make(directory):
    values = np.random.default_rng(1).random((ROWS, COLUMNS), dtype=np.float32)
    np.save(directory / "table.npy", values)
    with open(directory / "table.csv", "w", newline="") as file:
        writer = csv.writer(file)
        for index, row in enumerate(values):
            writer.writerow([index % CLASSES, *(f"{value:.7f}" for value in row)])


class Text(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with open(self.path, newline="") as file:
            for row in csv.reader(file):
                yield torch.tensor([float(value) for value in row[1:]]), int(row[0])


class Binary(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        for index, row in enumerate(np.load(self.path)):
            yield torch.from_numpy(row), index % CLASSES


def train(directory, cured):
    dataset = Binary(directory / "table.npy") if cured else Text(directory / "table.csv")
    Training(model(COLUMNS, 1024)).fit(DataLoader(dataset, batch_size=32), epochs=4)
