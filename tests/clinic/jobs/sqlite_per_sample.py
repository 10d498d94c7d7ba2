"""A database that is opened for each sample. Cure: opened once."""

import sqlite3

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "an SQLite database opened for each sample"
EXPECTED = ["repeated-opens"]

ROWS = 6000
VALUES = 256


def make(directory):
    values = np.random.default_rng(1).random((ROWS, VALUES), dtype=np.float32)
    with sqlite3.connect(directory / "samples.db") as database:
        database.execute("create table samples (id integer primary key, pixels blob)")
        database.executemany("insert into samples values (?, ?)", ((i, row.tobytes()) for i, row in enumerate(values)))


class Rows(Dataset):
    def __init__(self, path, keeps_open):
        self.path = path
        self.database = sqlite3.connect(path) if keeps_open else None

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        database = self.database or sqlite3.connect(self.path)
        pixels = database.execute("select pixels from samples where id = ?", (index,)).fetchone()[0]
        if self.database is None:
            database.close()
        return torch.from_numpy(np.frombuffer(pixels, dtype=np.float32).copy()), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Rows(directory / "samples.db", cured), batch_size=64, shuffle=True)
    Training(model(VALUES, 256)).fit(loader, epochs=4)
