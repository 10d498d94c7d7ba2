"""A loader with workers, made anew for each validation, every 5 steps. Cure: one loader with persistent workers."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "workers started anew for each validation"
EXPECTED = ["worker-restart"]

TRAIN_ROWS = 8000
VALID_ROWS = 256
VALUES = 1024
VALIDATE_EVERY = 5


def make(directory):
    generator = np.random.default_rng(1)
    for name, rows in (("train", TRAIN_ROWS), ("valid", VALID_ROWS)):
        np.save(directory / f"{name}_x.npy", generator.random((rows, VALUES), dtype=np.float32))
        np.save(directory / f"{name}_y.npy", generator.integers(0, CLASSES, rows))


class Table(Dataset):
    def __init__(self, directory, name):
        self.values = np.load(directory / f"{name}_x.npy")
        self.labels = np.load(directory / f"{name}_y.npy")

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, row):
        values = self.values[row]
        return torch.from_numpy((values - values.mean()) / values.std()), int(self.labels[row])


@torch.no_grad()
def accuracy(network, loader):
    network.eval()
    right = sum((network(values).argmax(1) == labels).sum().item() for values, labels in loader)
    network.train()
    return right / VALID_ROWS


def train(directory, cured):
    train_loader = DataLoader(Table(directory, "train"), batch_size=32, shuffle=True)
    validation = Table(directory, "valid")
    kept = DataLoader(validation, batch_size=64, num_workers=2, persistent_workers=True) if cured else None
    training = Training(model(VALUES, 1024))
    best = 0.0
    for step, (values, labels) in enumerate(train_loader):
        training.step(values, labels)
        if step % VALIDATE_EVERY == 0:
            best = max(best, accuracy(training.network, kept or DataLoader(validation, batch_size=64, num_workers=2)))
