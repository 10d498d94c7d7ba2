"""An IterableDataset of simulation snapshots that each of the two workers reads in full: every sample comes twice an epoch.
Cure: each worker takes its share of the files."""

import random

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

DISEASE = "an IterableDataset not split among the workers: all is read twice"
EXPECTED = ["read-amplification", "same-bytes"]

SHARDS = 96
SNAPSHOTS = 16
SIDE = 128
BUFFER = 128


def make(directory):
    generator = np.random.default_rng(81)
    for number in range(SHARDS):
        snapshots = generator.random((SNAPSHOTS, SIDE, SIDE), dtype=np.float32)
        np.save(directory / f"run_{number:03}.npy", snapshots)


class Snapshots(IterableDataset):
    """Density fields in random order: shuffled files, and a shuffle buffer."""

    def __init__(self, directory, splits):
        self.paths = sorted(directory.glob("run_*.npy"))
        self.splits = splits

    def __iter__(self):
        paths = self.paths
        worker = get_worker_info()
        if self.splits and worker is not None:
            paths = paths[worker.id::worker.num_workers]
        buffer = []
        for path in random.sample(paths, len(paths)):
            for number, snapshot in enumerate(np.load(path)):
                sample = (torch.from_numpy(np.log1p(snapshot)), number % CLASSES)
                if len(buffer) < BUFFER:
                    buffer.append(sample)
                    continue
                place = random.randrange(BUFFER)
                buffer[place], sample = sample, buffer[place]
                yield sample
        random.shuffle(buffer)
        yield from buffer


def train(directory, cured):
    loader = DataLoader(Snapshots(directory, cured), batch_size=32, num_workers=2, persistent_workers=True)
    Training(model(SIDE * SIDE, 64)).fit(loader, epochs=4)
