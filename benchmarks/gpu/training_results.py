#!/usr/bin/env python3
"""What large batches, shuffling, compressed gradients and precision do to accuracy: the figures of docs/training.md.

    benchmarks/gpu/on_gpu.sh benchmarks/gpu/training_results.py --folder cifar-10 --out results.json   # builds the package; one GPU, 15 minutes
    benchmarks/gpu/training_results.py --device cpu --tiny                       # to check that it works, a minute

Experiments (--only selects some): tune, shuffling, batches, adaptive, compression, precision. All train a residual
network of nine layers on CIFAR-10 with three seeds. `tune` chooses the rate of each optimizer and batch on 5,000
training images that are held out; the others use these rates. Results are saved after every run, and printed as
tables. An experiment that has used its share of --minutes stops after the seed in progress.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Optional

import torch

from millrace import optim
from millrace.lab import datasets, models, results, shards, training
from millrace.loader._native import native

EXPERIMENTS = ("tune", "shuffling", "batches", "adaptive", "compression", "precision")
SHARES = {"tune": 0.2, "shuffling": 0.38, "batches": 0.3, "adaptive": 0.1, "compression": 0.15, "precision": 0.15}
TRUST = 0.05  # LARS multiplies the rate by this and by |w| / |g|
RATE = 0.1  # at a batch of 256, times the root of batch / 256: the first rate that `tune` tries
TRIES = 6  # rates of an optimizer and batch, at most


def numbers(text: str) -> list:
    return [int(each) for each in text.split(",")]


class Job:
    """The dataset on the device, the options, and the results so far."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.device = torch.device(arguments.device)
        self.tiny = arguments.tiny
        dataset = datasets.cifar10(Path(arguments.folder)) if arguments.folder else datasets.fashion_mnist()
        if self.tiny:
            dataset = dataset.first(2000)
        self.samples = training.Samples(dataset, self.device, torch.float32)
        self.held_out = self._held_out(dataset)
        self.width = 4 if self.tiny else arguments.width
        self.seeds = numbers(arguments.seeds)
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        self.results: dict = {"format": "millrace-training-results", "version": 1, "torch": torch.__version__,
                              "device": name, "model": arguments.model, "dataset": dataset.name, "train": len(dataset.train),
                              "width": self.width, "trust_coefficient": arguments.trust}
        if arguments.out.exists() and arguments.keep:
            self.results.update(json.loads(arguments.out.read_text()))

    def _held_out(self, dataset: datasets.Dataset) -> training.Samples:
        """A tenth of the training samples as the test, the rest to train with: for choosing rates."""
        count = len(dataset.train) // 10
        part = datasets.Dataset(dataset.name, dataset.train[count:], dataset.train_labels[count:],
                                dataset.train[:count], dataset.train_labels[:count], dataset.augment)
        return training.Samples(part, self.device, torch.float32)

    def save(self) -> None:
        unfinished = self.arguments.out.with_name(f".{self.arguments.out.name}.{os.getpid()}")
        with open(unfinished, "x") as file:
            file.write(json.dumps(self.results, indent=1) + "\n")
        unfinished.replace(self.arguments.out)

    def epochs(self, usual: int) -> int:
        return 1 if self.tiny else self.arguments.epochs or usual

    def first_lr(self, optimizer: str, batch: int) -> float:
        """Where `tune` begins."""
        return RATE * (batch / 256) ** 0.5 * (TRUST / self.arguments.trust if optimizer == "lars" else 1)

    def lr(self, optimizer: str, batch: int) -> float:
        """As tuned; or the rate of the nearest batch that was, scaled."""
        tuned = self.results.get("tune", {}).get("lrs", {}).get(optimizer, {})
        if not tuned:
            return 2 * self.first_lr(optimizer, batch)
        nearest = min(tuned, key=lambda each: abs(int(each) - batch))
        return tuned[nearest] * (batch / int(nearest)) ** 0.5


