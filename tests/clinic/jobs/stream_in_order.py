"""Shards that are streamed in a new order every epoch, but their samples in the order of the file, without a buffer.
Cure: a shuffle buffer."""

import numpy as np
import torch
from job import Training, model
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

DISEASE = "streamed shards in a new order, but not their samples"
EXPECTED = ["file-shuffle"]
COSTS_TIME = False

SHARDS = 12
SAMPLES = 600  # of each
POINTS = 512
BUFFER = 400
EPOCHS = 3


def make(directory):
    generator = np.random.default_rng(1)
    for shard in range(SHARDS):
        values = generator.normal(0, 1, (SAMPLES, POINTS)).astype(np.float32)
        values.tofile(directory / f"shard_{shard:02}.bin")


class Shards(IterableDataset):
    def __init__(self, directory, buffer_size):
        self.paths = sorted(directory.glob("*.bin"))
        self.buffer_size = buffer_size
        self.epoch = 0

    def __iter__(self):
        generator = np.random.default_rng(self.epoch)  # the same in all workers
        self.epoch += 1
        worker = get_worker_info()
        buffer = []
        for shard in generator.permutation(len(self.paths))[worker.id::worker.num_workers]:
            with open(self.paths[shard], "rb") as file:
                while data := file.read(4 * POINTS):
                    buffer.append(torch.frombuffer(bytearray(data), dtype=torch.float32))
                    if len(buffer) > self.buffer_size:
                        yield buffer.pop(generator.integers(len(buffer))), 1
        while buffer:
            yield buffer.pop(), 1


def train(directory, cured):
    loader = DataLoader(Shards(directory, BUFFER if cured else 0), batch_size=32, num_workers=2,
                        persistent_workers=True)
    Training(model(POINTS, 2048)).fit(loader, epochs=EPOCHS)
