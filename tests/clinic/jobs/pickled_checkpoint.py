"""The state is pickled and synced every few steps, without torch.save. Cure: in a thread."""

import os
import pickle
import threading

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, TensorDataset

DISEASE = "the state pickled and synced every 10 steps"
EXPECTED = ["checkpoint-stall", "loop-stall"]
SLOW = {"sync_us": 200_000}

SAMPLES = 4000
VALUES = 768


def make(directory):
    (directory / "slow").mkdir()
    np.save(directory / "samples.npy", np.random.default_rng(1).random((SAMPLES, VALUES), dtype=np.float32))


def save(path, state):
    with open(path, "wb") as file:
        pickle.dump(state, file)
        file.flush()
        os.fsync(file.fileno())


def train(directory, cured):
    training = Training(model(VALUES, 512))
    values = torch.from_numpy(np.load(directory / "samples.npy"))
    loader = DataLoader(TensorDataset(values, torch.arange(SAMPLES) % CLASSES), batch_size=32, shuffle=True)
    writer = None
    for _ in range(2):
        for step, (batch, labels) in enumerate(loader):
            training.step(batch, labels)
            if step % 10 != 0:
                continue
            state = {name: value.numpy().copy() for name, value in training.network.state_dict().items()}
            if not cured:
                save(directory / "slow" / "model.pkl", state)
            elif writer is None or not writer.is_alive():
                writer = threading.Thread(target=save, args=(directory / "slow" / "model.pkl", state))
                writer.start()
    if writer is not None:
        writer.join()
