"""Trains ResNet-50 on a folder of JPEGs, on one or several ranks, with large batches; it can be stopped and resumed.

    python train.py --data train --work run --batch 1024 --precision bf16           # one GPU
    torchrun --nproc-per-node 8 train.py --data train --work run --batch 8192       # eight
    python train.py --synthetic 200 --batch 256 --precision bf16                    # the GPU alone, without data
    python train.py --data train --work run --resume                                # continue at the checkpoint

The data come from millrace.DataLoader with partial shuffling, the optimizer is LARS with warm-up and polynomial
decay, and a thread writes checkpoints. A resumed run prints the same losses as one that was not stopped.
README.md shows how to trace a run and what the report says.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import Optional

import torch
import torch.distributed as dist
from checkpoints import CheckpointWriter
from resnet import ResNet

import millrace
from millrace import optim, trace

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Job:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.world_size = dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        if arguments.batch % self.world_size:
            sys.exit(f"--batch {arguments.batch} cannot be divided among {self.world_size} ranks")
        self.share = arguments.batch // self.world_size  # samples of this rank per step
        self.device = find_device(arguments.device)
        torch.manual_seed(arguments.seed)  # the same weights on all ranks
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            torch.backends.cudnn.benchmark = True
        self.loader, classes = (None, 1000) if arguments.synthetic else self.open_data()
        self.model = ResNet(classes, arguments.blocks, arguments.width).to(self.device)
        self.layout = torch.channels_last if self.device.type == "cuda" else torch.contiguous_format
        self.model = self.model.to(memory_format=self.layout)
        self.network = self.model
        if self.world_size > 1:
            self.network = torch.nn.parallel.DistributedDataParallel(self.model)
        lr = optim.scaled_lr(arguments.lr, batch=arguments.batch)
        self.optimizer = optim.LARS(optim.parameter_groups(self.model), lr=lr)
        steps = max(2, arguments.epochs * len(self.loader) if self.loader else arguments.synthetic)
        warmup = min(steps - 1, steps * arguments.warmup // max(1, arguments.epochs))
        self.schedule = optim.WarmupPolynomial(self.optimizer, warmup, steps)
        self.scaler = make_scaler(arguments.precision == "fp16" and self.device.type == "cuda")
        self.mean = torch.tensor(MEAN, device=self.device).view(1, 3, 1, 1) * 255
        self.std = torch.tensor(STD, device=self.device).view(1, 3, 1, 1) * 255
        self.step = 0
        if arguments.work is not None:
            self.writer = CheckpointWriter(arguments.work / "checkpoint.pt")

    def open_data(self) -> tuple:
        arguments = self.arguments
        data = millrace.ImageFolder(arguments.data, size=arguments.size)  # uint8: a quarter of the bytes of float32
        shuffle = millrace.Partial(arguments.fraction) if self.world_size > 1 else True
        loader = millrace.DataLoader(data, self.share, shuffle=shuffle, seed=arguments.seed, drop_last=True,
                                     epochs=arguments.epochs, pin_memory=self.device.type == "cuda",
                                     num_workers=arguments.workers)
        if len(loader) == 0:
            sys.exit(f"{arguments.data} has {len(data)} images: fewer than one batch of {arguments.batch}")
        return loader, len(data.classes)

    # ---- a step -------------------------------------------------------------------------------------

    def autocast(self) -> contextlib.AbstractContextManager:
        dtype = PRECISIONS[self.arguments.precision]
        if dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=dtype)

    def to_device(self, images: torch.Tensor, labels: torch.Tensor) -> tuple:
        images = images.to(self.device, non_blocking=True)
        labels = labels.to(self.device, non_blocking=True)
        return (images.to(memory_format=self.layout).float() - self.mean) / self.std, labels.long()

    def train_step(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = torch.nn.functional.cross_entropy(self.network(images), labels, label_smoothing=0.1)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        self.step += 1
        return loss.detach()

    # ---- checkpoints --------------------------------------------------------------------------------

    def save(self) -> None:
        generators = self.generators()  # of all ranks
        if self.rank == 0:
            self.writer.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                              "schedule": self.schedule.state_dict(), "scaler": self.scaler.state_dict(),
                              "loader": self.loader.state_dict(), "generators": generators, "step": self.step})

    def generators(self) -> list:
        own = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            own["cuda"] = torch.cuda.get_rng_state()
        if self.world_size == 1:
            return [own]
        all_ranks: list = [None] * self.world_size
        dist.all_gather_object(all_ranks, own)
        return all_ranks

    def load(self) -> None:
        path = self.arguments.work / "checkpoint.pt"
        if not path.exists():
            sys.exit(f"{path} does not exist: there is nothing to resume")
        saved = torch.load(path, map_location="cpu")
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.schedule.load_state_dict(saved["schedule"])
        self.scaler.load_state_dict(saved["scaler"])
        self.loader.load_state_dict(saved["loader"])
        self.step = saved["step"]
        if self.rank < len(saved["generators"]):  # otherwise there are more ranks than before
            own = saved["generators"][self.rank]
            torch.set_rng_state(own["cpu"])
            if self.device.type == "cuda" and "cuda" in own:
                torch.cuda.set_rng_state(own["cuda"])

    # ---- a run --------------------------------------------------------------------------------------

    def train(self) -> None:
        speed, batch = Speed(self), None
        while self.loader.epoch < self.arguments.epochs:
            epoch = self.loader.epoch
            with trace.epoch(epoch):
                for images, labels in self.loader:
                    batch = self.to_device(images, labels)
                    loss = self.train_step(*batch)
                    speed.count(len(labels))
                    if self.step % self.arguments.log_every == 0:
                        self.log(epoch, loss, speed)
                    if self.step % self.arguments.checkpoint_every == 0:
                        self.save()
                    if self.step == self.arguments.stop_after:
                        return self.finish(speed, batch)
        self.finish(speed, batch)

    def log(self, epoch: int, loss: torch.Tensor, speed: "Speed") -> None:
        mean = loss.clone()
        if self.world_size > 1:
            dist.all_reduce(mean)
        shown = mean.item() / self.world_size  # waits for the GPU
        if self.rank == 0:
            print(f"epoch {epoch} step {self.step} loss {shown:.17g} lr {self.schedule.get_last_lr()[0]:.4g} "
                  f"images/s {speed.rate():.0f}", flush=True)

    def finish(self, speed: "Speed", batch: Optional[tuple]) -> None:
        whole = speed.rate()
        self.save()
        if self.rank == 0:
            self.writer.wait()
            print(f"trained at {whole:.0f} images/s", flush=True)
        if self.arguments.alone > 0 and batch is not None:
            alone = self.measure_alone(self.arguments.alone, *batch)
            if self.rank == 0:
                print(f"the device alone: {alone:.0f} images/s; training reached {whole / alone:.1%} of it",
                      flush=True)

    def measure_alone(self, steps: int, images: torch.Tensor, labels: torch.Tensor) -> float:
        """Images per second of all ranks, with a batch that is already on the device. Changes the weights."""
        for _ in range(max(1, steps // 5)):
            self.train_step(images, labels)
        speed = Speed(self)
        for _ in range(steps):
            self.train_step(images, labels)
            speed.count(len(labels))
        return speed.rate()

    def synthetic(self) -> None:
        side = self.arguments.size
        images = torch.randn(self.share, 3, side, side, device=self.device).to(memory_format=self.layout)
        labels = torch.randint(1000, (self.share,), device=self.device)
        alone = self.measure_alone(self.arguments.synthetic, images, labels)
        if self.rank == 0:
            print(f"the device alone: {alone:.0f} images/s", flush=True)


class Speed:
    """Images per second of all ranks since it was made. The first steps, which set everything up, do not count."""

    SKIPPED = 5

    def __init__(self, job: Job) -> None:
        self.job, self.steps, self.images = job, 0, 0
        self.began = self.now()

    def now(self) -> float:
        if self.job.device.type == "cuda":
            torch.cuda.synchronize()
        return time.monotonic()

    def count(self, images: int) -> None:
        self.steps += 1
        self.images += images * self.job.world_size
        if self.steps == self.SKIPPED:
            self.began, self.images = self.now(), 0

    def rate(self) -> float:
        return self.images / max(1e-9, self.now() - self.began)


def make_scaler(enabled: bool) -> object:
    if hasattr(torch.amp, "GradScaler"):  # torch 2.3
        return torch.amp.GradScaler("cuda", enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)


def find_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return torch.device(name)


def launch(count: int) -> int:
    """Starts this program once per rank of this machine, like torchrun."""
    with tempfile.TemporaryDirectory() as scratch:
        # Ranks meet in a file: a port that is free now may be in use when they need it.
        meeting = f"file://{scratch}/ranks"
        ranks: list = []
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the ranks end, too
        try:
            for rank in range(count):
                ranks.append(subprocess.Popen([sys.executable, *sys.argv],
                                              env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank),
                                                       WORLD_SIZE=str(count), MEETING=meeting)))
            while None in (codes := [rank.poll() for rank in ranks]) and not any(codes):
                time.sleep(0.05)
        finally:
            for rank in ranks:
                rank.terminate()  # if one has failed, the others would wait for it
                rank.wait()
    return 1 if any(codes) else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, help="directory with one directory of JPEGs per class")
    parser.add_argument("--work", type=pathlib.Path, help="directory for the checkpoint")
    parser.add_argument("--synthetic", type=int, default=0, metavar="STEPS", help="measure the device without data")
    parser.add_argument("--ranks", type=int, default=1, help="processes on this machine; or use torchrun or srun")
    parser.add_argument("--batch", type=int, default=256, help="samples per step, of all ranks together")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--warmup", type=int, default=5, help="epochs")
    parser.add_argument("--lr", type=float, default=0.3, help="learning rate for 256 samples, scaled with --batch")
    parser.add_argument("--fraction", type=float, default=0.1, help="of a rank's samples that it exchanges per epoch")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--size", type=int, default=224, help="of an image, in pixels")
    parser.add_argument("--blocks", type=lambda text: tuple(map(int, text.split(","))), default=(3, 4, 6, 3))
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--workers", type=int, help="threads that read and decode; by default tuned")
    parser.add_argument("--device", default="auto", help="cuda, cpu, or auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log-every", type=int, default=50, help="steps; a log line waits for the GPU")
    parser.add_argument("--checkpoint-every", type=int, default=1000, help="steps")
    parser.add_argument("--stop-after", type=int, default=0, help="save and stop after this step")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--alone", type=int, default=0, metavar="STEPS",
                        help="at the end, measure the device without data, for comparison")
    arguments = parser.parse_args()
    if not arguments.synthetic and (arguments.data is None or arguments.work is None):
        parser.error("--data and --work are needed, or --synthetic")
    if not arguments.synthetic and not arguments.resume and os.path.lexists(arguments.work / "checkpoint.pt"):
        parser.error(f"{arguments.work} has a checkpoint.pt, which would be replaced; give --resume or another --work")
    for name in ("ranks", "batch", "epochs", "size", "width", "log_every", "checkpoint_every"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    return arguments


def main() -> int:
    arguments = parse()
    if arguments.ranks > 1 and "RANK" not in os.environ:
        return launch(arguments.ranks)
    if arguments.work is not None:
        arguments.work.mkdir(parents=True, exist_ok=True)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dist.init_process_group("nccl" if find_device(arguments.device).type == "cuda" else "gloo",
                                init_method=os.environ.get("MEETING", "env://"),
                                rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    job = Job(arguments)
    if arguments.resume:
        job.load()
    if arguments.synthetic:
        job.synthetic()
    else:
        job.train()
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
