"""The training loop itself parses the table at the start of each epoch. Cure: once, before the loop."""

import csv

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, TensorDataset

DISEASE = "CSV parsed by the training loop, each epoch"
EXPECTED = ["text-parsing"]

ROWS = 5000
COLUMNS = 100


def make(directory):
    np.savetxt(directory / "table.csv", np.random.default_rng(1).random((ROWS, COLUMNS)), delimiter=",")


def table(path):
    with open(path, newline="") as file:
        return torch.tensor([[float(value) for value in row] for row in csv.reader(file)])


def train(directory, cured):
    training = Training(model(COLUMNS, 256))
    labels = torch.arange(ROWS) % CLASSES
    values = table(directory / "table.csv")
    for _ in range(10):
        if not cured:
            values = table(directory / "table.csv")
        training.fit(DataLoader(TensorDataset(values, labels), batch_size=64, shuffle=True), epochs=1)
