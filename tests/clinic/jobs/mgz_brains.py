"""Brain volumes of FreeSurfer as .mgz, each inflated in every epoch. Cure: the same volumes as .mgh, not compressed."""

import gzip
import random
import struct

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "FreeSurfer volumes in .mgz, inflated in every epoch"
EXPECTED = ["compressed-samples"]

SUBJECTS = 32
SIDE = 112
CROP = 64
EPOCHS = 10
HEADER = 284


def make(directory):
    generator = np.random.default_rng(5)
    for subject in range(SUBJECTS):
        coarse = generator.integers(0, 900, (14, 14, 14))
        volume = coarse.repeat(8, 0).repeat(8, 1).repeat(8, 2) + generator.integers(0, 30, (SIDE, SIDE, SIDE))
        data = struct.pack(">7i", 1, SIDE, SIDE, SIDE, 1, 4, 0).ljust(HEADER, b"\0") + volume.astype(">i2").tobytes()
        (directory / f"sub-{subject:03}_T1.mgh").write_bytes(data)
        (directory / f"sub-{subject:03}_T1.mgz").write_bytes(gzip.compress(data, 6))


def load_mgh(path):
    with (gzip.open(path) if path.suffix == ".mgz" else open(path, "rb")) as file:
        data = file.read()
    _, width, height, depth, _, kind, _ = struct.unpack(">7i", data[:28])
    assert kind == 4
    return np.frombuffer(data, ">i2", width * height * depth, HEADER).reshape(depth, height, width)


class Brains(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        volume = load_mgh(self.paths[index])
        z, y, x = (random.randrange(SIDE - CROP) for _ in range(3))
        crop = volume[z:z + CROP:2, y:y + CROP:2, x:x + CROP:2].astype(np.float32)
        return torch.from_numpy((crop - 450) / 300), index % CLASSES


def train(directory, cured):
    paths = sorted(directory.glob("*.mgh" if cured else "*.mgz"))
    loader = DataLoader(Brains(paths), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)
    Training(model((CROP // 2) ** 3, 32)).fit(loader, EPOCHS)
