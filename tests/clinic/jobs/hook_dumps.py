"""A forward hook, left in from debugging, writes activations as text at each step. Cure: at each 50th step."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, TensorDataset

DISEASE = "activations written as text by a forward hook"
EXPECTED = ["loop-stall"]

SAMPLES = 4000
VALUES = 1024
HIDDEN = 1024


def make(directory):
    generator = np.random.default_rng(1)
    np.save(directory / "features.npy", generator.random((SAMPLES, VALUES), dtype=np.float32))
    np.save(directory / "labels.npy", generator.integers(0, CLASSES, SAMPLES))


class ActivationLogger:
    """Writes the output of a layer, every `interval` steps."""

    def __init__(self, directory, interval):
        self.directory = directory
        self.interval = interval
        self.step = 0

    def __call__(self, layer, inputs, output):
        if self.step % self.interval == 0:
            name = f"{type(layer).__name__}_{self.step:06}.txt"
            np.savetxt(self.directory / name, output.detach().numpy(), fmt="%.5f")
        self.step += 1


def train(directory, cured):
    features = torch.from_numpy(np.load(directory / "features.npy"))
    labels = torch.from_numpy(np.load(directory / "labels.npy"))
    loader = DataLoader(TensorDataset(features, labels), batch_size=32, shuffle=True)
    network = model(VALUES, HIDDEN)
    folder = directory / "activations"
    folder.mkdir(exist_ok=True)
    network[2].register_forward_hook(ActivationLogger(folder, 50 if cured else 1))
    Training(network).fit(loader, epochs=3)
