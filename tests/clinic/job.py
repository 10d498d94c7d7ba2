"""What the jobs of the clinic share: a small model, the training loop, ranks, and the command that runs one job.

    python job.py NAME DIRECTORY --make         # writes the data of jobs/NAME.py
    python job.py NAME DIRECTORY [--cured]      # trains, and prints the seconds of the training

Every process of a job with several ranks runs this command, with RANK and WORLD_SIZE set, as torchrun and srun do.
"""

import argparse
import importlib
import json
import os
import time
from pathlib import Path

import torch
from torch import distributed, nn

CLASSES = 10
VOCABULARY = 50_000


def model(inputs: int, hidden: int = 512) -> nn.Module:
    """A step with a batch of 32 costs 4 to 8 ms with 3072 inputs and 512 hidden units."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))


def recommender() -> nn.Module:
    """Many parameters, 6 MB, for its compute. Takes 16 words of VOCABULARY."""
    return nn.Sequential(nn.EmbeddingBag(VOCABULARY, 32, sparse=True), nn.Linear(32, 64), nn.ReLU(),
                         nn.Linear(64, CLASSES))


class Accelerator(nn.Module):
    """Runs a network as an accelerator does: the process sleeps meanwhile, and ranks do not share the cores."""

    def __init__(self, network: nn.Module, seconds: float) -> None:
        super().__init__()
        self.network = network
        self.seconds = seconds

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return self.network(values)


class Training:
    """Model, loss and optimizer of a job."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(network.parameters(), lr=0.001)

    def step(self, values: torch.Tensor, labels: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss = self.loss(self.network(values), labels)
        loss.backward()
        self.optimizer.step()

    def fit(self, loader, epochs: int) -> None:
        for _ in range(epochs):
            for values, labels in loader:
                self.step(values, labels)


def average(network: nn.Module) -> None:
    """Every rank gets the mean of the parameters: it waits for the slowest rank."""
    for parameter in network.parameters():
        distributed.all_reduce(parameter.data)
        parameter.data /= distributed.get_world_size()


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--cured", action="store_true")
    arguments = parser.parse_args()
    job = importlib.import_module(f"jobs.{arguments.name}")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if arguments.make:
        job.make(arguments.directory)
        return
    if world_size() > 1:
        distributed.init_process_group("gloo", init_method=f"file://{os.environ['CLINIC_STORE']}", rank=rank(),
                                       world_size=world_size())
        distributed.barrier()
    begin = time.monotonic()
    job.train(arguments.directory, arguments.cured)
    if world_size() > 1:
        distributed.barrier()
    if rank() == 0:
        print(json.dumps({"seconds": time.monotonic() - begin}), flush=True)


if __name__ == "__main__":
    main()
