"""Pickled user sessions on a file server, read again in each epoch. Cure: kept in memory after the first."""

import pickle

import numpy as np
import torch
from job import CLASSES, VOCABULARY, Accelerator, Training, recommender
from torch.utils.data import DataLoader, Dataset

DISEASE = "a small dataset read from a server in each epoch"
EXPECTED = ["fits-memory", "fits-local-disk", "few-reads-in-flight"]
SLOW = {"delay_us": 1000}
ADVISE = {"data-storage": "lustre"}

USERS = 480
EVENTS = 4000
EPOCHS = 4


def make(directory):
    generator = np.random.default_rng(1)
    folder = directory / "slow"
    folder.mkdir()
    for user in range(USERS):
        session = {"user": user, "items": generator.integers(0, VOCABULARY, EVENTS, dtype=np.int64),
                   "label": user % CLASSES}
        (folder / f"user_{user:04}.pkl").write_bytes(pickle.dumps(session))


class Sessions(Dataset):
    def __init__(self, folder, keeps):
        self.paths = sorted(folder.glob("*.pkl"))
        self.keeps = keeps
        self.sessions = {}

    def __len__(self):
        return len(self.paths)

    def load(self, index):
        if index in self.sessions:
            return self.sessions[index]
        with open(self.paths[index], "rb") as file:
            session = pickle.load(file)
        if self.keeps:
            self.sessions[index] = session
        return session

    def __getitem__(self, index):
        session = self.load(index)
        begin = int(torch.randint(EVENTS - 256, ()))
        return torch.from_numpy(session["items"][begin:begin + 256]), session["label"]


def train(directory, cured):
    loader = DataLoader(Sessions(directory / "slow", cured), batch_size=16, shuffle=True)
    Training(Accelerator(recommender(), 0.006)).fit(loader, epochs=EPOCHS)
