"""One read of 64 KiB at a time from a server that answers after 10 ms. Cure: eight workers, so eight reads at a time."""

import os

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "one read at a time from a distant server"
EXPECTED = ["few-reads-in-flight", "little-prefetch", "fits-memory", "fits-local-disk", "random-access"]
SLOW = {"delay_us": 10000}
ADVISE = {"data-storage": "nfs"}

SAMPLES = 300
SAMPLE_BYTES = 64 << 10


def make(directory):
    (directory / "slow").mkdir()
    np.random.default_rng(1).integers(0, 256, SAMPLES * SAMPLE_BYTES, dtype=np.uint8).tofile(
        directory / "slow" / "samples.bin")


class Samples(Dataset):
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        data = np.frombuffer(os.pread(self.fd, SAMPLE_BYTES, index * SAMPLE_BYTES), dtype=np.uint8)
        return torch.from_numpy(data[::32].astype(np.float32) / 255), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Samples(directory / "slow" / "samples.bin"), batch_size=10, shuffle=True,
                        num_workers=8 if cured else 0, persistent_workers=cured)
    Training(model(SAMPLE_BYTES // 32, 512)).fit(loader, epochs=3)
