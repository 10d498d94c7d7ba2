"""Word vectors for a search engine: a checkpoint in the word2vec format every 25 steps, with an unbuffered write for each
word. Cure: the file is put together in memory and written at once."""

import os

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from job import VOCABULARY, Training, recommender

DISEASE = "checkpoints of word vectors written word by word"
EXPECTED = ["checkpoint-small-writes", "checkpoint-stall"]


def make(directory):
    rng = np.random.default_rng(5)
    np.save(directory / "queries.npy", rng.integers(0, VOCABULARY, (8000, 16)))
    np.save(directory / "intents.npy", rng.integers(0, 10, 8000))
    (directory / "checkpoints").mkdir()


def save(directory, network, words, at_once):
    vectors = network[0].weight.detach().numpy()
    path = directory / "checkpoints" / "last.ckpt"
    partial = directory / "checkpoints" / "last.ckpt.partial"
    with open(partial, "wb", buffering=0) as file:
        file.write(f"{vectors.shape[0]} {vectors.shape[1]}\n".encode())
        if at_once:
            rows = np.concatenate([np.array(words)[:, None].view(np.uint8), vectors.view(np.uint8)], axis=1)
            file.write(rows.tobytes())
        else:
            for word, vector in zip(words, vectors):
                file.write(word)
                file.write(vector.tobytes())
    torch.save(network[1:].state_dict(), directory / "checkpoints" / "head.pt")
    os.replace(partial, path)


def train(directory, cured):
    words = [f"w{word:06d} ".encode() for word in range(VOCABULARY)]
    queries = torch.from_numpy(np.load(directory / "queries.npy"))
    intents = torch.from_numpy(np.load(directory / "intents.npy"))
    loader = DataLoader(TensorDataset(queries, intents), batch_size=64, shuffle=True)
    training = Training(recommender())
    step = 0
    for _ in range(10):
        for values, labels in loader:
            training.step(values, labels)
            step += 1
            if step % 25 == 0:
                save(directory, training.network, words, at_once=cured)
