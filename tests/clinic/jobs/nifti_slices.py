"""Medical volumes (.nii.gz): the whole volume is inflated for each slice. Cure: .nii files, mapped into memory."""

import gzip
import random

import numpy as np
import torch
from job import CLASSES, Accelerator, Training, model
from torch.utils.data import DataLoader, IterableDataset

DISEASE = "a compressed volume inflated for each slice of it"
EXPECTED = ["compressed-samples", "partial-use", "read-amplification"]

VOLUMES = 30
DEPTH = 40
SIDE = 96
HEADER = 352
SLICES = 480  # of an epoch


def make(directory):
    generator = np.random.default_rng(1)
    for volume in range(VOLUMES):
        body = np.cumsum(generator.integers(-9, 10, (DEPTH, SIDE, SIDE), dtype=np.int16), axis=2, dtype=np.int16)
        data = bytes(HEADER) + body.tobytes()
        (directory / f"case_{volume:03}.nii").write_bytes(data)
        with gzip.open(directory / f"case_{volume:03}.nii.gz", "wb", compresslevel=3) as file:
            file.write(data)


def load_gz(path):
    with gzip.open(path, "rb") as file:
        file.read(HEADER)
        return np.frombuffer(file.read(), dtype=np.int16).reshape(DEPTH, SIDE, SIDE)


def load_mapped(path):
    return np.memmap(path, dtype=np.int16, mode="r", offset=HEADER, shape=(DEPTH, SIDE, SIDE))


class RandomSlices(IterableDataset):
    """Endless data is simplest for random slices: each worker draws its part of an epoch."""

    def __init__(self, directory, cured):
        self.files = sorted(directory.glob("*.nii" if cured else "*.nii.gz"))
        self.load = load_mapped if cured else load_gz

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        for _ in range(SLICES // worker.num_workers):
            case = random.randrange(len(self.files))
            volume = self.load(self.files[case])
            image = volume[random.randrange(DEPTH)].astype(np.float32)
            yield torch.from_numpy((image - image.mean()) / (image.std() + 1e-6)), case % CLASSES


def train(directory, cured):
    loader = DataLoader(RandomSlices(directory, cured), batch_size=16, num_workers=2, persistent_workers=True)
    Training(Accelerator(model(SIDE * SIDE, 128), 0.008)).fit(loader, epochs=3)
