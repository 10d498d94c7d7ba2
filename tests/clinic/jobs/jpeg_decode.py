"""JPEG images that are decoded and cropped without workers. Cure: small decoded images in one file."""

import numpy as np
import torch
from job import CLASSES, Training, model
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.datasets import ImageFolder

DISEASE = "JPEG decoding"
EXPECTED = ["decode-bound"]

IMAGES = 400
SIDE = 320


def make(directory):
    generator = np.random.default_rng(1)
    small = []
    for index in range(IMAGES):
        noise = generator.integers(0, 256, (SIDE // 4, SIDE // 4, 3), dtype=np.uint8)
        image = Image.fromarray(noise).resize((SIDE, SIDE), Image.BICUBIC)
        folder = directory / "images" / str(index % CLASSES)
        folder.mkdir(parents=True, exist_ok=True)
        image.save(folder / f"{index:05}.jpg", quality=90)
        small.append(np.asarray(image.resize((40, 40))))
    np.save(directory / "small.npy", np.stack(small))


class Small(Dataset):
    def __init__(self, path):
        self.images = np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        top, left = torch.randint(0, 8, (2,)).tolist()
        crop = self.images[index, top:top + 32, left:left + 32].astype(np.float32) / 255
        return torch.from_numpy(crop), index % CLASSES


def train(directory, cured):
    transform = transforms.Compose([transforms.RandomResizedCrop(32, scale=(0.5, 1)), transforms.ToTensor()])
    dataset = Small(directory / "small.npy") if cured else ImageFolder(str(directory / "images"), transform)
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    Training(model(3072, 1024)).fit(loader, epochs=4)
