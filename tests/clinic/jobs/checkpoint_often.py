"""A checkpoint with fsync and rename every 10 steps, while training waits. Cure: a thread writes a copy."""

import copy
import os
import threading

import torch
from job import CLASSES, VOCABULARY, Accelerator, Training, recommender
from torch.utils.data import DataLoader, TensorDataset

DISEASE = "checkpoint and fsync every 10 steps"
EXPECTED = ["checkpoint-stall"]
SLOW = {"sync_us": 200_000}

SAMPLES = 6400
WORDS = 16


def make(directory):
    (directory / "slow").mkdir()
    torch.save((torch.randint(0, VOCABULARY, (SAMPLES, WORDS)), torch.arange(SAMPLES) % CLASSES),
               directory / "samples.pt")


def save(state, path):
    partial = f"{path}.partial"
    torch.save(state, partial)
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    os.rename(partial, path)


def train(directory, cured):
    training = Training(Accelerator(recommender(), 0.02))
    loader = DataLoader(TensorDataset(*torch.load(directory / "samples.pt")), batch_size=32, shuffle=True)
    path = directory / "slow" / "checkpoint.pt"
    writer = None
    for index, (values, labels) in enumerate(loader):
        training.step(values, labels)
        if index % 10 != 9:
            continue
        if not cured:
            save(training.network.state_dict(), path)
            continue
        if writer is not None:
            writer.join()
        writer = threading.Thread(target=save, args=(copy.deepcopy(training.network.state_dict()), path))
        writer.start()
    if writer is not None:
        writer.join()
