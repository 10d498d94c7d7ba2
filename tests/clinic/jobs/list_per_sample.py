"""The folder is listed for every sample, to find the n-th file in it. Cure: list it once, when the dataset is made."""

import os

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "the folder listed for each sample"
EXPECTED = ["metadata-storm"]

FILES = 1000
SHAPE = (3, 16, 16)


def make(directory):
    generator = np.random.default_rng(1)
    (directory / "files").mkdir()
    for index in range(FILES):
        np.save(directory / "files" / f"{index:05}.npy", generator.random(SHAPE, dtype=np.float32))


class Files(Dataset):
    def __init__(self, directory, keep):
        self.directory = directory
        self.names = self.list() if keep else None

    def list(self):
        return sorted(os.listdir(self.directory))

    def __len__(self):
        return FILES

    def __getitem__(self, index):
        name = (self.names or self.list())[index]
        return torch.from_numpy(np.load(self.directory / name)), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Files(directory / "files", keep=cured), batch_size=32, shuffle=True)
    Training(model(768, 256)).fit(loader, epochs=4)
