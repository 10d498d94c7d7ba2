"""Rank 0 writes a checkpoint while the other rank waits at a barrier. Cure: rank 0 writes a copy in a thread."""

import copy
import os
import threading

import torch
from job import CLASSES, VOCABULARY, Accelerator, Training, rank, recommender, world_size
from torch import distributed
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

DISEASE = "a checkpoint by one rank while the other waits"
EXPECTED = ["checkpoint-stall"]
SLOW = {"sync_us": 200_000}
RANKS = 2

SAMPLES = 12800
WORDS = 16


def make(directory):
    (directory / "slow").mkdir()
    torch.save((torch.randint(0, VOCABULARY, (SAMPLES, WORDS)), torch.arange(SAMPLES) % CLASSES),
               directory / "samples.pt")


def save(state, path):
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def train(directory, cured):
    training = Training(Accelerator(recommender(), 0.02))
    dataset = TensorDataset(*torch.load(directory / "samples.pt"))
    sampler = DistributedSampler(dataset, world_size(), rank())
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    path = directory / "slow" / "checkpoint.pt"
    writer = None
    for index, (values, labels) in enumerate(loader):
        training.step(values, labels)
        if index % 10 != 9:
            continue
        if rank() == 0 and not cured:
            save(training.network.state_dict(), path)
        elif rank() == 0:
            if writer is not None:
                writer.join()
            writer = threading.Thread(target=save, args=(copy.deepcopy(training.network.state_dict()), path))
            writer.start()
        distributed.barrier()
    if writer is not None:
        writer.join()
