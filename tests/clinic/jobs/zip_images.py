"""Images in train.zip, which __getitem__ opens for each of them. Cure: each worker opens it once."""

import io
import zipfile

import numpy as np
from job import CLASSES, Training, model
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor

DISEASE = "a zip file of images opened for each image"
EXPECTED = ["repeated-opens", "read-amplification"]

SAMPLES = 1000
SIDE = 48
EPOCHS = 2


def make(directory):
    generator = np.random.default_rng(1)
    with zipfile.ZipFile(directory / "train.zip", "w") as archive:
        for index in range(SAMPLES):
            small = Image.fromarray(generator.integers(0, 256, (8, 8, 3), dtype=np.uint8))
            data = io.BytesIO()
            small.resize((SIDE, SIDE), Image.BILINEAR).save(data, "JPEG")
            archive.writestr(f"train/image_{index:05}_{index % CLASSES}.jpg", data.getvalue())


class ZippedImages(Dataset):
    def __init__(self, path, keeps_open):
        self.path = path
        self.keeps_open = keeps_open
        self.archive = None
        with zipfile.ZipFile(path) as archive:
            self.names = archive.namelist()

    def __len__(self):
        return len(self.names)

    def read(self, name):
        if not self.keeps_open:
            with zipfile.ZipFile(self.path) as archive:
                return archive.read(name)
        if self.archive is None:
            self.archive = zipfile.ZipFile(self.path)
        return self.archive.read(name)

    def __getitem__(self, index):
        name = self.names[index]
        image = Image.open(io.BytesIO(self.read(name))).convert("RGB")
        return to_tensor(image), int(name[-5])


def train(directory, cured):
    loader = DataLoader(ZippedImages(directory / "train.zip", cured), batch_size=32, shuffle=True, num_workers=2,
                        persistent_workers=True)
    Training(model(SIDE * SIDE * 3, 384)).fit(loader, epochs=EPOCHS)
