"""Two ranks that both visit every sample: the sampler does not share them out. Cure: a DistributedSampler."""

import numpy as np
import torch
from job import CLASSES, Accelerator, Training, average, model, rank, world_size
from torch.utils.data import DataLoader, Dataset, DistributedSampler, RandomSampler

DISEASE = "the same bytes read by all ranks"
EXPECTED = ["same-bytes"]
RANKS = 2

FILES = 300
SHAPE = (16, 32, 32)


def make(directory):
    generator = np.random.default_rng(1)
    for index in range(FILES):
        np.save(directory / f"{index:04}.npy", generator.random(SHAPE, dtype=np.float32))


class Volumes(Dataset):
    def __init__(self, directory):
        self.paths = sorted(directory.glob("*.npy"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        volume = np.load(self.paths[index])
        return torch.from_numpy(volume.mean(axis=0)), index % CLASSES


def train(directory, cured):
    training = Training(Accelerator(model(SHAPE[1] * SHAPE[2], 64), 0.02))
    dataset = Volumes(directory)
    sampler = DistributedSampler(dataset, world_size(), rank()) if cured else RandomSampler(dataset)
    loader = DataLoader(dataset, batch_size=10, sampler=sampler)
    for epoch in range(10):
        if cured:
            sampler.set_epoch(epoch)
        for values, labels in loader:
            training.step(values, labels)
        average(training.network)
