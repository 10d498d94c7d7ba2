"""A web shop recommender: collate_fn loads the popularity of all items, to draw negatives, for each batch. Cure: it is
loaded once."""

import pickle

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from job import VOCABULARY, Training, recommender

DISEASE = "the table of item popularity loaded for each batch"
EXPECTED = ["hot-small-file"]


def make(directory):
    rng = np.random.default_rng(2)
    clicks = np.stack([rng.integers(0, VOCABULARY, 25600), rng.integers(0, 10, 25600)], axis=1)
    np.save(directory / "clicks.npy", clicks)
    popularity = {f"B{item:09d}": float(count) for item, count in enumerate(rng.pareto(1.2, VOCABULARY) + 1)}
    with open(directory / "item_popularity.pkl", "wb") as file:
        pickle.dump(popularity, file)


class Clicks(Dataset):
    def __init__(self, directory):
        self.clicks = np.load(directory / "clicks.npy", mmap_mode="r")

    def __len__(self):
        return len(self.clicks)

    def __getitem__(self, index):
        item, rating = self.clicks[index]
        return int(item), int(rating)


class Negatives:
    """A collate_fn that adds 15 negatives to each positive item, popular ones more often."""

    def __init__(self, directory, keep):
        self.path = directory / "item_popularity.pkl"
        self.cumulative = self.load() if keep else None

    def load(self):
        with open(self.path, "rb") as file:
            popularity = pickle.load(file)
        weights = np.fromiter(popularity.values(), np.float64, len(popularity)) ** 0.75
        return np.cumsum(weights / weights.sum())

    def __call__(self, samples):
        cumulative = self.load() if self.cumulative is None else self.cumulative
        items, ratings = zip(*samples)
        negatives = np.searchsorted(cumulative, np.random.rand(len(items), 15)).clip(0, VOCABULARY - 1)
        words = np.concatenate([np.array(items)[:, None], negatives], axis=1)
        return torch.from_numpy(words), torch.tensor(ratings)


def train(directory, cured):
    loader = DataLoader(Clicks(directory), batch_size=256, shuffle=True, collate_fn=Negatives(directory, keep=cured))
    Training(recommender()).fit(loader, 4)
