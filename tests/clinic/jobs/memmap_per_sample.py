"""np.load(mmap_mode="r") in __getitem__: a file is opened and its header read for each sample. Cure: opened once."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "np.load with mmap_mode for each sample"
EXPECTED = ["repeated-opens"]
SLOW = {"delay_us": 3000}
ADVISE = {"data-storage": "lustre"}

FILES = 4
ROWS = 300
VALUES = 4096


def make(directory):
    generator = np.random.default_rng(1)
    (directory / "slow").mkdir()
    for index in range(FILES):
        np.save(directory / "slow" / f"subject_{index}.npy", generator.random((ROWS, VALUES), dtype=np.float32))


class Recordings(Dataset):
    def __init__(self, root, cured):
        self.paths = sorted(root.glob("*.npy"))
        self.arrays = [np.load(path, mmap_mode="r") for path in self.paths] if cured else None

    def __len__(self):
        return FILES * ROWS

    def __getitem__(self, index):
        subject, row = divmod(index, ROWS)
        array = self.arrays[subject] if self.arrays else np.load(self.paths[subject], mmap_mode="r")
        return torch.from_numpy(np.array(array[row])), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Recordings(directory / "slow", cured), batch_size=32, shuffle=True, num_workers=2,
                        persistent_workers=True)
    Training(model(VALUES)).fit(loader, epochs=2)
