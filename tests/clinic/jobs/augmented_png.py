"""PNG tiles that are distorted by a loop over pixels in Python. Cure: the same with an index array."""

import numpy as np
import torch
from job import CLASSES, Training, model
from PIL import Image
from torch.utils.data import DataLoader, Dataset

DISEASE = "an augmentation of PNG tiles as a loop over pixels"
EXPECTED = ["slow-transform"]

SAMPLES = 900
SIDE = 48
EPOCHS = 2


def make(directory):
    generator = np.random.default_rng(1)
    for index in range(SAMPLES):
        small = Image.fromarray(generator.integers(0, 256, (6, 6, 3), dtype=np.uint8))
        small.resize((SIDE, SIDE)).save(directory / f"tile_{index:05}_{index % CLASSES}.png")


def wave_by_loop(pixels):
    bent = np.empty_like(pixels)
    for row in range(SIDE):
        for column in range(SIDE):
            bent[row, column] = pixels[(row + int(3 * np.sin(column / 4))) % SIDE, column]
    return bent


def wave(pixels):
    columns = np.arange(SIDE)
    rows = (columns[:, None] + (3 * np.sin(columns / 4)).astype(int)) % SIDE
    return pixels[rows, columns]


class Tiles(Dataset):
    def __init__(self, directory, distort):
        self.paths = sorted(directory.glob("*.png"))
        self.distort = distort

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        pixels = np.asarray(Image.open(self.paths[index]).convert("RGB"))
        return torch.from_numpy(self.distort(pixels)).float() / 255, int(self.paths[index].stem[-1])


def train(directory, cured):
    loader = DataLoader(Tiles(directory, wave if cured else wave_by_loop), batch_size=32, shuffle=True, num_workers=2,
                        persistent_workers=True)
    Training(model(SIDE * SIDE * 3, 128)).fit(loader, epochs=EPOCHS)
