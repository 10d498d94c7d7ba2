"""Samples as lines of JSON, parsed whenever they are read. Cure: the same numbers in a binary file."""

import json

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "a text format where a binary one would do"
EXPECTED = ["text-parsing"]

SAMPLES = 2000
VALUES = 1024


def make(directory):
    samples = np.random.default_rng(1).random((SAMPLES, VALUES), dtype=np.float32)
    np.save(directory / "samples.npy", samples)
    with open(directory / "samples.jsonl", "w") as file:
        for index, sample in enumerate(samples):
            file.write(json.dumps({"label": index % CLASSES, "values": sample.tolist()}) + "\n")


class Lines(Dataset):
    def __init__(self, path):
        self.file = open(path, "rb")
        self.offsets = [0]
        for line in self.file:
            self.offsets.append(self.offsets[-1] + len(line))

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, index):
        self.file.seek(self.offsets[index])
        sample = json.loads(self.file.readline())
        return torch.tensor(sample["values"]), sample["label"]


class Binary(Dataset):
    def __init__(self, path):
        self.samples = np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return torch.from_numpy(self.samples[index].copy()), index % CLASSES


def train(directory, cured):
    dataset = Binary(directory / "samples.npy") if cured else Lines(directory / "samples.jsonl")
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    Training(model(VALUES, 512)).fit(loader, epochs=4)