class Stream:
    """Batches of any size, one after another, through all epochs: a batch may span two. The samples come in the
    loader's own global order. It has what AdaptiveBatch asks of a loader."""

    class world:
        size = 1

    def __init__(self, samples: training.Samples, seed: int, epochs: int, batch: int) -> None:
        self.samples, self.seed, self.epochs, self.batch_size = samples, seed, epochs, batch
        self.count = len(samples.dataset.train)
        self.done = 0
        self._order = native.Order(shuffle="global", sample_count=self.count, seed=seed)
        self._share = native.Share(self.count, 0, 0, 1, self.count, "pad")
        self._ready = torch.empty(0, dtype=torch.int64, device=samples.device)
        self._next_epoch = 0

    @property
    def epoch(self) -> int:
        return self.done // self.count

    def state_dict(self) -> dict:
        return {"samples": self.count, "done": self.done}

    def set_batch_size(self, batch: int) -> None:
        self.batch_size = batch

    def next(self) -> Optional[tuple]:
        """None when fewer samples are left than a batch."""
        if self.done + self.batch_size > self.epochs * self.count:
            return None
        while len(self._ready) < self.batch_size:
            chosen = self._share.samples(self._order, self._next_epoch, 0)[0]
            self.samples.start_epoch(self._next_epoch, self.seed)
            self._ready = torch.cat([self._ready, torch.tensor(chosen, device=self.samples.device)])
            self._next_epoch += 1
        chosen, self._ready = self._ready[:self.batch_size], self._ready[self.batch_size:]
        self.done += self.batch_size
        return self.samples.batch(chosen)


class Network:
    """The network, in channels-last memory and with its precision, and its test."""

    def __init__(self, job: Job, samples: training.Samples, seed: int, precision: str = "", width: int = 0) -> None:
        torch.manual_seed(seed)
        self.samples = samples
        self.trust = job.arguments.trust
        self.precision = precision or ("bf16" if samples.device.type == "cuda" else "float32")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.precision != "float32"
        module = models.MODELS[job.arguments.model](samples.dataset, width or job.width)
        self.module = module.to(samples.device, memory_format=torch.channels_last)
        self.scaler = training.make_scaler(self.precision == "fp16")
        self.loss = torch.nn.CrossEntropyLoss()

    def autocast(self) -> Any:
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision)
        return torch.autocast(self.samples.device.type, kind or torch.bfloat16, enabled=kind is not None)

    def backward(self, inputs: torch.Tensor, labels: torch.Tensor) -> None:
        with self.autocast():
            loss = self.loss(self.module(inputs.contiguous(memory_format=torch.channels_last)), labels)
        self.scaler.scale(loss).backward()

    @torch.no_grad()
    def accuracy(self) -> float:
        self.module.eval()
        right = torch.zeros((), device=self.samples.device, dtype=torch.int64)
        with self.autocast():
            for inputs, labels in self.samples.tests(slice(None)):
                right += (self.module(inputs).argmax(1) == labels).sum()
        self.module.train()
        return int(right) / len(self.samples.test)

    def optimizer(self, kind: str, lr: float, momentum: float = 0.9) -> Any:
        if kind == "lars":
            return optim.LARS(optim.parameter_groups(self.module), lr=lr, momentum=momentum, trust_coefficient=self.trust)
        recipe = training.Recipe(momentum=momentum)
        return training.make_optimizer(self.module, recipe, lr)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def train(job: Job, kind: str, batch: int, lr: float, epochs: int, seed: int, *, samples: Any = None, precision: str = "",
          width: int = 0, warmup: float = 0.2) -> dict:
    """One run with warm-up and polynomial decay."""
    samples = samples or job.samples
    network = Network(job, samples, seed, precision, width)
    optimizer = network.optimizer(kind, lr)
    stream = Stream(samples, seed, epochs, batch)
    steps = epochs * stream.count // batch
    schedule = optim.WarmupPolynomial(optimizer, round(warmup * steps) if steps > 1 else 0, max(steps, 1))
    begin = time.perf_counter()
    while (taken := stream.next()) is not None:
        optimizer.zero_grad(set_to_none=True)
        network.backward(*taken)
        network.scaler.step(optimizer)
        network.scaler.update()
        schedule.step()
    wait(job.device)
    seconds = time.perf_counter() - begin
    return {"accuracy": network.accuracy(), "seconds": seconds, "updates": steps, "seed": seed,
            "images_per_second": steps * batch / seconds}


