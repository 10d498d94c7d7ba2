"""A patch of a pathology slide: the whole TIFF file is decoded to crop 64 x 64 pixels. Cure: slides are decoded once."""

import numpy as np
import torch
from job import CLASSES, Training, model
from PIL import Image
from torch.utils.data import DataLoader, Dataset

DISEASE = "a whole slide decoded for each patch of it"
EXPECTED = ["partial-use", "read-amplification", "repeated-opens"]

SLIDES = 6
SIDE = 1536
PATCH = 64
PATCHES = 800


def make(directory):
    generator = np.random.default_rng(11)
    for number in range(SLIDES):
        tissue = generator.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(tissue).save(directory / f"slide_{number}.tif")


class SlidePatches(Dataset):
    """Patches at coordinates that were sampled before, as a patch extraction script leaves them."""

    def __init__(self, directory, keeps_slides):
        self.paths = sorted(directory.glob("slide_*.tif"))
        generator = np.random.default_rng(12)
        self.coordinates = [(int(generator.integers(len(self.paths))), *map(int, generator.integers(0, SIDE - PATCH, 2)))
                            for _ in range(PATCHES)]
        self.slides = {} if keeps_slides else None

    def __len__(self):
        return len(self.coordinates)

    def slide(self, number):
        if self.slides is None:
            return Image.open(self.paths[number])
        if number not in self.slides:
            self.slides[number] = Image.open(self.paths[number])
            self.slides[number].load()
        return self.slides[number]

    def __getitem__(self, index):
        number, x, y = self.coordinates[index]
        patch = self.slide(number).crop((x, y, x + PATCH, y + PATCH))
        values = np.asarray(patch, dtype=np.float32).transpose(2, 0, 1) / 255
        return torch.from_numpy(values.copy()), index % CLASSES


def train(directory, cured):
    loader = DataLoader(SlidePatches(directory, cured), batch_size=16, shuffle=True, num_workers=2)
    Training(model(3 * PATCH * PATCH, 128)).fit(loader, epochs=1)
