"""HDF5 with gzip chunks of 500 rows, of which one random row is read at a time. Cure: chunks of one row."""

import h5py
import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "HDF5, gzip chunks of 500 rows, one random row at a time"
EXPECTED = ["hdf5-chunks"]

ROWS = 2000
COLUMNS = 256


def make(directory):
    generator = np.random.default_rng(1)
    rows = generator.integers(0, 16, (ROWS, COLUMNS)).astype(np.float32)
    for name, chunk_rows in (("sick.h5", 500), ("cured.h5", 1)):
        with h5py.File(directory / name, "w") as file:
            file.create_dataset("rows", data=rows, chunks=(chunk_rows, COLUMNS), compression="gzip")
            file.create_dataset("labels", data=np.arange(ROWS) % CLASSES)


class Rows(Dataset):
    def __init__(self, path):
        self.file = h5py.File(path, "r")
        self.rows = self.file["rows"]
        self.labels = self.file["labels"][:]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.from_numpy(self.rows[index]), int(self.labels[index])


def train(directory, cured):
    dataset = Rows(directory / ("cured.h5" if cured else "sick.h5"))
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    Training(model(COLUMNS, 1024)).fit(loader, epochs=1)