def batches_of(job: Job) -> list:
    return [64, 256] if job.tiny else numbers(job.arguments.batches)


class Table:
    """Runs of conditions, each with several seeds. Saved after every run; seeds are the outer loop, so that all
    conditions have the same seeds when the time is up."""

    def __init__(self, job: Job, name: str, columns: tuple) -> None:
        self.job, self.name, self.columns = job, name, columns
        self.rows: dict = {}
        self.begin = time.perf_counter()
        self.facts = job.results[name] = {"columns": list(columns), "rows": []}

    def is_over(self) -> bool:
        limit = 60 * self.job.arguments.minutes * SHARES[self.name]
        return time.perf_counter() - self.begin > limit

    def add(self, key: tuple, run: dict) -> None:
        self.rows.setdefault(key, []).append(run)
        rows = []
        for condition, runs in self.rows.items():
            row = dict(zip(self.columns, condition))
            values = [each["accuracy"] for each in runs]
            row.update({name: results.mean([each[name] for each in runs]) for name in runs[0]
                        if name not in ("seed", "accuracy")})
            row.update(accuracy=results.mean(values), accuracy_interval=results.half_interval(values), runs=runs)
            rows.append(row)
        self.facts["rows"] = rows
        self.facts["seconds"] = time.perf_counter() - self.begin
        self.job.save()
        print(f"{self.name} {' '.join(map(str, key))}: {100 * run['accuracy']:.2f} %, {run['seconds']:.1f} s",
              file=sys.stderr, flush=True)

    def show(self) -> None:
        names = [*self.columns, "accuracy", *(name for name in (self.facts["rows"] or [{}])[0]
                                              if name not in (*self.columns, "accuracy", "accuracy_interval", "runs"))]
        lines = [names]
        for row in self.facts["rows"]:
            lines.append([results.percent(row) if name == "accuracy" else
                          f"{row[name]:.4g}" if isinstance(row[name], float) else str(row[name]) for name in names])
        widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
        print(f"\n{self.name} ({self.facts.get('seconds', 0):.0f} s)")
        for line in lines:
            print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)), flush=True)


def best_lr(job: Job, table: Table, kind: str, batch: int) -> float:
    """Halves the rate, or doubles it, as long as that helps."""
    found: dict = {}

    def accuracy(factor: float) -> float:
        if factor not in found:
            lr = job.first_lr(kind, batch) * factor
            run = train(job, kind, batch, lr, job.epochs(6 if batch <= 256 else 12), 100, samples=job.held_out)
            table.add((kind, batch, lr), run)
            found[factor] = run["accuracy"]
        return found[factor]

    factor = 1.0
    step = 0.5 if accuracy(0.5) > accuracy(1.0) else 2.0
    while len(found) < TRIES and accuracy(factor * step) > accuracy(factor):
        factor *= step
    return job.first_lr(kind, batch) * factor


def tune(job: Job) -> Table:
    """The rate of each optimizer and batch that is best on samples held out of training."""
    table = Table(job, "tune", ("optimizer", "batch", "lr"))
    lrs: dict = {"sgd": {}, "lars": {}}
    table.facts["lrs"] = lrs
    for batch in reversed(batches_of(job)):  # from the fastest
        for kind in job.arguments.optimizers.split(","):
            lrs[kind][str(batch)] = best_lr(job, table, kind, batch)
        job.save()
        if table.is_over():
            break
    return table


