"""A healthy job of two ranks, with a checkpoint at its end. There is nothing to cure."""

import numpy as np
import torch
from job import CLASSES, Training, average, model, rank, world_size
from torch.utils.data import DataLoader, Dataset, DistributedSampler

DISEASE = "healthy, two ranks and a checkpoint"
EXPECTED = []
RANKS = 2

SAMPLES = 1600
VALUES = 3072


def make(directory):
    np.save(directory / "samples.npy", np.random.default_rng(1).random((SAMPLES, VALUES), dtype=np.float32))


class Samples(Dataset):
    def __init__(self, path):
        self.samples = np.load(path, mmap_mode="r")

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.from_numpy(self.samples[index].copy()), index % CLASSES


def train(directory, cured):
    training = Training(model(VALUES, 1024))
    dataset = Samples(directory / "samples.npy")
    sampler = DistributedSampler(dataset, world_size(), rank())
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for values, labels in loader:
            training.step(values, labels)
        average(training.network)
    if rank() == 0:
        torch.save(training.network.state_dict(), directory / "model.pt")
