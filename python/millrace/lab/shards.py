"""Which worker trains with which samples in which epoch, what moves, and how skewed the shards are.

The answers come from the loader's own order (src/loader/order): the lab has no shuffling of its own.
"""

import math
from dataclasses import dataclass
from typing import Optional

import numpy

from millrace.lab._errors import LabError
from millrace.loader._native import native

# A permutation of an epoch that no run reaches decides what is in random shards.
_ARRANGING_EPOCH = 1 << 40
_GRID = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
# A run recovers from skewed shards if at its middle a sample's worker says almost nothing about its class:
# on Fashion-MNIST, fractions that pass lost no accuracy, and those that fail up to three points
# (docs/training.md).
EXCESS_MAX = 0.05


@dataclass(frozen=True)
class Shards:
    """The samples of `workers` workers, of which a fraction is exchanged after every epoch."""

    arrangement: numpy.ndarray  # the dataset's sample at each place; shards are runs of places
    workers: int
    fraction: float
    seed: int

    @property
    def shuffle(self) -> str:
        """As the loader calls it. All exchanged is global shuffling, none local."""
        return {0.0: "local", 1.0: "global"}.get(self.fraction, "partial")

    def epoch(self, epoch: int) -> numpy.ndarray:
        """The samples of the epoch in the order of positions: position p is of worker p % workers."""
        return self.arrangement[self.places(epoch)]

    def places(self, epoch: int) -> numpy.ndarray:
        count = len(self.arrangement)
        order = native.Order(shuffle=self.shuffle, sample_count=count, seed=self.seed, shard_count=self.workers,
                             fraction=self.fraction if self.shuffle == "partial" else 0.0)
        # One batch of one rank that has all positions. tests compare it with the share of each rank.
        share = native.Share(count, 0, 0, 1, count, "pad")
        return numpy.asarray(share.samples(order, epoch, 0)[0], dtype=numpy.int64)

    def holders(self, epoch: int) -> numpy.ndarray:
        """The worker that has each sample in the epoch."""
        return holders_of(self.epoch(epoch), self.workers)


def holders_of(samples: numpy.ndarray, workers: int) -> numpy.ndarray:
    """The worker that has each sample, given the samples in the order of positions."""
    holders = numpy.empty(len(samples), dtype=numpy.int64)
    holders[samples] = numpy.arange(len(samples)) % workers
    return holders


def arrange(labels: numpy.ndarray, arrangement: str, seed: int) -> numpy.ndarray:
    if arrangement == "sorted":
        return numpy.argsort(labels, kind="stable")
    order = native.Order(shuffle="global", sample_count=len(labels), seed=seed)
    share = native.Share(len(labels), 0, 0, 1, len(labels), "pad")
    return numpy.asarray(share.samples(order, _ARRANGING_EPOCH, 0)[0], dtype=numpy.int64)


def check(sample_count: int, workers: int, batch: int) -> None:
    """Raises unless the workers can train."""
    if workers > sample_count:
        raise LabError(f"--workers: {workers} workers are more than the {sample_count} training samples, so some "
                       "workers would have none: give fewer workers")
    if batch < 2:
        raise LabError(f"a batch of {batch} per worker has no variance to normalise with: give --batch 2 or more, or "
                       "a larger --global-batch")
    if sample_count // workers < batch:
        raise LabError(f"--workers: each of {workers} workers has {sample_count // workers} of the {sample_count} "
                       f"samples, fewer than its batch of {batch}: give fewer workers or a smaller --batch")


@dataclass
class Traffic:
    """What moves between workers. Counted from the orders, not estimated."""

    exchanged_per_epoch: float = 0.0  # samples, of all workers together
    stored_max: int = 0  # the most samples that a worker holds, with those that arrive for the next epoch


class TrafficCount:
    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._last: Optional[numpy.ndarray] = None
        self._moved: list = []
        self._stored_max = 0

    def add(self, samples: numpy.ndarray) -> None:
        """The samples of the next epoch, in the order of positions."""
        holders = holders_of(samples, self._workers)
        held = numpy.bincount(holders, minlength=self._workers)
        if self._last is not None:
            moves = holders != self._last
            arriving = numpy.bincount(holders[moves], minlength=self._workers)
            stored = numpy.bincount(self._last, minlength=self._workers) + arriving
            self._moved.append(int(moves.sum()))
            self._stored_max = max(self._stored_max, int(stored.max()))
        self._stored_max = max(self._stored_max, int(held.max()))
        self._last = holders

    def result(self) -> Traffic:
        moved = sum(self._moved) / len(self._moved) if self._moved else 0.0
        return Traffic(moved, self._stored_max)


# ---- skew ---------------------------------------------------------------------------------------


def skew(labels: numpy.ndarray, holders: numpy.ndarray, workers: int) -> float:
    """The mean over workers of the total variation distance between a worker's classes and all classes:
    0 if every worker has the classes of the whole, near 1 if each has one of many."""
    classes = int(labels.max()) + 1
    counts = numpy.bincount(holders * classes + labels, minlength=workers * classes).reshape(workers, classes)
    shares = counts / counts.sum(1, keepdims=True)
    whole = numpy.bincount(labels, minlength=classes) / len(labels)
    return float(numpy.abs(shares - whole).sum(1).mean() / 2)


def random_skew(labels: numpy.ndarray, workers: int) -> float:
    """The skew of shards that are drawn at random: not 0, because few samples never match exactly.
    A share p of n samples deviates by sqrt(2 p (1 - p) / (pi n)) on average, as a normal deviate does."""
    whole = numpy.bincount(labels) / len(labels)
    held = len(labels) / workers
    left = 1 - 1 / workers  # drawn without replacement
    return float(sum(math.sqrt(2 * share * (1 - share) * left / (math.pi * held)) for share in whole) / 2)


@dataclass
class Advice:
    workers: int
    first: float  # skew of the shards before any exchange
    random: float  # skew of random shards
    fraction: Optional[float]  # the smallest that is likely to be enough
    middle: float  # skew with it at the middle of the run

    def sentence(self, shards: str, has_batch_norm: bool) -> str:
        start = (f"{self.workers} workers, {shards} shards: class skew {self.first:.2f} (random shards of this size: "
                 f"{self.random:.2f}); ")
        if self.fraction == 0:
            return start + "the shards are as mixed as random ones, so local shuffling (Q = 0) is likely to be enough."
        if not has_batch_norm:
            return start + ("the model has no batch normalisation, which is what skewed shards harm most, so a small "
                            "fraction or none may be enough.")
        return start + (f"Q = {self.fraction:g} lowers it to {self.middle:.2f} by the middle of the run, so Q = "
                        f"{self.fraction:g} is likely to be enough.")


def advise(labels: numpy.ndarray, arrangement: numpy.ndarray, workers: int, epochs: int, seed: int,
           fractions: tuple = ()) -> Advice:
    """The smallest fraction of a grid, and of those given, whose skew is near random by the middle of the run."""
    random = random_skew(labels, workers)
    measured = {}

    def after(fraction: float, epoch: int) -> float:
        shards = Shards(arrangement, workers, fraction, seed)
        return skew(labels, shards.holders(epoch), workers)

    first = after(0.0, 0)
    for fraction in sorted({*_GRID, *fractions}):
        measured[fraction] = after(fraction, max(epochs // 2, 1))
        if measured[fraction] <= random * 1.2 + EXCESS_MAX:
            return Advice(workers, first, random, fraction, measured[fraction])
    return Advice(workers, first, random, 1.0, measured[1.0])