def shuffling(job: Job) -> Table:
    """Local, partial and global shuffling with batch-norm statistics per worker. The batch of all workers is the
    same, so that only what the workers hold differs."""
    table = Table(job, "shuffling", ("shards", "workers", "fraction"))
    total = 256 if job.tiny else 4096
    counts = [4, 32] if job.tiny else numbers(job.arguments.workers)
    conditions = [("sorted", workers, fraction) for workers in counts for fraction in (0.0, 0.1, 0.3, 1.0)]
    conditions += [("random", counts[-1], fraction) for fraction in (0.0, 1.0)]
    labels = job.samples.dataset.train_labels.numpy()
    on_gpu = job.device.type == "cuda"
    for seed in job.seeds:
        for kind, workers, fraction in conditions:
            recipe = training.Recipe(epochs=job.epochs(10), batch=total // workers, lr=job.lr("sgd", total),
                                     scaling="none", warmup=0.2, precision="bf16" if on_gpu else "float32")
            held = shards.Shards(shards.arrange(labels, kind, seed), workers, fraction, seed)
            run = training.Trainer(job.samples, lambda data: models.MODELS[job.arguments.model](data, job.width), held, recipe, seed).run()
            table.add((kind, workers, fraction),
                      {"accuracy": run.accuracy[-1], "seed": seed, "seconds": run.seconds, "updates": run.updates,
                       "sent_per_worker": run.exchanged_per_epoch / workers, "stored": run.stored_max,
                       "skew_last": run.skew[-1]})
        if table.is_over():
            break
    return table


def batches(job: Job) -> Table:
    """SGD against LARS, both with warm-up, polynomial decay and the tuned rate; and with --linear SGD with the rate
    of the smallest batch, scaled linearly, which is what one would do without tuning."""
    table = Table(job, "batches", ("optimizer", "batch"))
    smallest = batches_of(job)[0]
    for seed in job.seeds:
        for batch in batches_of(job):
            lrs = {kind: job.lr(kind, batch) for kind in job.arguments.optimizers.split(",")}
            if job.arguments.linear and batch != smallest:
                lrs["sgd-linear"] = job.lr("sgd", smallest) * batch / smallest
            for kind, lr in lrs.items():
                run = train(job, kind.split("-")[0], batch, lr, job.epochs(12), seed)
                table.add((kind, batch), {**run, "lr": lr})
        if table.is_over():
            break
    return table


