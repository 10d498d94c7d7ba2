"""An augmentation written as a loop over pixels in Python. Cure: the same with one call of NumPy."""

import random

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "an augmentation as a loop over pixels in Python"
EXPECTED = ["slow-transform", "decode-bound"]

SAMPLES = 800
SIDE = 32


def make(directory):
    np.save(directory / "images.npy", np.random.default_rng(1).integers(0, 256, (SAMPLES, SIDE, SIDE), dtype=np.uint8))


def brighten_pixels(image, factor):
    result = np.empty(image.shape, dtype=np.float32)
    for row in range(SIDE):
        for column in range(SIDE):
            result[row, column] = min(255.0, image[row, column] * factor)
    return result


def brighten(image, factor):
    return np.minimum(255, image * np.float32(factor))


class Images(Dataset):
    def __init__(self, path, transform):
        self.images = np.load(path, mmap_mode="r")
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.transform(self.images[index], random.uniform(0.8, 1.2))
        return torch.from_numpy(image) / 255, index % CLASSES


def train(directory, cured):
    dataset = Images(directory / "images.npy", brighten if cured else brighten_pixels)
    loader = DataLoader(dataset, batch_size=20, shuffle=True)
    Training(model(SIDE * SIDE, 512)).fit(loader, epochs=2)
