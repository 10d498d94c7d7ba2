"""A frame of a microscope's TIFF stack: the stack is opened, and its frames followed from the first one, for each sample.
Cure: the stacks stay open, and Pillow knows where their frames are."""

import numpy as np
import torch
from job import CLASSES, Training, model
from PIL import Image
from torch.utils.data import DataLoader, Dataset

DISEASE = "a TIFF stack opened and searched for each frame"
EXPECTED = ["repeated-opens", "read-amplification", "small-reads"]

STACKS = 4
FRAMES = 180
SIDE = 64


def make(directory):
    generator = np.random.default_rng(71)
    for number in range(STACKS):
        frames = [Image.fromarray(generator.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)) for _ in range(FRAMES)]
        frames[0].save(directory / f"stack_{number}.tif", save_all=True, append_images=frames[1:])


class Frames(Dataset):
    def __init__(self, directory, keeps_open):
        self.paths = sorted(directory.glob("stack_*.tif"))
        self.stacks = [Image.open(path) for path in self.paths] if keeps_open else None

    def __len__(self):
        return len(self.paths) * FRAMES

    def __getitem__(self, index):
        number, frame = divmod(index, FRAMES)
        if self.stacks is not None:
            values = self.frame(self.stacks[number], frame)
        else:
            with Image.open(self.paths[number]) as stack:
                values = self.frame(stack, frame)
        return values, index % CLASSES

    @staticmethod
    def frame(stack, frame):
        stack.seek(frame)
        return torch.from_numpy(np.asarray(stack, dtype=np.float32).transpose(2, 0, 1) / 255)


def train(directory, cured):
    loader = DataLoader(Frames(directory, cured), batch_size=16, shuffle=True)
    Training(model(3 * SIDE * SIDE, 128)).fit(loader, epochs=1)
