"""Time series of weather stations from HDF5 fields stored day by day: 365 scattered reads for each series.
Cure: the same values stored point by point."""

import h5py
import numpy as np
import torch
from job import CLASSES, Accelerator, Training, model

DISEASE = "HDF5, contiguous, read across its layout"
EXPECTED = ["read-amplification", "small-reads"]

DAYS = 365
ROWS = 128
COLUMNS = 256
STATIONS = 400
BATCH = 16


def make(directory):
    generator = np.random.default_rng(21)
    fields = generator.standard_normal((DAYS, ROWS, COLUMNS), dtype=np.float32)
    with h5py.File(directory / "by_day.h5", "w") as file:
        file["t2m"] = fields
    with h5py.File(directory / "by_point.h5", "w") as file:
        file["t2m"] = np.ascontiguousarray(fields.transpose(1, 2, 0))


def stations():
    generator = np.random.default_rng(22)
    points = generator.choice(ROWS * COLUMNS, STATIONS, replace=False)
    return [(int(point) // COLUMNS, int(point) % COLUMNS) for point in points]


def batches(file, by_point):
    """One epoch."""
    t2m = file["t2m"]
    points = stations()
    order = torch.randperm(len(points)).tolist()
    for begin in range(0, len(order), BATCH):
        chosen = order[begin:begin + BATCH]
        series = [t2m[row, column, :] if by_point else t2m[:, row, column]
                  for row, column in (points[index] for index in chosen)]
        yield torch.from_numpy(np.stack(series)), torch.tensor([index % CLASSES for index in chosen])


def train(directory, cured):
    training = Training(Accelerator(model(DAYS, 512), 0.01))
    with h5py.File(directory / ("by_point.h5" if cured else "by_day.h5"), "r") as file:
        for _ in range(2):
            for values, labels in batches(file, cured):
                training.step(values, labels)
