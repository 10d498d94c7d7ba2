"""Gestures of an arm prosthesis, an HDF5 file for each, with muscle signals, accelerations and joint angles. Cure:
all gestures in the arrays of one file."""

import h5py
import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "a small HDF5 file for each gesture"
EXPECTED = ["many-small-files"]

GESTURES = 2000
SHAPES = {"emg": (8, 200), "imu": (6, 100), "joints": (22, 20)}
VALUES = 8 * 200 + 6 * 100 + 22 * 20
EPOCHS = 7


def make(directory):
    generator = np.random.default_rng(1)
    signals = {name: generator.standard_normal((GESTURES, *shape)).astype(np.float32)
               for name, shape in SHAPES.items()}
    labels = generator.integers(0, CLASSES, GESTURES)
    (directory / "gestures").mkdir()
    for index in range(GESTURES):
        with h5py.File(directory / "gestures" / f"gesture_{index:05}.h5", "w") as file:
            for name, values in signals.items():
                file[name] = values[index]
            file["label"] = labels[index]
    np.savez(directory / "gestures.npz", label=labels, **signals)


class GestureFiles(Dataset):
    def __init__(self, directory):
        self.paths = sorted((directory / "gestures").glob("*.h5"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with h5py.File(self.paths[index], "r") as file:
            values = np.concatenate([file[name][()].ravel() for name in SHAPES])
            return torch.from_numpy(values), int(file["label"][()])


class GestureArrays(Dataset):
    def __init__(self, directory):
        with np.load(directory / "gestures.npz") as file:
            self.signals = [file[name] for name in SHAPES]
            self.labels = file["label"].tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        values = np.concatenate([signal[index].ravel() for signal in self.signals])
        return torch.from_numpy(values), self.labels[index]


def train(directory, cured):
    dataset = GestureArrays(directory) if cured else GestureFiles(directory)
    loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
    Training(model(VALUES, 256)).fit(loader, epochs=EPOCHS)
