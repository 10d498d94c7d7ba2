"""Healthy: pickled batches of images, loaded once at the start, and batches cut from memory. No cure."""

import pickle

import numpy as np
import torch
from job import CLASSES, Accelerator, Training, model

DISEASE = "healthy: pickled CIFAR batches loaded once, a loop without DataLoader"
EXPECTED = []

FILES = 5
SAMPLES = 1000  # of a file
VALUES = 3072
BATCH = 64


def make(directory):
    generator = np.random.default_rng(1)
    folder = directory / "cifar-10-batches-py"
    folder.mkdir()
    for number in range(FILES):
        entry = {"data": generator.integers(0, 256, (SAMPLES, VALUES), dtype=np.uint8),
                 "labels": generator.integers(0, CLASSES, SAMPLES).tolist()}
        with open(folder / f"data_batch_{number + 1}", "wb") as file:
            pickle.dump(entry, file)


def load(directory):
    images, labels = [], []
    for path in sorted((directory / "cifar-10-batches-py").glob("data_batch_*")):
        with open(path, "rb") as file:
            entry = pickle.load(file)
        images.append(entry["data"])
        labels.extend(entry["labels"])
    return torch.from_numpy(np.concatenate(images)), torch.tensor(labels)


def train(directory, cured):
    images, labels = load(directory)
    training = Training(Accelerator(model(VALUES), 0.010))
    for _ in range(4):
        order = torch.randperm(len(images))
        for start in range(0, len(order), BATCH):
            chosen = order[start:start + BATCH]
            training.step(images[chosen].float().div(255), labels[chosen])
    torch.save(training.network.state_dict(), directory / "final.pt")
