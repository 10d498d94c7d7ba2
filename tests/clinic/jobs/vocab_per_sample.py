"""A tokenizer that loads its vocabulary, a JSON file, for each text. Cure: the vocabulary is loaded once."""

import json
from itertools import islice

import numpy as np
import torch
from job import CLASSES, Accelerator, Training, recommender
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

DISEASE = "the vocabulary loaded for each text"
EXPECTED = ["hot-small-file", "repeated-opens"]

TEXTS = 900
WORDS = 20_000
LENGTH = 16


def make(directory):
    generator = np.random.default_rng(1)
    words = [f"w{number:x}" for number in generator.choice(1 << 24, WORDS, replace=False)]
    (directory / "vocab.json").write_text(json.dumps({word: index for index, word in enumerate(words)}))
    with open(directory / "reviews.tsv", "w") as file:
        for index in range(TEXTS):
            text = " ".join(words[number] for number in generator.integers(0, WORDS, LENGTH))
            file.write(f"{generator.integers(CLASSES)}\t{text}\n")


class Tokenizer:
    def __init__(self, path, keeps_vocabulary):
        self.path = path
        self.vocabulary = self.load() if keeps_vocabulary else None

    def load(self):
        with open(self.path) as file:
            return json.load(file)

    def encode(self, text):
        vocabulary = self.vocabulary or self.load()
        return torch.tensor([vocabulary.get(word, 0) for word in text.split()])


class Reviews(IterableDataset):
    def __init__(self, path, tokenizer):
        lines = path.read_text().splitlines()
        self.reviews = [line.split("\t") for line in lines]
        self.tokenizer = tokenizer

    def __iter__(self):
        worker = get_worker_info()
        order = torch.randperm(len(self.reviews), generator=torch.Generator().manual_seed(worker.seed - worker.id))
        for index in islice(order.tolist(), worker.id, None, worker.num_workers):
            label, text = self.reviews[index]
            yield self.tokenizer.encode(text), int(label)


def train(directory, cured):
    tokenizer = Tokenizer(directory / "vocab.json", cured)
    loader = DataLoader(Reviews(directory / "reviews.tsv", tokenizer), batch_size=16, num_workers=2)
    Training(Accelerator(recommender(), 0.006)).fit(loader, epochs=2)
