"""A text file for each sample, parsed by np.loadtxt. Cure: the same arrays as .npy files."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "a text file for each sample"
EXPECTED = ["text-parsing"]

FILES = 200
SHAPE = (128, 128)


def make(directory):
    generator = np.random.default_rng(1)
    for index in range(FILES):
        sample = generator.random(SHAPE, dtype=np.float32)
        np.savetxt(directory / f"{index:04}.txt", sample, fmt="%.7f")
        np.save(directory / f"{index:04}.npy", sample)


class Files(Dataset):
    def __init__(self, paths, load):
        self.paths = sorted(paths)
        self.load = load

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.from_numpy(self.load(self.paths[index]).astype(np.float32)), index % CLASSES


def train(directory, cured):
    dataset = Files(directory.glob("*.npy"), np.load) if cured else Files(directory.glob("*.txt"), np.loadtxt)
    loader = DataLoader(dataset, batch_size=20, shuffle=True)
    Training(model(SHAPE[0] * SHAPE[1], 64)).fit(loader, epochs=10)
