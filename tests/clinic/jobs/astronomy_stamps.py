"""Galaxy morphology: each postage stamp is a FITS file of its own, opened and read in every epoch.

The cure packs all stamps into one array, once, and maps it.
"""

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import job

DISEASE = "a small FITS file for each galaxy"
EXPECTED = ["many-small-files"]

STAMPS = 6000
SIDE = 32
BLOCK = 2880


def card(key, value):
    return f"{key:<8}= {value:>20}".ljust(80)


def make(directory: Path) -> None:
    random = np.random.default_rng(11)
    folder = directory / "stamps"
    folder.mkdir(parents=True, exist_ok=True)
    header = (card("SIMPLE", "T") + card("BITPIX", "-32") + card("NAXIS", "2") + card("NAXIS1", str(SIDE))
              + card("NAXIS2", str(SIDE)) + "END".ljust(80)).ljust(BLOCK).encode()
    stamps = random.normal(size=(STAMPS, SIDE, SIDE)).astype(">f4")
    for number, stamp in enumerate(stamps):
        data = stamp.tobytes()
        padding = bytes(-len(data) % BLOCK)
        (folder / f"galaxy_{number:05d}.fits").write_bytes(header + data + padding)
    np.save(directory / "labels.npy", random.integers(0, job.CLASSES, STAMPS))
    np.save(directory / "packed.npy", stamps.astype("f4"))


def read_fits(path):
    with open(path, "rb") as file:
        header = file.read(BLOCK)
        width = int(header[250:270])
        height = int(header[330:350])
        data = file.read(4 * width * height)
    return np.frombuffer(data, ">f4").reshape(height, width).astype("f4")


class Stamps(Dataset):
    def __init__(self, directory):
        self.files = [str(directory / "stamps" / f"galaxy_{number:05d}.fits") for number in range(STAMPS)]
        self.labels = np.load(directory / "labels.npy")

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return torch.from_numpy(read_fits(self.files[index])), self.labels[index]


class PackedStamps(Dataset):
    def __init__(self, directory):
        self.stamps = np.load(directory / "packed.npy", mmap_mode="r")
        self.labels = np.load(directory / "labels.npy")

    def __len__(self):
        return len(self.stamps)

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.stamps[index])), self.labels[index]


def train(directory: Path, cured: bool) -> None:
    dataset = PackedStamps(directory) if cured else Stamps(directory)
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    job.Training(job.model(SIDE * SIDE, 32)).fit(loader, 8)
