"""Oceanography: tiles of model output (big-endian .data files, as MITgcm writes them) read row by row, 256 bytes at a
time, from Lustre. Cure: files in which each tile is contiguous, and one read for each."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "tiles of an ocean model read row by row, 256 bytes at a time, from a parallel file system"
EXPECTED = ["small-reads"]
SLOW = {"delay_us": 100}
ADVISE = {"data-storage": "lustre"}

STEPS = 10  # of the ocean model: one file for each
FIELDS = 2  # temperature and height of the surface
GRID = 512
TILE = 64
ACROSS = 8  # tiles
ITEM = 4
EPOCHS = 1


def make(directory):
    folder = directory / "slow"
    folder.mkdir()
    generator = np.random.default_rng(6)
    for step in range(STEPS):
        state = generator.random((FIELDS, GRID, GRID), dtype=np.float32).astype(">f4")
        state.tofile(folder / f"state.{step:010}.data")
        tiles = state.reshape(FIELDS, ACROSS, TILE, ACROSS, TILE).transpose(1, 3, 0, 2, 4)
        np.ascontiguousarray(tiles).tofile(folder / f"tiles.{step:010}.data")


class Tiles(Dataset):
    def __init__(self, folder, tiled):
        self.folder = folder
        self.tiled = tiled
        self.files = {}

    def __len__(self):
        return STEPS * ACROSS * ACROSS

    def file(self, step):
        """Each worker opens a file once."""
        if step not in self.files:
            kind = "tiles" if self.tiled else "state"
            self.files[step] = open(self.folder / f"{kind}.{step:010}.data", "rb", buffering=0)
        return self.files[step]

    def read_tile(self, file, row, column):
        size = FIELDS * TILE * TILE * ITEM
        file.seek((row * ACROSS + column) * size)
        return file.read(size)

    def read_rows(self, file, row, column):
        parts = []
        for field in range(FIELDS):
            for line in range(row * TILE, (row + 1) * TILE):
                file.seek(((field * GRID + line) * GRID + column * TILE) * ITEM)
                parts.append(file.read(TILE * ITEM))
        return b"".join(parts)

    def __getitem__(self, index):
        step, tile = divmod(index, ACROSS * ACROSS)
        row, column = divmod(tile, ACROSS)
        read = self.read_tile if self.tiled else self.read_rows
        values = np.frombuffer(read(self.file(step), row, column), ">f4").astype(np.float32)
        return torch.from_numpy(values), (row + column) % CLASSES


def train(directory, cured):
    loader = DataLoader(Tiles(directory / "slow", cured), batch_size=16, shuffle=True, num_workers=2)
    Training(model(FIELDS * TILE * TILE, 256)).fit(loader, epochs=EPOCHS)
