#!/usr/bin/python3
"""Traces an ImageFolder job of torchvision and checks what `millrace model` derives against the truth.

    model_check.py [--build DIR]

Prints each value with the truth, and exits with 1 if one is wrong: format, counts, batches, workers and order exactly,
the compute time within 10 %. Run by hand: it needs PyTorch and a machine that is not busy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAIN, EVAL, BATCH, EVAL_BATCH, WORKERS, EPOCHS, STEP_S = 320, 64, 16, 32, 2, 3, 0.03


def make(root: Path) -> None:
    import numpy as np
    from PIL import Image
    generator = np.random.default_rng(1)
    for part, count in (("train", TRAIN), ("val", EVAL)):
        for index in range(count):
            side = int(generator.integers(96, 220))
            noise = generator.integers(0, 256, (side // 4, side // 4, 3), dtype=np.uint8)
            folder = root / part / f"class{index % 4}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noise).resize((side, side), Image.BICUBIC).save(folder / f"{index:05}.jpg", quality=85)


def train(root: Path) -> None:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader
    from torchvision import transforms
    from torchvision.datasets import ImageFolder
    torch.set_num_threads(1)
    resize = transforms.Compose([transforms.Resize((64, 64)), transforms.ToTensor()])
    loader = DataLoader(ImageFolder(str(root / "train"), resize), BATCH, shuffle=True, num_workers=WORKERS)
    evaluation = DataLoader(ImageFolder(str(root / "val"), resize), EVAL_BATCH, num_workers=WORKERS)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64 * 64 * 3, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    times = []
    for epoch in range(EPOCHS):
        for values, labels in loader:
            begin = time.perf_counter()
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(values), labels).backward()
            optimizer.step()
            time.sleep(STEP_S)
            times.append(time.perf_counter() - begin)
        with torch.no_grad():
            for values, _ in evaluation:
                network(values)
        torch.save(network.state_dict(), root / f"model_{epoch}.pt")
    (root / "truth.json").write_text(json.dumps(sum(times) / len(times)))


def time_mean(text: str) -> float:
    """The mean of a time in YAML: a number, or {type: normal, mean: 1, stdev: 0.1}."""
    if not text.startswith("{"):
        return float(text)
    fields = dict(part.split(": ") for part in text.strip("{}").split(", "))
    return float(fields["mean"]) if "mean" in fields else float(fields["shape"]) * float(fields["scale"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parents[2] / "build" / "dev")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train)
        return 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        make(root)
        subprocess.run([sys.executable, "-m", "millrace.trace", "-o", str(root / "trace"), __file__, "--train", name],
                       check=True, env={**os.environ, "PYTHONPATH": str(arguments.build / "python")})
        printed = subprocess.run([arguments.build / "bin" / "millrace", "model", "--json", root / "trace"], check=True,
                                 stdout=subprocess.PIPE).stdout
        truth_s = json.loads((root / "truth.json").read_text())
    found = {key["key"]: key["value"] for key in json.loads(printed)["keys"]}
    expected = {"dataset.format": "jpeg", "dataset.num_files_train": str(TRAIN), "dataset.num_files_eval": str(EVAL),
                "dataset.num_samples_per_file": "1", "dataset.num_subfolders_train": "4",
                "reader.data_loader": "pytorch", "reader.batch_size": str(BATCH),
                "reader.batch_size_eval": str(EVAL_BATCH), "reader.read_threads": str(WORKERS),
                "reader.file_shuffle": "seed", "reader.sample_shuffle": "seed", "train.epochs": str(EPOCHS),
                "evaluation.epochs_between_evals": "1", "checkpoint.epochs_between_checkpoints": "1",
                "checkpoint.fsync": "false"}
    wrong = [key for key, value in expected.items() if found.get(key) != value]
    compute_s = time_mean(found["train.computation_time"])
    if abs(compute_s / truth_s - 1) > 0.1:
        wrong.append("train.computation_time")
    for key, value in expected.items():
        print(f"{key:40} {found.get(key, '-'):10} truth {value:10} {'WRONG' if key in wrong else ''}".rstrip())
    print(f"{'train.computation_time':40} {compute_s:<10.4f} truth {truth_s:<10.4f} ratio {compute_s / truth_s:.3f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
