"""Sixteen workers, on a machine with fewer cores: they take longer to start than to load. Cure: one worker."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

DISEASE = "too many workers for the cores"
EXPECTED = ["too-many-workers", "worker-restart"]

IMAGES = 512
SIDE = 96
CROP = 64


def make(directory):
    generator = np.random.default_rng(1)
    np.save(directory / "images.npy", generator.integers(0, 256, (IMAGES, 3, SIDE, SIDE), dtype=np.uint8))


class Images(Dataset):
    def __init__(self, path):
        self.images = np.load(path, mmap_mode="r")
        self.transform = transforms.Compose([transforms.RandomCrop(CROP), transforms.RandomHorizontalFlip()])

    def __len__(self):
        return IMAGES

    def __getitem__(self, index):
        image = torch.from_numpy(self.images[index].copy())
        return self.transform(image).float() / 255, index % CLASSES


def train(directory, cured):
    loader = DataLoader(Images(directory / "images.npy"), batch_size=32, shuffle=True, num_workers=1 if cured else 16)
    Training(model(3 * CROP * CROP, 128)).fit(loader, epochs=12)
