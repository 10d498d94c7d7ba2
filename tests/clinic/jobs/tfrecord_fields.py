"""TFRecord files read field by field, unbuffered, from Lustre: length, checksum, data, checksum. Cure: a read buffer of 4 MiB."""

import random
import struct
import zlib

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

DISEASE = "TFRecord files read field by field without a buffer"
EXPECTED = ["small-reads"]
SLOW = {"delay_us": 500}
ADVISE = {"data-storage": "lustre"}

FILES = 4
RECORDS = 750  # in a file
VALUES = 2048
EPOCHS = 2


def make(directory):
    (directory / "slow").mkdir()
    generator = np.random.default_rng(2)
    for number in range(FILES):
        with open(directory / "slow" / f"train-{number:05}-of-{FILES:05}.tfrecord", "wb") as file:
            for index in range(RECORDS):
                data = struct.pack("<I", index % CLASSES) + generator.random(VALUES, dtype=np.float32).tobytes()
                length = struct.pack("<Q", len(data))
                file.write(length + struct.pack("<I", zlib.crc32(length)))
                file.write(data + struct.pack("<I", zlib.crc32(data)))


def read_records(path, buffering):
    with open(path, "rb", buffering=buffering) as file:
        while True:
            header = file.read(8)
            if not header:
                return
            (length,) = struct.unpack("<Q", header)
            file.read(4)  # masked crc of the length
            data = file.read(length)
            file.read(4)  # masked crc of the data
            yield data


class TFRecords(IterableDataset):
    def __init__(self, paths, buffering):
        self.paths = paths
        self.buffering = buffering

    def __iter__(self):
        worker = get_worker_info()
        paths = self.paths[worker.id::worker.num_workers]
        random.shuffle(paths)
        pool = []
        for path in paths:
            for data in read_records(path, self.buffering):
                pool.append(data)
                if len(pool) > 256:
                    yield self.parse(pool.pop(random.randrange(len(pool))))
        random.shuffle(pool)
        yield from map(self.parse, pool)

    def parse(self, data):
        return torch.from_numpy(np.frombuffer(data, np.float32, offset=4).copy()), struct.unpack_from("<I", data)[0]


def train(directory, cured):
    paths = sorted((directory / "slow").glob("*.tfrecord"))
    loader = DataLoader(TFRecords(paths, 4 << 20 if cured else 0), batch_size=32, num_workers=2,
                        persistent_workers=True)
    Training(model(VALUES, 512)).fit(loader, EPOCHS)
