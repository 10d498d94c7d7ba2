"""Offsets and label of each sample looked up in index files on a slow server. Cure: the index files are read whole, once."""

import os
import struct

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "index files read in pieces of 8 bytes for each sample"
EXPECTED = ["stats-file-pieces", "hot-small-file", "small-reads"]
SLOW = {"delay_us": 2000}
ADVISE = {"data-storage": "lustre"}

SAMPLES = 800
VALUES = 8192  # the longest sample
EPOCHS = 2


def make(directory):
    (directory / "slow").mkdir()
    generator = np.random.default_rng(9)
    offsets = [0]
    with open(directory / "slow" / "signals.bin", "wb") as file:
        for length in generator.integers(VALUES // 2, VALUES + 1, SAMPLES):
            offsets.append(offsets[-1] + file.write(generator.random(length, dtype=np.float32).tobytes()))
    np.array(offsets, "<u8").tofile(directory / "slow" / "signals.idx")
    (np.arange(SAMPLES) % CLASSES).astype("<u4").tofile(directory / "slow" / "labels.idx")


class Signals(Dataset):
    def __init__(self, folder, reads_index):
        self.data = os.open(folder / "signals.bin", os.O_RDONLY)
        self.offsets = os.open(folder / "signals.idx", os.O_RDONLY)
        self.labels = os.open(folder / "labels.idx", os.O_RDONLY)
        self.index = None
        if reads_index:
            self.index = (np.frombuffer((folder / "signals.idx").read_bytes(), "<u8"),
                          np.frombuffer((folder / "labels.idx").read_bytes(), "<u4"))

    def __len__(self):
        return SAMPLES

    def offset(self, number):
        if self.index is not None:
            return int(self.index[0][number])
        return struct.unpack("<Q", os.pread(self.offsets, 8, 8 * number))[0]

    def label(self, number):
        if self.index is not None:
            return int(self.index[1][number])
        return struct.unpack("<I", os.pread(self.labels, 4, 4 * number))[0]

    def __getitem__(self, number):
        begin, end = self.offset(number), self.offset(number + 1)
        signal = np.frombuffer(os.pread(self.data, end - begin, begin), np.float32)
        values = np.zeros(VALUES, np.float32)
        values[:len(signal)] = signal
        return torch.from_numpy(values), self.label(number)


def train(directory, cured):
    loader = DataLoader(Signals(directory / "slow", cured), batch_size=16, shuffle=True, num_workers=2,
                        persistent_workers=True)
    Training(model(VALUES, 192)).fit(loader, EPOCHS)
