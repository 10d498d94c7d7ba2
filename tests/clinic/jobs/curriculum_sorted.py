"""Speech recognition, short utterances first: the loop sorts the batches of the loader by length, so it takes all of them
before the first step of the epoch. Cure: the lengths are known from the index; batches are sorted before loading."""

import numpy as np
import torch
from job import CLASSES, Accelerator, Training
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

DISEASE = "batches sorted by length after loading: no step before the last batch is there"
EXPECTED = ["little-prefetch"]

UTTERANCES = 3200
BATCH = 32
EPOCHS = 3
WINDOW, HOP = 400, 160


def make(directory):
    generator = np.random.default_rng(4)
    lengths = generator.integers(16_000, 40_000, UTTERANCES)
    np.save(directory / "ends.npy", np.cumsum(lengths))
    np.save(directory / "labels.npy", generator.integers(0, CLASSES, UTTERANCES))
    generator.integers(-9000, 9000, int(lengths.sum()), dtype=np.int16).tofile(directory / "train.pcm")


class Utterances(Dataset):
    def __init__(self, directory):
        self.pcm = np.fromfile(directory / "train.pcm", np.int16)
        self.ends = np.load(directory / "ends.npy")
        self.labels = np.load(directory / "labels.npy")
        self.begins = np.concatenate([[0], self.ends[:-1]])
        self.window = np.hanning(WINDOW).astype(np.float32)

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, index):
        signal = self.pcm[self.begins[index]:self.ends[index]].astype(np.float32) / 32768
        frames = np.lib.stride_tricks.sliding_window_view(signal, WINDOW)[::HOP] * self.window
        spectrum = np.abs(np.fft.rfft(frames, 512)) ** 2
        return torch.from_numpy(np.log(spectrum[:, :80] + 1e-6).astype(np.float32)), int(self.labels[index])


def collate(samples):
    return pad_sequence([sample[0] for sample in samples], batch_first=True), torch.tensor([s[1] for s in samples])


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(80, 32), nn.ReLU(), nn.Linear(32, CLASSES))

    def forward(self, spectra):
        return self.layers(spectra.mean(1))


class ShortFirst:
    """Random batches, sorted by the length of their longest utterance."""

    def __init__(self, lengths):
        self.lengths = lengths

    def __len__(self):
        return len(self.lengths) // BATCH

    def __iter__(self):
        batches = torch.randperm(len(self.lengths))[:len(self) * BATCH].view(-1, BATCH).tolist()
        yield from sorted(batches, key=lambda batch: max(self.lengths[batch]))


def train(directory, cured):
    dataset = Utterances(directory)
    training = Training(Accelerator(Recognizer(), 0.016))
    if cured:
        loader = DataLoader(dataset, batch_sampler=ShortFirst(dataset.ends - dataset.begins), num_workers=2,
                            collate_fn=collate, persistent_workers=True)
    else:
        loader = DataLoader(dataset, BATCH, shuffle=True, num_workers=2, collate_fn=collate, persistent_workers=True)
    for _ in range(EPOCHS):
        batches = loader if cured else sorted(loader, key=lambda batch: batch[0].shape[1])
        for spectra, labels in batches:
            training.step(spectra, labels)
