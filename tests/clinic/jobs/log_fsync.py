"""A line of the log with fsync at every step. Cure: let the system write it when it likes."""

import os
import time

import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, TensorDataset

DISEASE = "a log line with fsync at each step"
EXPECTED = ["loop-stall"]

SAMPLES = 16000
VALUES = 256


def make(directory):
    torch.save((torch.rand(SAMPLES, VALUES), torch.arange(SAMPLES) % CLASSES), directory / "samples.pt")


def train(directory, cured):
    training = Training(model(VALUES, 256))
    loader = DataLoader(TensorDataset(*torch.load(directory / "samples.pt")), batch_size=32, shuffle=True)
    with open(directory / "log.txt", "w") as log:
        for epoch in range(4):
            for index, (values, labels) in enumerate(loader):
                training.step(values, labels)
                log.write(f"{time.time():.3f} epoch {epoch} step {index}\n")
                if not cured:
                    log.flush()
                    os.fsync(log.fileno())
