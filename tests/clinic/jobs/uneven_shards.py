"""Two ranks, of which one has three times the samples of the other. Cure: shards of the same size."""

import numpy as np
import torch
from job import CLASSES, Accelerator, Training, average, model, rank
from torch.utils.data import DataLoader, Dataset

DISEASE = "two ranks, shards 3:1"
EXPECTED = ["uneven-shards"]
RANKS = 2

SAMPLES = 3200
VALUES = 768


def make(directory):
    samples = np.random.default_rng(1).random((SAMPLES, VALUES), dtype=np.float32)
    for name, first in (("sick", SAMPLES * 3 // 4), ("cured", SAMPLES // 2)):
        np.save(directory / f"{name}-0.npy", samples[:first])
        np.save(directory / f"{name}-1.npy", samples[first:])


class Shard(Dataset):
    def __init__(self, path):
        self.header_bytes = path.stat().st_size - len(np.load(path, mmap_mode="r")) * VALUES * 4
        self.count = (path.stat().st_size - self.header_bytes) // (VALUES * 4)
        self.file = open(path, "rb", buffering=0)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.file.seek(self.header_bytes + index * VALUES * 4)
        data = np.frombuffer(self.file.read(VALUES * 4), dtype=np.float32)
        return torch.from_numpy(data.copy()), index % CLASSES


def train(directory, cured):
    training = Training(Accelerator(model(VALUES, 64), 0.025))
    dataset = Shard(directory / f"{'cured' if cured else 'sick'}-{rank()}.npy")
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    for _ in range(3):
        for values, labels in loader:
            training.step(values, labels)
        average(training.network)
