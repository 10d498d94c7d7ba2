"""Each of two ranks unpickles all records and skips those of the other. Cure: each rank reads its own part files."""

import pickle
import random

import numpy as np
import torch
from job import CLASSES, Accelerator, Training, average, model, rank, world_size
from torch.utils.data import DataLoader, IterableDataset

DISEASE = "ranks that read all records and skip those of others"
EXPECTED = ["same-bytes", "read-amplification"]
RANKS = 2
SLOW = {"gap_us": 24000}
ADVISE = {"data-storage": "lustre"}

PARTS = 8
RECORDS = 256  # in a part
VALUES = 16384


def make(directory):
    (directory / "slow").mkdir()
    generator = np.random.default_rng(11)
    for part in range(PARTS):
        with open(directory / "slow" / f"part-{part:03}.pkl", "wb") as file:
            for index in range(RECORDS):
                pickle.dump((generator.random(VALUES, dtype=np.float32), index % CLASSES), file)


class Records(IterableDataset):
    def __init__(self, paths, skips):
        self.paths = [paths[number] for number in torch.randperm(len(paths))]
        self.skips = skips

    def __iter__(self):
        pool = []
        for record in self.records():
            pool.append(record)
            if len(pool) > 200:
                yield pool.pop(random.randrange(len(pool)))
        random.shuffle(pool)
        yield from pool

    def records(self):
        number = 0
        for path in self.paths:
            with open(path, "rb", buffering=1 << 20) as file:
                for _ in range(RECORDS):
                    values, label = pickle.load(file)
                    number += 1
                    if self.skips and number % world_size() != rank():
                        continue
                    yield torch.from_numpy(values), label


def train(directory, cured):
    paths = sorted((directory / "slow").glob("*.pkl"))
    if cured:
        paths = paths[rank()::world_size()]
    loader = DataLoader(Records(paths, skips=not cured), batch_size=32, num_workers=1)
    training = Training(Accelerator(model(VALUES, 32), 0.01))
    for values, labels in loader:
        training.step(values, labels)
        average(training.network)
