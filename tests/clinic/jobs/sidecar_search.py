"""The JSON sidecar of a recording may lie in four folders, under eight names: __getitem__ tries them all, for each slice.
Cure: remember the sidecar that was found for a recording."""

import json
from functools import lru_cache

import numpy as np
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "a sidecar file searched in all folders, under all names, for each sample"
EXPECTED = ["metadata-storm"]

SUBJECTS = 20
SESSIONS = 2
SLICES = 50  # per session
SIDE = 32
NAMES = [f"{task}{acquisition}{run}bold.json"
         for task in ("task-rest_", "") for acquisition in ("acq-fast_", "") for run in ("run-1_", "")]


def make(directory):
    generator = np.random.default_rng(1)
    for subject in range(SUBJECTS):
        for session in range(SESSIONS):
            (directory / "study" / f"sub-{subject:02}" / f"ses-{session}" / "func").mkdir(parents=True)
    (directory / "study" / "bold.json").write_text(json.dumps({"RepetitionTime": 2.0, "EchoTime": 0.03}))
    np.save(directory / "slices.npy",
            generator.standard_normal((SUBJECTS * SESSIONS * SLICES, SIDE, SIDE), dtype=np.float32))


def sidecar(study, subject, session):
    folder = study / f"sub-{subject:02}" / f"ses-{session}" / "func"
    while True:
        for name in NAMES:
            path = folder / name
            if path.exists():
                return path
        folder = folder.parent


@lru_cache(maxsize=None)
def fields(path):
    return json.loads(path.read_text())


class Slices(Dataset):
    def __init__(self, directory, remembers):
        self.study = directory / "study"
        self.slices = np.load(directory / "slices.npy")
        self.sidecar = lru_cache(maxsize=None)(sidecar) if remembers else sidecar

    def __len__(self):
        return len(self.slices)

    def __getitem__(self, index):
        recording = index // SLICES
        path = self.sidecar(self.study, recording // SESSIONS, recording % SESSIONS)
        return self.slices[index] * np.float32(fields(path)["EchoTime"]), recording % CLASSES


def train(directory, cured):
    loader = DataLoader(Slices(directory, remembers=cured), batch_size=32, shuffle=True, num_workers=2,
                        persistent_workers=True)
    Training(model(SIDE * SIDE, 64)).fit(loader, epochs=12)
