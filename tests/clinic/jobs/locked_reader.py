"""Eight threads of the dataset fetch the samples of a batch from a distant volume, but share one file object behind a
lock. Cure: os.pread, without a lock."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from job import CLASSES, Accelerator, Training, model
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

DISEASE = "reading threads that share a file object behind a lock"
EXPECTED = ["few-reads-in-flight"]
SLOW = {"delay_us": 1500}

SAMPLES = 3000
POINTS = 8192
THREADS = 8


def make(directory):
    (directory / "slow").mkdir()
    values = np.random.default_rng(1).normal(0, 1, (SAMPLES, POINTS)).astype(np.float32)
    values.tofile(directory / "slow" / "samples.bin")


class Samples(Dataset):
    """Takes a list of indices, and returns a batch."""

    def __init__(self, path, locks):
        self.path = path
        self.locks = locks
        self.file = None

    def __len__(self):
        return SAMPLES

    def read(self, index):
        size = 4 * POINTS
        if not self.locks:
            return np.frombuffer(os.pread(self.file.fileno(), size, index * size), np.float32)
        with self.lock:
            self.file.seek(index * size)
            return np.frombuffer(self.file.read(size), np.float32)

    def __getitem__(self, indices):
        if self.file is None:
            self.file = open(self.path, "rb")
            self.lock = threading.Lock()
            self.threads = ThreadPoolExecutor(THREADS)
        values = np.stack(list(self.threads.map(self.read, indices)))
        return torch.from_numpy(values), torch.tensor(indices) % CLASSES


def train(directory, cured):
    dataset = Samples(directory / "slow" / "samples.bin", locks=not cured)
    batches = BatchSampler(RandomSampler(dataset), 32, False)
    loader = DataLoader(dataset, sampler=batches, batch_size=None, num_workers=1)
    Training(Accelerator(model(POINTS, 64), 0.01)).fit(loader, epochs=1)
