"""Twelve workers on two cores, and each loads the whole pickled dataset from shared storage. Cure: two workers."""

import pickle

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "twelve workers that each load the whole dataset"
EXPECTED = ["too-many-workers", "same-bytes", "read-amplification"]
SLOW = {"gap_us": 500}
ADVISE = {"data-storage": "lustre"}

SAMPLES = 512
VALUES = 32768
EPOCHS = 4


def make(directory):
    (directory / "slow").mkdir()
    generator = np.random.default_rng(10)
    events = [{"hits": generator.random(VALUES, dtype=np.float32), "label": index % CLASSES}
              for index in range(SAMPLES)]
    with open(directory / "slow" / "events.pkl", "wb") as file:
        pickle.dump(events, file, protocol=4)


class Events(Dataset):
    """Loads the events in the worker: the dataset itself stays small when it is sent to the workers."""

    def __init__(self, path):
        self.path = path
        self.events = None

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        if self.events is None:
            with open(self.path, "rb") as file:
                self.events = pickle.load(file)
        event = self.events[index]
        return torch.from_numpy(event["hits"]), event["label"]


def train(directory, cured):
    loader = DataLoader(Events(directory / "slow" / "events.pkl"), batch_size=16, shuffle=True,
                        num_workers=2 if cured else 12, persistent_workers=True)
    Training(model(VALUES, 64)).fit(loader, EPOCHS)
