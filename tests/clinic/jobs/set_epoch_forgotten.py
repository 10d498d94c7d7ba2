"""Two ranks with a DistributedSampler whose set_epoch is never called: every epoch has the same order.
Cure: sampler.set_epoch(epoch)."""

import h5py
import torch
import numpy as np
from job import CLASSES, Accelerator, Training, average, model, rank, world_size
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

DISEASE = "DistributedSampler without set_epoch: the same order in each epoch"
EXPECTED = ["no-shuffle"]
RANKS = 2
COSTS_TIME = False

SLICES = 2400
SIDE = 64
EPOCHS = 6


def make(directory):
    generator = np.random.default_rng(10)
    with h5py.File(directory / "knee_mri.h5", "w") as file:
        file["slices"] = generator.integers(0, 256, (SLICES, SIDE, SIDE), dtype=np.uint8)
        file["grade"] = generator.integers(0, CLASSES, SLICES)


class Slices(Dataset):
    def __init__(self, path):
        self.path = path
        self.file = None
        with h5py.File(path) as file:
            self.grades = file["grade"][:]

    def __len__(self):
        return len(self.grades)

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path)
        return torch.from_numpy(self.file["slices"][index]).float() / 255, int(self.grades[index])


def train(directory, cured):
    dataset = Slices(directory / "knee_mri.h5")
    sampler = DistributedSampler(dataset, world_size(), rank())
    loader = DataLoader(dataset, batch_size=24, sampler=sampler, num_workers=1, persistent_workers=True)
    training = Training(Accelerator(model(SIDE * SIDE, 48), 0.014))
    for epoch in range(EPOCHS):
        if cured:
            sampler.set_epoch(epoch)
        training.fit(loader, 1)
        average(training.network)
