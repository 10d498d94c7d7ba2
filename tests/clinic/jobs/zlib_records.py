"""Records of one file that are compressed with zlib, decompressed in every epoch. Cure: plain records."""

import zlib

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "records of a file decompressed in every epoch"
EXPECTED = ["compressed-samples"]

SAMPLES = 1600
POINTS = 24000
EPOCHS = 6


def make(directory):
    generator = np.random.default_rng(1)
    ends = []
    with open(directory / "packed.rec", "wb") as packed, open(directory / "plain.rec", "wb") as plain:
        for _ in range(SAMPLES):
            values = (generator.normal(0, 8, POINTS)).astype(np.int32).tobytes()
            packed.write(zlib.compress(values, 9))
            plain.write(values)
            ends.append(packed.tell())
    np.save(directory / "ends.npy", np.array(ends))


class Records(Dataset):
    def __init__(self, directory, is_packed):
        self.path = directory / ("packed.rec" if is_packed else "plain.rec")
        self.is_packed = is_packed
        self.ends = [0, *np.load(directory / "ends.npy").tolist()]
        self.file = None

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(self.path, "rb")
        if self.is_packed:
            self.file.seek(self.ends[index])
            data = zlib.decompress(self.file.read(self.ends[index + 1] - self.ends[index]))
        else:
            self.file.seek(index * 4 * POINTS)
            data = self.file.read(4 * POINTS)
        return torch.from_numpy(np.frombuffer(data, np.int32).astype(np.float32)), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Records(directory, not cured), batch_size=32, shuffle=True, num_workers=2,
                        persistent_workers=True)
    Training(model(POINTS, 32)).fit(loader, epochs=EPOCHS)
