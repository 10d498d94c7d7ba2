"""Four ranks read one large file on one server, which serves 250 reads a second. Cure: a copy on the local disk."""

import os

import numpy as np
import torch
from job import CLASSES, Training, average, model, rank, world_size
from torch.utils.data import DataLoader, Dataset, DistributedSampler

DISEASE = "one shared file for all ranks"
EXPECTED = ["large-shared-file", "fits-local-disk", "fits-memory"]
RANKS = 4
SLOW = {"gap_us": 4000}
ADVISE = {"data-storage": "lustre"}

SAMPLES = 1100
SAMPLE_BYTES = 1 << 20


def make(directory):
    for folder in ("slow", "local"):
        (directory / folder).mkdir()
        with open(directory / folder / "samples.bin", "wb") as file:
            file.truncate(SAMPLES * SAMPLE_BYTES)  # zeros, which take no room


class Samples(Dataset):
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        data = np.frombuffer(os.pread(self.fd, SAMPLE_BYTES, index * SAMPLE_BYTES), dtype=np.uint8)
        return torch.from_numpy(data[::1024].astype(np.float32)), index % CLASSES


def train(directory, cured):
    training = Training(model(SAMPLE_BYTES // 1024, 64))
    dataset = Samples(directory / ("local" if cured else "slow") / "samples.bin")
    sampler = DistributedSampler(dataset, world_size(), rank())
    loader = DataLoader(dataset, batch_size=11, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for values, labels in loader:
            training.step(values, labels)
            average(training.network)
