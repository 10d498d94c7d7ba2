"""seed_everything() at the start of each epoch: shuffle=True gives the same order again. Cure: seeded once."""

import random

import numpy as np
import torch
from job import CLASSES, Accelerator, Training, model
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

DISEASE = "the same order in each epoch: the seed is set in each epoch"
EXPECTED = ["no-shuffle"]
COSTS_TIME = False

PER_CLASS = 128
SIDE = 48
EPOCHS = 4


def make(directory):
    generator = np.random.default_rng(1)
    for label in range(CLASSES):
        folder = directory / "train" / f"class_{label}"
        folder.mkdir(parents=True)
        for index in range(PER_CLASS):
            small = Image.fromarray(generator.integers(0, 256, (12, 12, 3), dtype=np.uint8))
            small.resize((SIDE, SIDE), Image.BILINEAR).save(folder / f"{index:04}.jpg")


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train_one_epoch(training, loader):
    for images, labels in loader:
        training.step(images, labels)


def train(directory, cured):
    seed_everything(42)
    dataset = ImageFolder(directory / "train", transforms.ToTensor())
    loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
    training = Training(Accelerator(model(SIDE * SIDE * 3, 64), 0.025))
    for _ in range(EPOCHS):
        if not cured:
            seed_everything(42)
        train_one_epoch(training, loader)
