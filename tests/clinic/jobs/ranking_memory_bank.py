"""Dense retrieval with a bank of passage embeddings: the loop writes the bank to a file after each step, for the miner of
hard negatives, which reads it once an epoch. Cure: the bank is written at the end of the epoch."""

import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DISEASE = "the memory bank of passage embeddings written at each step"
EXPECTED = ["loop-stall", "checkpoint-stall"]

PASSAGES = 30_000
FEATURES = 256
WIDTH = 128
BATCH = 64
EPOCHS = 2
QUERIES = 5000


def make(directory):
    generator = np.random.default_rng(15)
    np.savez(directory / "queries.npz", queries=generator.normal(0, 1, (QUERIES, FEATURES)).astype(np.float32),
             positives=generator.integers(0, PASSAGES, QUERIES))
    np.save(directory / "bank.npy", generator.normal(0, 1, (PASSAGES, WIDTH)).astype(np.float32))


def export(bank, path):
    part = path.with_suffix(".part")
    with open(part, "wb") as file:
        np.save(file, bank)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)


def train(directory, cured):
    with np.load(directory / "queries.npz") as data:
        dataset = TensorDataset(torch.from_numpy(data["queries"]), torch.from_numpy(data["positives"]))
    bank = torch.from_numpy(np.load(directory / "bank.npy"))
    encoder = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, WIDTH))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-4)
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True)
    exported = directory / "ann_bank.npy"
    for _ in range(EPOCHS):
        for queries, positives in loader:
            optimizer.zero_grad()
            embedded = encoder(queries)
            negatives = bank[torch.randint(PASSAGES, (2048,))]
            scores = embedded @ torch.cat([bank[positives], negatives]).T
            loss = nn.functional.cross_entropy(scores / 10, torch.arange(len(queries)))
            loss.backward()
            optimizer.step()
            bank[positives] = nn.functional.normalize(0.9 * bank[positives] + 0.1 * embedded.detach())
            if not cured:
                export(bank.numpy(), exported)
        if cured:
            export(bank.numpy(), exported)
