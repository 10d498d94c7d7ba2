"""Samples of 10,000 bytes read with O_DIRECT, which fails, and then through the page cache. Cure: aligned samples."""

import mmap
import os

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "unaligned direct I/O"
EXPECTED = ["unaligned-direct"]
SLOW = {"delay_us": 500}

SAMPLES = 1600
SAMPLE_BYTES = 10000
ALIGNED_BYTES = 12288


def make(directory):
    (directory / "slow").mkdir()
    samples = np.random.default_rng(1).integers(0, 256, (SAMPLES, ALIGNED_BYTES), dtype=np.uint8)
    samples.tofile(directory / "slow" / "aligned.bin")
    samples[:, :SAMPLE_BYTES].tofile(directory / "slow" / "samples.bin")


class Samples(Dataset):
    def __init__(self, path, stride_bytes):
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.stride_bytes = stride_bytes
        self.buffer = mmap.mmap(-1, ALIGNED_BYTES)  # direct reads need an aligned buffer

    def __len__(self):
        return SAMPLES

    def read(self, offset):
        try:
            os.lseek(self.fd, offset, os.SEEK_SET)
            with os.fdopen(os.dup(self.fd), "rb", buffering=0) as file:
                file.readinto(memoryview(self.buffer)[:self.stride_bytes])
            return self.buffer[:SAMPLE_BYTES]
        except OSError:  # not aligned
            with open(self.path, "rb", buffering=0) as file:
                file.seek(offset)
                return file.read(SAMPLE_BYTES)

    def __getitem__(self, index):
        data = np.frombuffer(self.read(index * self.stride_bytes), dtype=np.uint8)
        return torch.from_numpy(data[::10].astype(np.float32) / 255), index % CLASSES


def train(directory, cured):
    slow = directory / "slow"
    dataset = Samples(slow / "aligned.bin", ALIGNED_BYTES) if cured else Samples(slow / "samples.bin", SAMPLE_BYTES)
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    Training(model(SAMPLE_BYTES // 10, 256)).fit(loader, epochs=3)
