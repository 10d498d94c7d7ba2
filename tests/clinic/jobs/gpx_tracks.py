"""GPS tracks as GPX (XML), parsed by the workers in every epoch. Cure: the tracks as .npy, converted once."""

from xml.etree import ElementTree

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "GPX (XML) tracks parsed in every epoch"
EXPECTED = ["text-parsing", "decode-bound"]

TRACKS = 500
POINTS = 1500
NAMESPACE = "{http://www.topografix.com/GPX/1/1}"


def make(directory):
    generator = np.random.default_rng(1)
    for name in ("gpx", "npy"):
        (directory / name).mkdir()
    for index in range(TRACKS):
        track = np.cumsum(generator.normal(0, 0.001, (POINTS, 3)), axis=0) + [47, 11, 500]
        points = "\n".join(f'<trkpt lat="{lat:.6f}" lon="{lon:.6f}"><ele>{ele:.3f}</ele></trkpt>'
                           for lat, lon, ele in track)
        (directory / "gpx" / f"{index:04}.gpx").write_text(
            '<?xml version="1.0"?>\n<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">'
            f"<trk><trkseg>\n{points}\n</trkseg></trk></gpx>\n")
        np.save(directory / "npy" / f"{index:04}.npy", track.astype(np.float32))


def parse(path):
    points = ElementTree.parse(path).getroot().iter(f"{NAMESPACE}trkpt")
    return np.array([(float(point.get("lat")), float(point.get("lon")), float(point.find(f"{NAMESPACE}ele").text))
                     for point in points], dtype=np.float32)


class Tracks(Dataset):
    def __init__(self, directory, cured):
        self.paths = sorted((directory / "npy").glob("*.npy") if cured else (directory / "gpx").glob("*.gpx"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        track = np.load(path) if path.suffix == ".npy" else parse(path)
        return torch.from_numpy(track - track[0]), index % CLASSES


def train(directory, cured):
    loader = DataLoader(Tracks(directory, cured), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    Training(model(3 * POINTS)).fit(loader, epochs=3)
