"""A tar file that is opened, and searched from its start, for each sample. Cure: an index, made once."""

import io
import tarfile

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "a tar file searched for each sample"
EXPECTED = ["repeated-opens", "read-amplification", "partial-use", "hot-small-file"]

SAMPLES = 600
VALUES = 256


def make(directory):
    generator = np.random.default_rng(1)
    with tarfile.open(directory / "samples.tar", "w") as archive:
        for index in range(SAMPLES):
            data = generator.random(VALUES, dtype=np.float32).tobytes()
            member = tarfile.TarInfo(f"{index:05}.bin")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


class Members(Dataset):
    def __init__(self, path, keeps_open):
        self.path = path
        self.archive = tarfile.open(path) if keeps_open else None
        self.members = self.archive.getmembers() if keeps_open else None

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        if self.archive is not None:
            data = self.archive.extractfile(self.members[index]).read()
        else:
            with tarfile.open(self.path) as archive:
                data = archive.extractfile(f"{index:05}.bin").read()
        return torch.from_numpy(np.frombuffer(data, dtype=np.float32).copy()), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Members(directory / "samples.tar", cured), batch_size=32, shuffle=True)
    Training(model(VALUES, 256)).fit(loader, epochs=1)
