"""Samples of 64 KiB that are read in pieces of 4 KiB from a parallel file system. Cure: one read for each sample."""

import os

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "small transfers from one file on a parallel file system"
EXPECTED = ["small-reads"]
SLOW = {"delay_us": 1000}
ADVISE = {"data-storage": "lustre"}

SAMPLES = 200
SAMPLE_BYTES = 64 << 10
PIECE_BYTES = 4 << 10


def make(directory):
    (directory / "slow").mkdir()
    np.random.default_rng(1).integers(0, 256, SAMPLES * SAMPLE_BYTES, dtype=np.uint8).tofile(
        directory / "slow" / "samples.bin")


class Samples(Dataset):
    def __init__(self, path, transfer_bytes):
        self.fd = os.open(path, os.O_RDONLY)
        self.transfer_bytes = transfer_bytes

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        begin = index * SAMPLE_BYTES
        data = b"".join(os.pread(self.fd, self.transfer_bytes, begin + offset)
                        for offset in range(0, SAMPLE_BYTES, self.transfer_bytes))
        values = np.frombuffer(data, dtype=np.uint8)[::32].astype(np.float32) / 255
        return torch.from_numpy(values), index % CLASSES


def train(directory, cured):
    dataset = Samples(directory / "slow" / "samples.bin", SAMPLE_BYTES if cured else PIECE_BYTES)
    loader = DataLoader(dataset, batch_size=10, shuffle=True)
    Training(model(SAMPLE_BYTES // 32, 1024)).fit(loader, epochs=2)
