"""Trains one model with the samples of many workers, as synchronous data parallelism does.

Every step, each worker computes the gradient of its own batch, normalised with the statistics of that
batch, and the mean of the workers' gradients is applied. One process computes all workers at once, or
several processes a part of the workers each; the losses are the same.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy
import torch
from torch import nn

from millrace.lab._errors import LabError
from millrace.lab.datasets import Dataset
from millrace.lab.models import for_workers, worker_norms
from millrace.lab.shards import Shards, TrafficCount, holders_of, skew

PRECISIONS = {"float32": torch.float32, "float64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Recipe:
    """How to train, apart from the data."""

    epochs: int = 8
    batch: int = 8  # of each worker
    lr: float = 0.1  # for a batch of 256 in all
    scaling: str = "sqrt"  # of the rate, with the batch
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: float = 0.1  # of the run
    optimizer: str = "sgd"
    precision: str = "float32"
    statistics: str = "mean"  # of batch normalisation, for the test

    def scaled_lr(self, batch: int) -> float:
        power = {"linear": 1.0, "sqrt": 0.5, "none": 0.0}[self.scaling]
        return self.lr * (batch / 256) ** power


@dataclass
class Run:
    """What one training did."""

    accuracy: list = field(default_factory=list)  # of the test, after each epoch, 0 to 1
    loss: list = field(default_factory=list)  # mean of the epoch's steps
    skew: list = field(default_factory=list)  # of the workers' classes, in each epoch
    seconds: float = 0.0  # training, without tests
    updates: int = 0
    exchanged_per_epoch: float = 0.0
    stored_max: int = 0


class Processes:
    """The processes that share the workers. Without torch.distributed, this one has all."""

    def __init__(self) -> None:
        import torch.distributed as dist
        self._dist = dist if dist.is_available() and dist.is_initialized() else None
        self.rank = self._dist.get_rank() if self._dist else 0
        self.count = self._dist.get_world_size() if self._dist else 1

    def mine(self, workers: int) -> slice:
        if workers % self.count:
            raise LabError(f"{workers} workers cannot be divided evenly among {self.count} ranks: give a multiple")
        each = workers // self.count
        return slice(self.rank * each, (self.rank + 1) * each)

    def mean(self, tensors: list) -> None:
        """Replaces each by its mean over the processes, in one message."""
        if self._dist is None or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._dist.all_reduce(flat)
        flat /= self.count
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(part.view_as(tensor))

    def first(self, tensors: list) -> None:
        """Replaces each by that of the first process."""
        for tensor in tensors if self._dist else ():
            self._dist.broadcast(tensor, 0)


class Samples:
    """The dataset on a device, and its batches: normalised, and augmented the same way however the samples
    are divided among processes."""

    PADDING = 4

    def __init__(self, dataset: Dataset, device: torch.device, dtype: torch.dtype) -> None:
        self.dataset, self.device, self.dtype = dataset, device, dtype
        self.labels = dataset.train_labels.to(device)
        self.test, self.test_labels = dataset.test.to(device), dataset.test_labels.to(device)
        self.mean, self.scale = self._statistics(dataset.train)
        self.train = dataset.train.to(device)
        if dataset.augment:
            self.train = nn.functional.pad(self.train, [self.PADDING] * 4)
        self._moves: Optional[torch.Tensor] = None

    def _statistics(self, train: torch.Tensor) -> tuple:
        """Per channel, of a part of the samples."""
        if train.dtype != torch.uint8:
            return None, None
        values = train[:: max(len(train) // 2000, 1)].double() / 255
        dims = [each for each in range(values.dim()) if each != 1] if values.dim() > 2 else [0, 1]
        shape = [1, -1] + [1] * (values.dim() - 2) if values.dim() > 2 else [1, 1]
        mean, deviation = values.mean(dims), values.std(dims).clamp(min=1e-3)
        return ((255 * mean).view(shape).to(self.device, torch.float32),
                (1 / (255 * deviation)).view(shape).to(self.device, torch.float32))

    def start_epoch(self, epoch: int, seed: int) -> None:
        if self.dataset.augment:
            generator = torch.Generator().manual_seed(seed * 1000003 + epoch)
            self._moves = torch.randint(2 * (2 * self.PADDING + 1) ** 2, (len(self.train),),
                                        generator=generator).to(self.device)

    def batch(self, chosen: torch.Tensor) -> tuple:
        rows = self._augmented(chosen) if self.dataset.augment else self.train[chosen]
        return self._normal(rows), self.labels[chosen]

    def tests(self, part: slice, size: int = 2000) -> Iterator[tuple]:
        images, labels = self.test[part], self.test_labels[part]
        for begin in range(0, len(images), size):
            yield self._normal(images[begin:begin + size]), labels[begin:begin + size]

    def _normal(self, rows: torch.Tensor) -> torch.Tensor:
        rows = rows.to(self.dtype)
        return rows if self.mean is None else (rows - self.mean.to(self.dtype)) * self.scale.to(self.dtype)

    def _augmented(self, chosen: torch.Tensor) -> torch.Tensor:
        """Shifted and mirrored images, by one indexing operation."""
        moves = self._moves[chosen]  # type: ignore[index]
        span = 2 * self.PADDING + 1
        height, width = self.dataset.shape[1:]
        rows = (moves % span)[:, None] + torch.arange(height, device=self.device)
        columns = torch.arange(width, device=self.device).expand(len(chosen), width)
        mirrored = (moves // (span * span))[:, None] == 1
        columns = torch.where(mirrored, width - 1 - columns, columns) + (moves // span % span)[:, None]
        channels = torch.arange(self.dataset.shape[0], device=self.device)
        return self.train[chosen[:, None, None, None], channels[None, :, None, None],
                          rows[:, None, :, None], columns[:, None, None, :]]


def lr_share(step: int, steps: int, warmup: float) -> float:
    """The share of the full rate: rises linearly, then falls to 0 with the square of what is left."""
    rising = max(1, round(warmup * steps))
    if step < rising:
        return (step + 1) / rising
    return (1 - (step - rising) / max(steps - rising, 1)) ** 2


def make_optimizer(model: nn.Module, recipe: Recipe, lr: float) -> Any:
    if recipe.optimizer == "lars":
        try:
            from millrace import optim
        except ImportError as error:
            raise LabError(f"--optimizer lars needs millrace.optim: {error}") from None
        return optim.LARS(optim.parameter_groups(model), lr=lr, momentum=recipe.momentum,
                          weight_decay=recipe.weight_decay)
    decayed = [each for each in model.parameters() if each.dim() > 1]
    plain = [each for each in model.parameters() if each.dim() <= 1]
    return torch.optim.SGD([{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain}], lr=lr,
                           momentum=recipe.momentum, nesterov=recipe.momentum > 0)


def make_scaler(is_enabled: bool) -> Any:
    kind = getattr(torch.amp, "GradScaler", None)  # torch 2.3
    return kind("cuda", enabled=is_enabled) if kind else torch.cuda.amp.GradScaler(enabled=is_enabled)


class Trainer:
    """One model on the samples of some workers. `on_epoch(epoch, run)` is called after each epoch."""

    def __init__(self, samples: Samples, make_model: Callable, shards: Shards, recipe: Recipe, seed: int,
                 processes: Optional[Processes] = None) -> None:
        self.samples, self.shards, self.recipe, self.seed = samples, shards, recipe, seed
        self.processes = processes or Processes()
        self.mine = self.processes.mine(shards.workers)
        torch.manual_seed(seed)
        model = make_model(samples.dataset)
        self.model = for_workers(model, self.mine.stop - self.mine.start).to(samples.device, samples.dtype)
        self.norms = worker_norms(self.model)
        self.global_batch = recipe.batch * shards.workers
        self.steps = len(shards.arrangement) // self.global_batch
        self.lr = recipe.scaled_lr(self.global_batch)
        self.optimizer = make_optimizer(self.model, recipe, self.lr)
        self.scaler = make_scaler(recipe.precision == "fp16")
        self.loss = nn.CrossEntropyLoss()

    def run(self, on_epoch: Optional[Callable] = None) -> Run:
        run, traffic = Run(), TrafficCount(self.shards.workers)
        labels = self.samples.dataset.train_labels.numpy()
        for epoch in range(self.recipe.epochs):
            order = self.shards.epoch(epoch)
            traffic.add(order)
            run.skew.append(skew(labels, holders_of(order, self.shards.workers), self.shards.workers))
            begin = time.perf_counter()
            run.loss.append(self._train(epoch, order))
            run.seconds += time.perf_counter() - begin
            run.updates += self.steps
            run.accuracy.append(self.test())
            if on_epoch:
                on_epoch(epoch, run)
        moved = traffic.result()
        run.exchanged_per_epoch, run.stored_max = moved.exchanged_per_epoch, moved.stored_max
        return run

    def _train(self, epoch: int, order: numpy.ndarray) -> float:
        """Returns the mean loss of the epoch."""
        self.samples.start_epoch(epoch, self.seed)
        self.model.train()
        used = torch.from_numpy(order[:self.steps * self.global_batch])
        # A step has `batch` samples of each worker, in turns; this process has some of the columns.
        mine = used.view(self.steps, self.recipe.batch, -1)[:, :, self.mine].reshape(self.steps, -1)
        chosen = mine.to(self.samples.device)
        total = torch.zeros((), device=self.samples.device, dtype=torch.float64)
        steps = self.recipe.epochs * self.steps
        for step in range(self.steps):
            share = lr_share(epoch * self.steps + step, steps, self.recipe.warmup)
            for group in self.optimizer.param_groups:
                group["lr"] = self.lr * share
            total += self._step(*self.samples.batch(chosen[step]))
        return float(total) / self.steps

    def _step(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = self.loss(self.model(inputs), labels)
        self.scaler.scale(loss).backward()
        loss = loss.detach()
        self.processes.mean([each.grad for each in self.model.parameters() if each.grad is not None])
        self.processes.mean([loss])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def autocast(self) -> Any:
        if self.recipe.precision not in ("bf16", "fp16"):
            return nullcontext()
        return torch.autocast(self.samples.device.type, PRECISIONS[self.recipe.precision])

    @torch.no_grad()
    def test(self) -> float:
        """The share of test samples whose class is right. Each process tests a part of them."""
        self._collect_statistics()
        self.model.eval()
        right = torch.zeros(1, device=self.samples.device, dtype=torch.float64)
        with self.autocast():
            for inputs, labels in self.samples.tests(slice(self.processes.rank, None, self.processes.count)):
                right += (self.model(inputs).argmax(1) == labels).sum()
        self.processes.mean([right])
        return float(right) * self.processes.count / len(self.samples.test)

    def _collect_statistics(self) -> None:
        for norm in self.norms:
            norm.evaluates_with = tuple(each.clone() for each in norm.statistics(self.recipe.statistics))
        together = [each for norm in self.norms for each in norm.evaluates_with]
        if self.recipe.statistics == "first":
            self.processes.first(together)
        else:
            self.processes.mean(together)


def compute_dtype(precision: str) -> torch.dtype:
    """The type of the weights and the inputs. Autocast keeps both in float32."""
    return torch.float64 if precision == "float64" else torch.float32
