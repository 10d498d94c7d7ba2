"""PNG images that are decoded in every epoch. Cure: keep the decoded pixels in memory after the first epoch."""

import numpy as np
import torch
from job import CLASSES, Training, model
from PIL import Image
from torch.utils.data import DataLoader, Dataset

DISEASE = "PNG decoding"
EXPECTED = ["decode-bound"]

IMAGES = 200
SIDE = 384


def make(directory):
    generator = np.random.default_rng(1)
    for index in range(IMAGES):
        noise = generator.integers(0, 256, (SIDE // 4, SIDE // 4, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((SIDE, SIDE), Image.BICUBIC).save(directory / f"{index:04}.png")


class Images(Dataset):
    def __init__(self, directory, keep):
        self.paths = sorted(directory.glob("*.png"))
        self.kept = {} if keep else None

    def __len__(self):
        return len(self.paths)

    def decode(self, index):
        with Image.open(self.paths[index]) as image:
            return np.asarray(image.convert("RGB"))

    def __getitem__(self, index):
        if self.kept is None:
            pixels = self.decode(index)
        else:
            if index not in self.kept:
                self.kept[index] = self.decode(index)
            pixels = self.kept[index]
        top, left = torch.randint(0, SIDE - 64, (2,)).tolist()
        crop = pixels[top:top + 64, left:left + 64].astype(np.float32) / 255
        return torch.from_numpy(crop), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Images(directory, keep=cured), batch_size=20, shuffle=True)
    Training(model(3 * 64 * 64, 256)).fit(loader, epochs=5)
