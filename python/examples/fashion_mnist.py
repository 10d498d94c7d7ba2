"""Trains a small network on Fashion-MNIST with Millrace's loader, on one or several ranks, and can resume.

    python fashion_mnist.py --work run                          # Debian: apt install dataset-fashion-mnist
    python fashion_mnist.py --work run --ranks 4                # four processes, gradients over gloo
    python fashion_mnist.py --work run --stop-after 100         # stop after step 100 ...
    python fashion_mnist.py --work run --resume                 # ... and continue, with the same losses

A checkpoint holds the network, the optimizer and the loader's state, which is a few numbers and the same on all ranks.
A resumed job prints the same losses, to the last bit, as a job that was not stopped.
"""
import argparse
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import millrace

RECORD_BYTES = 1 + 28 * 28  # the label, then the pixels


def records(data: pathlib.Path, part: str, work: pathlib.Path) -> pathlib.Path:
    """A file of all samples, as records of a fixed size. Made once."""
    made = work / f"{part}.bin"
    if not made.exists():
        with gzip.open(data / f"{part}-labels-idx1-ubyte.gz") as file:
            labels = torch.frombuffer(bytearray(file.read()[8:]), dtype=torch.uint8)
        with gzip.open(data / f"{part}-images-idx3-ubyte.gz") as file:
            pixels = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8).view(-1, RECORD_BYTES - 1)
        unfinished = made.with_name(f".{made.name}.{os.getpid()}")
        with open(unfinished, "xb") as file:
            file.write(torch.cat([labels[:, None], pixels], dim=1).numpy().tobytes())
        unfinished.rename(made)
    return made


def split(batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return batch[:, 1:].float().view(-1, 1, 28, 28) / 255 - 0.3, batch[:, 0].long()


class Network(torch.nn.Sequential):
    def __init__(self) -> None:
        super().__init__(torch.nn.Conv2d(1, 8, 5, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, stride=2),
                         torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 5 * 5, 10))


class Job:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.world_size = dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        torch.manual_seed(arguments.seed)
        self.network = Network()
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.05, momentum=0.9)
        data = millrace.Files([records(arguments.data, "train", arguments.work)], format="raw", shape=(RECORD_BYTES,),
                              dtype="uint8")
        shuffle = millrace.Partial(arguments.fraction) if arguments.shuffle == "partial" else arguments.shuffle
        # Rank and world size come from torch.distributed.
        self.loader = millrace.DataLoader(data, arguments.batch // self.world_size, shuffle=shuffle, seed=arguments.seed,
                                          drop_last=True, epochs=arguments.epochs)
        self.step = 0
        self.checkpoint = arguments.work / "checkpoint.pt"

    def load(self) -> None:
        saved = torch.load(self.checkpoint)
        self.network.load_state_dict(saved["network"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.loader.load_state_dict(saved["loader"])
        self.step = saved["step"]

    def save(self) -> None:
        if self.rank != 0:
            return
        unfinished = self.checkpoint.with_name(f".{self.checkpoint.name}.{os.getpid()}")
        with open(unfinished, "xb") as file:
            torch.save({"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict(),
                        "loader": self.loader.state_dict(), "step": self.step}, file)
        unfinished.rename(self.checkpoint)

    def train_step(self, batch: torch.Tensor) -> float:
        inputs, labels = split(batch)
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.network(inputs), labels)
        loss.backward()
        if self.world_size > 1:
            for parameter in self.network.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= self.world_size
        self.optimizer.step()
        shown = loss.detach()
        if self.world_size > 1:
            dist.all_reduce(shown)
        return shown.item() / self.world_size

    def train(self) -> None:
        while self.loader.epoch < self.arguments.epochs:
            epoch = self.loader.epoch
            for batch in self.loader:
                loss = self.train_step(batch)
                self.step += 1
                if self.rank == 0:
                    print(f"epoch {epoch} step {self.step} loss {loss:.17g}", flush=True)
                if self.step % self.arguments.checkpoint_every == 0:
                    self.save()
                if self.step == self.arguments.stop_after:
                    self.save()
                    return
            self.report(epoch)

    def report(self, epoch: int) -> None:
        if self.rank != 0:
            return
        test = millrace.Files([records(self.arguments.data, "t10k", self.arguments.work)], format="raw",
                              shape=(RECORD_BYTES,), dtype="uint8")
        right = count = 0
        with torch.no_grad(), millrace.DataLoader(test, 1000, world=millrace.World(0, 1)) as batches:
            for inputs, labels in map(split, batches):
                right += int((self.network(inputs).argmax(1) == labels).sum())
                count += len(labels)
        print(f"epoch {epoch} accuracy {right / count:.4f}", flush=True)
        print(self.loader.stats(), file=sys.stderr)


def launch(count: int) -> int:
    """Starts this program once per rank, like a launcher such as torchrun."""
    with tempfile.TemporaryDirectory() as scratch:
        # Ranks meet in a file: a port that is free now may be in use when they need it.
        meeting = f"file://{scratch}/ranks"
        ranks = [subprocess.Popen([sys.executable, *sys.argv],
                                  env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(count), MEETING=meeting))
                 for rank in range(count)]
        while None in (codes := [rank.poll() for rank in ranks]) and not any(codes):
            time.sleep(0.05)
        for rank in ranks:
            rank.terminate()  # if one has failed, the others would wait for it
            rank.wait()
    return 1 if any(codes) else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--work", type=pathlib.Path, required=True, help="directory for the records and the checkpoint")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=256, help="samples per step, of all ranks together")
    parser.add_argument("--shuffle", default="global", choices=["global", "local", "partial", "file", "off"])
    parser.add_argument("--fraction", type=float, default=0.1, help="for --shuffle partial: share of samples that moves per epoch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--stop-after", type=int, metavar="STEP", help="save a checkpoint and stop after this step")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    arguments = parser.parse_args()
    if not arguments.resume and os.path.lexists(arguments.work / "checkpoint.pt"):
        parser.error(f"{arguments.work} has a checkpoint.pt, which would be replaced; give --resume or another --work")
    return arguments


def main() -> int:
    arguments = parse()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if arguments.ranks > 1 and "RANK" not in os.environ:
        for part in ("train", "t10k"):
            records(arguments.data, part, arguments.work)
        return launch(arguments.ranks)
    torch.set_num_threads(1)
    if arguments.ranks > 1:
        dist.init_process_group("gloo", os.environ.get("MEETING"), rank=int(os.environ["RANK"]),
                                world_size=int(os.environ["WORLD_SIZE"]))
    job = Job(arguments)
    if arguments.resume:
        job.load()
    job.train()
    if arguments.ranks > 1:
        dist.destroy_process_group()  # gloo's threads must not run on while the interpreter shuts down
    return 0


if __name__ == "__main__":
    sys.exit(main())
