"""A line of the log with fsync at every step. Cure: let the system write it when it likes."""

import os
import time

import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, TensorDataset

DISEASE = "a log line with fsync at each step"
EXPECTED = ["loop-stall"]
SLOW = {"sync_us": 4000}

SAMPLES = 9600
VALUES = 256


def make(directory):
    (directory / "slow").mkdir()
    torch.save((torch.rand(SAMPLES, VALUES), torch.arange(SAMPLES) % CLASSES), directory / "samples.pt")


def train(directory, cured):
    training = Training(model(VALUES, 256))
    loader = DataLoader(TensorDataset(*torch.load(directory / "samples.pt")), batch_size=32, shuffle=True)
    with open(directory / "slow" / "log.txt", "w") as log:
        for epoch in range(2):
            for index, (values, labels) in enumerate(loader):
                training.step(values, labels)
                log.write(f"{time.time():.3f} epoch {epoch} step {index}\n")
                if not cured:
                    log.flush()
                    os.fsync(log.fileno())
