"""Photographs from a camera, decoded at 1600 x 1200 in every epoch to be resized to 64 x 64.
Cure: photographs that were resized once, before the training."""

import numpy as np
from job import Training, model
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

DISEASE = "large photographs decoded and shrunk in every epoch"
EXPECTED = ["decode-bound", "slow-transform"]

IMAGES = 240
WIDTH = 1600
HEIGHT = 1200
SIDE = 64


def make(directory):
    generator = np.random.default_rng(31)
    coarse = Image.fromarray(generator.integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3), dtype=np.uint8))
    scene = np.asarray(coarse.resize((WIDTH, HEIGHT), Image.BICUBIC))
    for index in range(IMAGES):
        photo = Image.fromarray(np.roll(scene, (index * 37, index * 53), (0, 1)))
        name = f"class_{index % 10}/IMG_{index:04}.jpg"
        for folder in ("photos", "small"):
            (directory / folder / name).parent.mkdir(parents=True, exist_ok=True)
        photo.save(directory / "photos" / name, quality=90)
        photo.resize((SIDE, SIDE), Image.BILINEAR).save(directory / "small" / name, quality=95)


def train(directory, cured):
    transform = transforms.Compose([
        transforms.Resize((SIDE, SIDE)),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])
    dataset = ImageFolder(str(directory / ("small" if cured else "photos")), transform)
    loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    Training(model(3 * SIDE * SIDE, 128)).fit(loader, epochs=2)
