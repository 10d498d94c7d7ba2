"""Molecules as graphs, each in a small .npz file of its own (np.savez: atoms, positions, adjacency).
Cure: all molecules in one array for each of the three."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "a small .npz file for each molecule"
EXPECTED = ["many-small-files"]

MOLECULES = 4000
ATOMS = 24
EPOCHS = 2


def make(directory):
    generator = np.random.default_rng(9)
    atoms = generator.integers(1, 10, (MOLECULES, ATOMS)).astype(np.int8)
    positions = generator.standard_normal((MOLECULES, ATOMS, 3), dtype=np.float32)
    adjacency = (generator.random((MOLECULES, ATOMS, ATOMS)) < 0.1).astype(np.int8)
    (directory / "molecules").mkdir()
    for index in range(MOLECULES):
        folder = directory / "molecules" / f"{index // 500:02}"
        folder.mkdir(exist_ok=True)
        np.savez(folder / f"gdb9_{index:06}.npz", atoms=atoms[index], positions=positions[index],
                 adjacency=adjacency[index])
    np.save(directory / "atoms.npy", atoms)
    np.save(directory / "positions.npy", positions)
    np.save(directory / "adjacency.npy", adjacency)


def graph(atoms, positions, adjacency):
    return torch.cat([torch.from_numpy(np.array(part, np.float32).ravel()) for part in (atoms, positions, adjacency)])


class MoleculeFiles(Dataset):
    def __init__(self, directory):
        self.paths = sorted((directory / "molecules").glob("*/*.npz"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with np.load(self.paths[index]) as molecule:
            return graph(molecule["atoms"], molecule["positions"], molecule["adjacency"]), index % CLASSES


class PackedMolecules(Dataset):
    def __init__(self, directory):
        self.parts = [np.load(directory / f"{name}.npy", mmap_mode="r") for name in ("atoms", "positions", "adjacency")]

    def __len__(self):
        return MOLECULES

    def __getitem__(self, index):
        return graph(*(part[index] for part in self.parts)), index % CLASSES


def train(directory, cured):
    dataset = (PackedMolecules if cured else MoleculeFiles)(directory)
    loader = DataLoader(dataset, batch_size=40, shuffle=True, num_workers=2, persistent_workers=True)
    Training(model(ATOMS * (ATOMS + 4), 256)).fit(loader, EPOCHS)
