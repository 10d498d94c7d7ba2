"""An HDF5 file that is opened for every sample. Cure: keep it open."""

import h5py
import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "an HDF5 file opened for each sample"
EXPECTED = ["repeated-opens"]

ROWS = 3000
VALUES = 768


def make(directory):
    with h5py.File(directory / "samples.h5", "w") as file:
        file["rows"] = np.random.default_rng(1).random((ROWS, VALUES), dtype=np.float32)


class Rows(Dataset):
    def __init__(self, path, keep):
        self.path = path
        self.file = h5py.File(path, "r") if keep else None

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        if self.file is not None:
            row = self.file["rows"][index]
        else:
            with h5py.File(self.path, "r") as file:
                row = file["rows"][index]
        return torch.from_numpy(row), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Rows(directory / "samples.h5", keep=cured), batch_size=32, shuffle=True)
    Training(model(VALUES, 512)).fit(loader, epochs=2)
