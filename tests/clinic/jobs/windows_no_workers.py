"""Windows of a time series are read and prepared while the accelerator waits. Cure: two workers."""

import h5py
import numpy as np
import torch
from job import CLASSES, Accelerator, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "windows prepared without workers"
EXPECTED = ["little-prefetch", "slow-transform"]

STEPS = 200_000
CHANNELS = 8
WINDOW = 512
STRIDE = 50


def make(directory):
    generator = np.random.default_rng(1)
    with h5py.File(directory / "sensors.h5", "w") as file:
        file["values"] = generator.standard_normal((STEPS, CHANNELS), dtype=np.float32).cumsum(axis=0)


class Windows(Dataset):
    def __init__(self, path):
        self.path = path
        self.file = None  # opened by the process that reads

    def __len__(self):
        return (STEPS - WINDOW) // STRIDE

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        window = self.file["values"][index * STRIDE:index * STRIDE + WINDOW]
        time = np.arange(WINDOW)
        slope, offset = np.polyfit(time, window, 1)
        window = window - (time[:, None] * slope + offset)
        window = (window - np.median(window, axis=0)) / (window.std(axis=0) + 1e-6)
        spectrum = np.abs(np.fft.rfft(window, axis=0))[:128]
        values = np.concatenate([window.ravel(), spectrum.ravel()]).astype(np.float32)
        return torch.from_numpy(values), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Windows(directory / "sensors.h5"), batch_size=32, shuffle=True, num_workers=2 if cured else 0)
    network = Accelerator(model((WINDOW + 128) * CHANNELS, 32), 0.015)
    Training(network).fit(loader, epochs=2)
