"""Two ranks share MRI volumes that are sorted by size: one half each, so that one rank has all large volumes.
Cure: every second volume for each rank."""

import numpy as np
import torch
from job import CLASSES, Accelerator, Training, average, model, rank, world_size
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

DISEASE = "two ranks, one with all the large volumes"
EXPECTED = ["uneven-shards"]
RANKS = 2

VOLUMES = 64
SIDE_MIN = 40
SIDE_MAX = 160
CROP = 16
EPOCHS = 8


def make(directory):
    generator = np.random.default_rng(101)
    for number in range(VOLUMES):
        side = SIDE_MIN + (SIDE_MAX - SIDE_MIN) * number // (VOLUMES - 1)
        volume = generator.integers(0, 4096, (side, side, side), dtype=np.int16)
        np.save(directory / f"volume_{number * 29 % VOLUMES:03}.npy", volume)


class Scans(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        volume = torch.from_numpy(np.load(self.paths[index])).float()
        volume = (volume - volume.mean()) / volume.std()
        small = functional.interpolate(volume[None, None], size=(CROP, CROP, CROP), mode="area")
        return small[0, 0], index % CLASSES


def train(directory, cured):
    # Volumes of similar size get similar crops: that is why people sort them.
    paths = sorted(directory.glob("volume_*.npy"), key=lambda path: path.stat().st_size)
    share = len(paths) // world_size()
    mine = paths[rank()::world_size()] if cured else paths[rank() * share:(rank() + 1) * share]
    loader = DataLoader(Scans(mine), batch_size=2, shuffle=True, num_workers=1, persistent_workers=True)
    training = Training(Accelerator(model(CROP ** 3, 64), 0.01))
    for _ in range(EPOCHS):
        for values, labels in loader:
            training.step(values, labels)
            average(training.network)
