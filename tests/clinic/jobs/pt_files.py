"""Samples in small files of torch.save, whose names are like those of models. Cure: one array."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "thousands of small .pt files"
EXPECTED = ["many-small-files"]

FILES = 4000
VALUES = 256


def make(directory):
    values = np.random.default_rng(1).random((FILES, VALUES), dtype=np.float32)
    np.save(directory / "all.npy", values)
    (directory / "files").mkdir()
    for index, row in enumerate(values):
        torch.save(torch.from_numpy(row.copy()), directory / "files" / f"{index:05}.pt")


class Files(Dataset):
    def __init__(self, directory):
        self.directory = directory

    def __len__(self):
        return FILES

    def __getitem__(self, index):
        return torch.load(self.directory / f"{index:05}.pt"), index % CLASSES


class Packed(Files):
    def __init__(self, path):
        self.values = np.load(path, mmap_mode="r")

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.values[index])), index % CLASSES


def train(directory, cured):
    dataset = Packed(directory / "all.npy") if cured else Files(directory / "files")
    Training(model(VALUES, 256)).fit(DataLoader(dataset, batch_size=64, shuffle=True), epochs=4)