def adaptive(job: Job) -> Table:
    """The batch grows where the schedule would decay the rate."""
    table = Table(job, "adaptive", ("schedule", "batch_max"))
    batch, largest = (32, 256) if job.tiny else (512, 8192)
    epochs = job.epochs(12)
    lr = job.arguments.lr or job.lr("sgd", batch)
    part = optim.polynomial(warmup=0.15 * epochs, total=epochs)
    for seed in job.seeds:
        for name, limit in (("decayed", batch), ("adaptive", largest // 4), ("adaptive", largest)):
            network = Network(job, job.samples, seed)
            optimizer = network.optimizer("sgd", lr)
            stream = Stream(job.samples, seed, epochs, batch)
            growing = optim.AdaptiveBatch(optimizer, stream, part, max_batch=limit)
            begin, updates = time.perf_counter(), 0
            while (taken := stream.next()) is not None:
                optimizer.zero_grad(set_to_none=True)
                network.backward(*taken)
                optimizer.step()
                growing.step()
                updates += 1
            wait(job.device)
            seconds = time.perf_counter() - begin
            table.add((name, limit), {"accuracy": network.accuracy(), "seed": seed, "seconds": seconds, "updates": updates,
                                      "last_batch": stream.batch_size, "lr": lr})
        if table.is_over():
            break
    return table


def compressed_step(network: Network, compressions: list, parts: list) -> int:
    """The mean of what each worker sends, as the gradients. Returns the bytes that a worker sends."""
    sums: dict = {}
    sent = 0
    for compression, (inputs, labels) in zip(compressions, parts):
        network.module.zero_grad(set_to_none=True)
        network.backward(inputs, labels)
        for name, parameter in network.module.named_parameters():
            gradient = parameter.grad
            mean = sums.setdefault(name, torch.zeros_like(parameter))
            flat = gradient.reshape(-1)
            if compression is None:
                mean += gradient / len(parts)
                sent += 4 * flat.numel()
            elif parameter.dim() < 2:
                mean += compression.whole(name, flat, len(parts)).view_as(mean) / len(parts)
                sent += 4 * flat.numel()
            else:
                positions, values = compression.compress(name, flat, len(parts))
                mean += torch.zeros_like(flat).index_add_(0, positions, values / len(parts)).view_as(mean)
                sent += 8 * positions.numel()
        if compression is not None:
            compression.end_step()
    for name, parameter in network.module.named_parameters():
        parameter.grad = sums[name]
    return sent // len(parts)


def compression(job: Job) -> Table:
    """Four workers that send their whole gradients, or the largest 1 % or 0.1 % of them."""
    table = Table(job, "compression", ("sparsity",))
    batch, workers = (64, 2) if job.tiny else (1024, 4)
    epochs = job.epochs(10)
    lr = job.lr("sgd", batch)
    for seed in job.seeds:
        for sparsity in (0.0, 0.99, 0.999):
            network = Network(job, job.samples, seed)
            steps = epochs * len(job.samples.dataset.train) // batch
            states = [None] * workers if sparsity == 0 else [
                optim.GradientCompression(sparsity=sparsity, momentum=0.9, warmup_steps=steps // 5) for _ in range(workers)]
            optimizer = network.optimizer("sgd", lr, momentum=0.9 if sparsity == 0 else 0.0)
            schedule = optim.WarmupPolynomial(optimizer, max(steps // 5, 1), max(steps, 2))
            stream = Stream(job.samples, seed, epochs, batch)
            begin, sent = time.perf_counter(), 0
            while (taken := stream.next()) is not None:
                parts = list(zip(*(each.chunk(workers) for each in taken)))
                sent += compressed_step(network, states, parts)
                optimizer.step()
                schedule.step()
            wait(job.device)
            table.add((sparsity,), {"accuracy": network.accuracy(), "seed": seed, "seconds": time.perf_counter() - begin,
                                    "megabytes_sent_per_worker": sent / 1e6, "updates": steps})
        if table.is_over():
            break
    return table


def precision(job: Job) -> Table:
    """The same training with less precise arithmetic. A wider network, so that arithmetic takes the time."""
    table = Table(job, "precision", ("precision",))
    kinds = ("float32", "tf32", "bf16", "fp16") if job.device.type == "cuda" else ("float32", "bf16")
    batch = 64 if job.tiny else 1024
    for kind in kinds:  # the first steps choose algorithms
        Network(job, job.samples, 0, kind, job.width * 2).backward(*Stream(job.samples, 0, 1, batch).next())
    for seed in job.seeds:
        for kind in kinds:
            table.add((kind,), train(job, "sgd", batch, job.lr("sgd", batch), job.epochs(6), seed, precision=kind,
                                     width=job.width * 2))
        if table.is_over():
            break
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="of CIFAR-10's binary batches; by default Fashion-MNIST is used")
    parser.add_argument("--out", type=Path, default=Path("training-results.json"))
    parser.add_argument("--only", default=",".join(EXPERIMENTS), help="experiments, separated by commas")
    parser.add_argument("--keep", action="store_true", help="continue with the results in --out, and their tuned rates")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", choices=("resnet9", "mlp"), default="resnet9")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batches", default="256,1024,4096,8192,16384,32768", help="for tune and batches")
    parser.add_argument("--workers", default="16,256,1024", help="for shuffling")
    parser.add_argument("--optimizers", default="sgd,lars", help="for tune and batches")
    parser.add_argument("--linear", action="store_true", help="in batches, also SGD with the rate of the smallest batch, scaled")
    parser.add_argument("--trust", type=float, default=TRUST, help=f"the trust coefficient of LARS (default {TRUST})")
    parser.add_argument("--lr", type=float, help="for adaptive, instead of the tuned one")
    parser.add_argument("--epochs", type=int, help="of every run (default: 6 to 12)")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--minutes", type=float, default=14, help="for all experiments; each has a share (default 14)")
    parser.add_argument("--tiny", action="store_true", help="a small network and few samples, to check that it works")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    unknown = [name for name in chosen if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"no experiment is called '{unknown[0]}'; there are {', '.join(EXPERIMENTS)}")
    torch.backends.cudnn.benchmark = True
    try:
        job = Job(arguments)
    except datasets.LabError as error:
        print(f"training_results: {error}", file=sys.stderr)
        return 1
    for name in EXPERIMENTS:
        if name in chosen:
            table = globals()[name](job)
            job.save()
            table.show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
