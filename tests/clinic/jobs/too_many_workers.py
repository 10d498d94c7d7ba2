"""Sixteen workers, on a machine with fewer cores, take the CPU from the training. Cure: two workers."""

import io

import numpy as np
import torch
from job import CLASSES, Training, model
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

DISEASE = "too many workers for the cores"
EXPECTED = ["too-many-workers", "worker-restart"]

IMAGES = 512
SIDE = 160


def make(directory):
    generator = np.random.default_rng(1)
    for index in range(IMAGES):
        noise = generator.integers(0, 256, (SIDE // 4, SIDE // 4, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((SIDE, SIDE)).save(directory / f"{index:04}.jpg", quality=90)


class Images(Dataset):
    def __init__(self, directory):
        self.paths = sorted(directory.glob("*.jpg"))
        self.transform = transforms.Compose([transforms.RandomCrop(64), transforms.ToTensor()])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(io.BytesIO(self.paths[index].read_bytes())).convert("RGB")
        return self.transform(image), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Images(directory), batch_size=32, shuffle=True, num_workers=2 if cured else 16)
    Training(model(3 * 64 * 64, 512)).fit(loader, epochs=5)
