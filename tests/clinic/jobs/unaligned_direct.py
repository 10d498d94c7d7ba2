"""Samples of 100,000 bytes read with O_DIRECT, which fails, and then through the page cache. Cure: aligned samples."""

import mmap
import os

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "unaligned direct I/O"
EXPECTED = ["unaligned-direct"]
SLOW = {"gap_us": 2000}
ADVISE = {"data-storage": "local"}

SAMPLES = 1500
SAMPLE_BYTES = 100_000
ALIGNED_BYTES = 102_400


def make(directory):
    (directory / "slow").mkdir()
    samples = np.random.default_rng(1).integers(0, 256, (SAMPLES, ALIGNED_BYTES), dtype=np.uint8)
    samples.tofile(directory / "slow" / "aligned.bin")
    samples[:, :SAMPLE_BYTES].tofile(directory / "slow" / "samples.bin")


class Samples(Dataset):
    def __init__(self, path, stride_bytes):
        self.direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.buffered = os.open(path, os.O_RDONLY)
        self.stride_bytes = stride_bytes

    def __len__(self):
        return SAMPLES

    def read(self, offset):
        buffer = mmap.mmap(-1, self.stride_bytes)  # direct reads need an aligned buffer
        try:
            os.preadv(self.direct, [buffer], offset)
            return buffer[:SAMPLE_BYTES]
        except OSError:  # the offset is not aligned
            return os.pread(self.buffered, SAMPLE_BYTES, offset)

    def __getitem__(self, index):
        data = np.frombuffer(self.read(index * self.stride_bytes), dtype=np.uint8)
        return torch.from_numpy(data[::100].astype(np.float32) / 255), index % CLASSES


def train(directory, cured):
    slow = directory / "slow"
    dataset = Samples(slow / "aligned.bin", ALIGNED_BYTES) if cured else Samples(slow / "samples.bin", SAMPLE_BYTES)
    loader = DataLoader(dataset, batch_size=10, shuffle=True, num_workers=2)
    Training(model(SAMPLE_BYTES // 100, 256)).fit(loader, epochs=1)
