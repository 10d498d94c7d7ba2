"""Shards written with np.savez_compressed, inflated in every epoch. Cure: the same shards as plain .npy files."""

import random

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

DISEASE = "np.savez_compressed shards inflated in every epoch"
EXPECTED = ["compressed-samples"]

SHARDS = 10
PER_SHARD = 32
VALUES = 65536
EPOCHS = 11


def make(directory):
    generator = np.random.default_rng(1)
    for shard in range(SHARDS):
        volumes = (generator.integers(0, 24, (PER_SHARD, VALUES)) / 24).astype(np.float32)
        labels = generator.integers(0, CLASSES, PER_SHARD)
        np.savez_compressed(directory / f"shard_{shard:02}.npz", volumes=volumes, labels=labels)
        np.save(directory / f"volumes_{shard:02}.npy", volumes)
        np.save(directory / f"labels_{shard:02}.npy", labels)


class Shards(IterableDataset):
    def __init__(self, directory, compressed):
        self.directory = directory
        self.compressed = compressed

    def load(self, shard):
        if self.compressed:
            with np.load(self.directory / f"shard_{shard:02}.npz") as data:
                return data["volumes"], data["labels"]
        return np.load(self.directory / f"volumes_{shard:02}.npy"), np.load(self.directory / f"labels_{shard:02}.npy")

    def __iter__(self):
        info = get_worker_info()
        shards = list(range(info.id, SHARDS, info.num_workers))
        random.shuffle(shards)
        for shard in shards:
            volumes, labels = self.load(shard)
            for index in np.random.permutation(len(labels)):
                yield torch.from_numpy(volumes[index]), int(labels[index])


def train(directory, cured):
    loader = DataLoader(Shards(directory, not cured), batch_size=16, num_workers=2, persistent_workers=True)
    Training(model(VALUES, 16)).fit(loader, epochs=EPOCHS)
