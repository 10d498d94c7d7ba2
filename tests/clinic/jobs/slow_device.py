"""Random reads of 128 KiB from a device that serves 100 a second. Cure: a copy of the dataset in memory."""

import os

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "random 128 KiB reads from a device with 100 IOPS"
EXPECTED = ["fits-memory", "fits-local-disk", "random-access"]
SLOW = {"gap_us": 10_000}
ADVISE = {"data-storage": "rotating"}

SAMPLES = 300
SAMPLE_BYTES = 128 << 10


def make(directory):
    data = np.random.default_rng(1).integers(0, 256, SAMPLES * SAMPLE_BYTES, dtype=np.uint8)
    for folder in ("slow", "copy"):
        (directory / folder).mkdir()
        data.tofile(directory / folder / "samples.bin")


class Samples(Dataset):
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        data = np.frombuffer(os.pread(self.fd, SAMPLE_BYTES, index * SAMPLE_BYTES), dtype=np.uint8)
        return torch.from_numpy(data[::64].astype(np.float32) / 255), index % CLASSES


def train(directory, cured):
    dataset = Samples(directory / ("copy" if cured else "slow") / "samples.bin")
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    Training(model(SAMPLE_BYTES // 64, 2048)).fit(loader, epochs=3)
