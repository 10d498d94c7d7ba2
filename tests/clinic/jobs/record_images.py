"""JPEG images in one record file with an index, decoded in every epoch. Cure: pixels in a mapped array."""

import io

import numpy as np
import torch
from job import CLASSES, Training, model
from PIL import Image
from torch.utils.data import DataLoader, Dataset

DISEASE = "JPEG images of a record file decoded in every epoch"
EXPECTED = ["decode-bound"]

SAMPLES = 2000
SIDE = 192
EPOCHS = 2


def make(directory):
    generator = np.random.default_rng(1)
    pixels = np.lib.format.open_memmap(directory / "pixels.npy", "w+", np.uint8, (SAMPLES, SIDE, SIDE, 3))
    ends = []
    with open(directory / "train.rec", "wb") as records:
        for index in range(SAMPLES):
            small = Image.fromarray(generator.integers(0, 256, (24, 24, 3), dtype=np.uint8))
            image = small.resize((SIDE, SIDE), Image.BILINEAR)
            image.save(records, "JPEG", quality=95)
            ends.append(records.tell())
            pixels[index] = np.asarray(image)
    pixels.flush()
    np.save(directory / "ends.npy", np.array(ends))


class Records(Dataset):
    def __init__(self, directory):
        self.path = directory / "train.rec"
        self.ends = [0, *np.load(directory / "ends.npy").tolist()]
        self.file = None

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(self.path, "rb")
        self.file.seek(self.ends[index])
        data = self.file.read(self.ends[index + 1] - self.ends[index])
        pixels = np.array(Image.open(io.BytesIO(data)))
        return torch.from_numpy(pixels).float().div_(255), index % CLASSES


class Pixels(Dataset):
    def __init__(self, directory):
        self.pixels = np.load(directory / "pixels.npy", mmap_mode="r")

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.pixels[index])).float().div_(255), index % CLASSES


def train(directory, cured):
    dataset = Pixels(directory) if cured else Records(directory)
    loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
    Training(model(SIDE * SIDE * 3, 8)).fit(loader, epochs=EPOCHS)
