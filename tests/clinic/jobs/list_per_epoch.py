"""The dataset is made anew in every epoch, which lists all files and asks for their sizes. Cure: make it once."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset, RandomSampler

DISEASE = "the same at each epoch"
EXPECTED = ["metadata-storm"]

FILES = 5000
SHAPE = (3, 16, 16)


def make(directory):
    generator = np.random.default_rng(1)
    for index in range(FILES):
        folder = directory / "files" / str(index % CLASSES)
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{index:05}.npy", generator.random(SHAPE, dtype=np.float32))


class Files(Dataset):
    def __init__(self, directory):
        self.paths = sorted(path for path in directory.glob("*/*.npy") if path.stat().st_size > 0)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return torch.from_numpy(np.load(path)), int(path.parent.name)


def loader_of(directory):
    dataset = Files(directory / "files")
    return DataLoader(dataset, batch_size=32, sampler=RandomSampler(dataset, num_samples=64))


def train(directory, cured):
    training = Training(model(768, 256))
    loader = loader_of(directory)
    for epoch in range(40):
        if epoch > 0 and not cured:
            loader = loader_of(directory)
        for values, labels in loader:
            training.step(values, labels)
