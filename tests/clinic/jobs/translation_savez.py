"""Machine translation: the weights are saved with np.savez_compressed every 10 steps, while the training waits. Cure: once,
at the end."""

import numpy as np
import torch
from job import Training
from torch import nn
from torch.utils.data import DataLoader, Dataset

DISEASE = "weights compressed and saved every 10 steps"
EXPECTED = ["checkpoint-stall"]

SENTENCES = 1600
LENGTH = 16
VOCABULARY = 8000  # of the source
TARGETS = 2000
EPOCHS = 2
SAVE_STEPS = 10


def make(directory):
    generator = np.random.default_rng(1)
    np.save(directory / "bitext.npy", generator.integers(0, VOCABULARY, (SENTENCES, 2, LENGTH), dtype=np.int32))


class Bitext(Dataset):
    def __init__(self, path):
        self.tokens = np.load(path)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        source, target = torch.from_numpy(self.tokens[index].astype(np.int64))
        return source, target % TARGETS


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 128)
        self.recurrent = nn.GRU(128, 128, batch_first=True)
        self.head = nn.Linear(128, TARGETS)

    def forward(self, tokens):
        return self.head(self.recurrent(self.embedding(tokens))[0]).transpose(1, 2)


def save(network, path):
    np.savez_compressed(path, **{name: value.numpy() for name, value in network.state_dict().items()})


def train(directory, cured):
    loader = DataLoader(Bitext(directory / "bitext.npy"), batch_size=16, shuffle=True, num_workers=2,
                        persistent_workers=True)
    training = Training(Translator())
    step = 0
    for _ in range(EPOCHS):
        for source, target in loader:
            training.step(source, target)
            step += 1
            if not cured and step % SAVE_STEPS == 0:
                save(training.network, directory / f"weights_{step // SAVE_STEPS % 2}.npz")
    save(training.network, directory / "weights_last.npz")
