"""Traffic forecasting: the training loop appends the forecasts of each step to a gzip-compressed HDF5 file, which it
opens and closes each time. Cure: only those of the last epoch are kept, in memory, and written at the end."""

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DISEASE = "forecasts appended to a compressed HDF5 file by the training loop, at each step"
EXPECTED = ["loop-stall"]

SENSORS = 207
HISTORY = 12
HORIZON = 12
WINDOWS = 1280
BATCH = 64
EPOCHS = 8


def make(directory):
    generator = np.random.default_rng(7)
    speed = generator.normal(0, 1, (WINDOWS + HISTORY + HORIZON, SENSORS)).astype(np.float32)
    np.save(directory / "speed.npy", speed)


def windows(speed):
    history = np.stack([speed[begin:begin + HISTORY] for begin in range(WINDOWS)])
    future = np.stack([speed[begin + HISTORY:begin + HISTORY + HORIZON] for begin in range(WINDOWS)])
    return TensorDataset(torch.from_numpy(history), torch.from_numpy(future))


def create(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("forecast", shape=(0, HORIZON, SENSORS), maxshape=(None, HORIZON, SENSORS),
                            chunks=(BATCH, HORIZON, SENSORS), dtype="f4", compression="gzip")


def append(path, forecast):
    with h5py.File(path, "a") as file:
        dataset = file["forecast"]
        count = dataset.shape[0]
        dataset.resize(count + len(forecast), axis=0)
        dataset[count:] = forecast


def train(directory, cured):
    loader = DataLoader(windows(np.load(directory / "speed.npy")), batch_size=BATCH, shuffle=True)
    network = nn.Sequential(nn.Flatten(), nn.Linear(HISTORY * SENSORS, 384), nn.ReLU(),
                            nn.Linear(384, HORIZON * SENSORS), nn.Unflatten(1, (HORIZON, SENSORS)))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    path = directory / "forecasts.h5"
    create(path)
    kept = []
    for epoch in range(EPOCHS):
        for history, future in loader:
            optimizer.zero_grad()
            forecast = network(history)
            loss = nn.functional.l1_loss(forecast, future)
            loss.backward()
            optimizer.step()
            if not cured:
                append(path, forecast.detach().numpy())
            elif epoch == EPOCHS - 1:
                kept.append(forecast.detach().numpy())
    if cured:
        np.save(directory / "forecasts.npy", np.concatenate(kept))
