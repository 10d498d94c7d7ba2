"""Batches of JPEG images from a plain generator in the training process. Cure: a DataLoader with two workers."""

import random

import numpy as np
import torch
from job import CLASSES, Accelerator, Training, model
from PIL import Image
from torch.utils.data import DataLoader, Dataset

DISEASE = "images decoded by a generator in the loop: nothing is prefetched"
EXPECTED = ["little-prefetch", "decode-bound"]

SAMPLES = 800
SIDE = 128
BATCH = 32
EPOCHS = 5


def make(directory):
    generator = np.random.default_rng(1)
    (directory / "train").mkdir()
    for index in range(SAMPLES):
        small = Image.fromarray(generator.integers(0, 256, (32, 32, 3), dtype=np.uint8))
        image = small.resize((SIDE, SIDE), Image.BICUBIC)
        image.save(directory / "train" / f"{index % CLASSES}_{index:05}.jpg", quality=95)


def load(path):
    image = np.asarray(Image.open(path).convert("RGB"), dtype=np.float32) / 255
    return torch.from_numpy(image), int(path.name[0])


def batch_generator(files):
    files = random.sample(files, len(files))
    for begin in range(0, len(files), BATCH):
        images, labels = zip(*(load(path) for path in files[begin:begin + BATCH]))
        yield torch.stack(images), torch.tensor(labels)


class Images(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return load(self.files[index])


def train(directory, cured):
    files = sorted((directory / "train").glob("*.jpg"))
    training = Training(Accelerator(model(SIDE * SIDE * 3, 16), 0.012))
    if cured:
        loader = DataLoader(Images(files), batch_size=BATCH, shuffle=True, num_workers=2, persistent_workers=True)
        training.fit(loader, EPOCHS)
    else:
        for _ in range(EPOCHS):
            training.fit(batch_generator(files), 1)
