"""Orders that draw samples: with weights, evenly by class, from a mixture of datasets, or from a list.

They are values of DataLoader's `shuffle`. Unlike the others, they may visit a sample several times in an
epoch or never, and an epoch may have any number of samples.
"""

import operator
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from millrace.loader._native import native
from millrace.loader._options import Partial, Shuffle, natural, positive, shuffle_of
from millrace.loader._torch_options import is_subset


@dataclass(frozen=True, eq=False)
class Weighted:
    """Draws samples with weights, like torch's WeightedRandomSampler.

        shuffle=millrace.Weighted(weights, samples=100_000)

    weights: one number for each sample, not negative; they need not sum to 1. None: all equal.
    samples: the number of samples in an epoch, of all ranks together; by default as many as the dataset
        has.
    replacement: whether a sample may be drawn more than once in an epoch.
    """

    weights: Optional[Iterable[float]] = None
    samples: Optional[int] = None
    replacement: bool = True

    def __post_init__(self) -> None:
        _check_samples("Weighted", self.samples)

    def _drawn(self, dataset: Any, seed: int) -> "Drawn":
        count = len(dataset)
        weights = None if self.weights is None else _numbers("Weighted.weights", self.weights, "d")
        if weights is not None and len(weights) != count:
            raise ValueError(f"Weighted.weights has {len(weights)} numbers, but the dataset has {count} "
                             "samples: give one for each sample")
        return Drawn("weighted", count if self.samples is None else self.samples,
                     native.Drawing.weighted(weights, self.replacement))


@dataclass(frozen=True, eq=False)
class Balanced:
    """Draws equally many samples of every class.

        shuffle=millrace.Balanced()

    No sample of a class comes again before all of the class were drawn, so a small class repeats its
    samples and a large one needs several epochs.

    labels: the class of each sample; by default those of the dataset.
    samples: the number of samples in an epoch, of all ranks together; by default as many as the dataset
        has.
    """

    labels: Optional[Iterable[Any]] = None
    samples: Optional[int] = None

    def __post_init__(self) -> None:
        _check_samples("Balanced", self.samples)

    def _drawn(self, dataset: Any, seed: int) -> "Drawn":
        labels = _labels_of(dataset) if self.labels is None else _listed(self.labels)
        if len(labels) != len(dataset):
            raise ValueError(f"Balanced.labels has {len(labels)} classes, but the dataset has "
                             f"{len(dataset)} samples: give one for each sample")
        by_class: dict = {}
        for sample, label in enumerate(labels):
            by_class.setdefault(label, []).append(sample)
        count = len(labels) if self.samples is None else self.samples
        if not by_class:
            raise ValueError("Balanced: the dataset has no samples")
        if count < len(by_class):
            raise ValueError(f"Balanced.samples={count} is less than one sample for each of the "
                             f"{len(by_class)} classes")
        begins, members = [0], array("Q")
        for samples in by_class.values():
            members.extend(samples)
            begins.append(len(members))
        return Drawn("mixture", count,
                     native.Drawing.mixture([1.0] * len(by_class), begins, members))


@dataclass(frozen=True, eq=False)
class Mixture:
    """Draws from several datasets in given proportions.

        millrace.DataLoader(millrace.Concat([web, books]), shuffle=millrace.Mixture([0.7, 0.3]))

    The dataset is a millrace.Concat or torch's ConcatDataset. Every epoch has the same number of samples
    of each part, and no sample of a part comes again before all of the part were drawn.

    proportions: of each part; they sum to 1.
    samples: the number of samples in an epoch, of all ranks together; by default as many as the dataset
        has.
    """

    proportions: Sequence[float]
    samples: Optional[int] = None

    def __post_init__(self) -> None:
        _check_samples("Mixture", self.samples)
        proportions = list(_numbers("Mixture.proportions", self.proportions, "d"))
        for part, proportion in enumerate(proportions):
            if not proportion > 0:
                raise ValueError(f"Mixture.proportions[{part}] is {proportion}: give a positive number, or "
                                 "leave the dataset out")
        if not abs(sum(proportions) - 1) < 1e-6:
            raise ValueError(f"Mixture.proportions sum to {sum(proportions):g}, not to 1")

    def _drawn(self, dataset: Any, seed: int) -> "Drawn":
        proportions = list(_numbers("Mixture.proportions", self.proportions, "d"))
        ends = _part_ends(dataset, len(proportions))
        count = len(dataset) if self.samples is None else self.samples
        return Drawn("mixture", count, native.Drawing.mixture(proportions, [0, *ends], None))


@dataclass(frozen=True, eq=False)
class Listed:
    """Visits the samples that a function returns for each epoch.

        def hardest_first(seed, epoch): ...    # a list, array or tensor of indices
        shuffle=millrace.Listed(hardest_first)

    function: called with (seed, epoch). Equal arguments must give equal results, on all ranks: a resumed
        job calls it again. It returns the order of the whole job; ranks take turns. It runs in the
        process and thread that iterates, when an epoch begins; that of the next epoch is called then
        too, so that the loader can prefetch.
    samples: the number of indices of every epoch; by default as many as epoch 0 has.
    """

    function: Callable[[int, int], Iterable[int]]
    samples: Optional[int] = None

    def __post_init__(self) -> None:
        _check_samples("Listed", self.samples)
        if not callable(self.function):
            raise TypeError(f"Listed.function={self.function!r}: give a function of (seed, epoch) that "
                            "returns indices")

    def _drawn(self, dataset: Any, seed: int) -> "Drawn":
        first = None if self.samples is not None else self._indices(seed, 0)
        count = len(first) if first is not None else self.samples
        drawing = native.Drawing.listed(len(dataset), count)
        if first is not None:
            drawing.put(0, first)
        return Drawn("listed", count, drawing, Lists(drawing, lambda epoch: self._indices(seed, epoch)))

    def _indices(self, seed: int, epoch: int) -> array:
        try:
            indices = self.function(seed, epoch)
        except Exception as error:
            raise RuntimeError(f"shuffle: the function of millrace.Listed failed for epoch {epoch}: "
                               f"{type(error).__name__}: {error}") from error
        return _numbers(f"shuffle: what the function of millrace.Listed returned for epoch {epoch}",
                        indices, "q")


AnyShuffle = Union[Shuffle, Weighted, Balanced, Mixture, Listed]


@dataclass(frozen=True)
class Lists:
    """The lists of a Listed order, computed when they are needed."""

    drawing: Any
    indices: Callable[[int], array]

    def know(self, epoch: int) -> None:
        if not self.drawing.knows(epoch):
            self.drawing.put(epoch, self.indices(epoch))

    def try_to_know(self, epoch: int) -> None:
        """For an epoch that may never begin. If it does, an error is raised then."""
        try:
            self.know(epoch)
        except Exception:
            pass


@dataclass(frozen=True)
class Drawn:
    """What to draw from, as C++ takes it."""

    shuffle: str
    position_count: int = 0
    drawing: Any = None
    lists: Optional[Lists] = None


@dataclass(frozen=True)
class ChosenOrder:
    """Any value of `shuffle`, for a dataset. What a shuffle does not have is the default."""

    seed: int
    partial: Partial
    drawn: Drawn  # of a permutation: only its name

    def options(self, shard_count: int) -> dict:
        """Those of the C++ order."""
        return {"shuffle": self.drawn.shuffle, "seed": self.seed, "shard_count": shard_count,
                "fraction": float(self.partial.fraction), "position_count": self.drawn.position_count,
                "drawing": self.drawn.drawing}


def chosen_order(shuffle: AnyShuffle, dataset: Any, seed: int) -> ChosenOrder:
    seed = natural("seed", seed)
    if isinstance(shuffle, (Weighted, Balanced, Mixture, Listed)):
        return ChosenOrder(seed, Partial(), shuffle._drawn(dataset, seed))
    name, partial = shuffle_of(shuffle)
    return ChosenOrder(seed, partial, Drawn(name))


def _check_samples(owner: str, samples: Optional[int]) -> None:
    if samples is not None:
        positive(f"{owner}.samples", samples)


def _listed(values: Any) -> list:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _numbers(what: str, values: Any, code: str) -> array:
    """As an array of doubles ("d") or integers ("q"). `what` names them in errors."""
    kind = "numbers" if code == "d" else "integers"
    try:
        listed = _listed(values)
    except TypeError:
        raise TypeError(f"{what} is a {type(values).__name__}: expected a list, array or tensor of "
                        f"{kind}") from None
    try:
        return array(code, listed)
    except (TypeError, OverflowError):
        position, wrong = next((i, each) for i, each in enumerate(listed) if not _fits(each, code))
        raise TypeError(f"{what}: {wrong!r} at position {position} is not one of the {kind} expected "
                        "there") from None


def _fits(value: Any, code: str) -> bool:
    try:
        array(code, [value])
    except (TypeError, OverflowError):
        return False
    return True


def _part_ends(dataset: Any, count: int) -> list:
    if count == 1:
        return [len(dataset)]
    ends = getattr(dataset, "cumulative_sizes", None)
    if ends is None:
        raise TypeError(f"Mixture needs a dataset of several parts, but {type(dataset).__name__} has one: "
                        "give millrace.Concat([...]), or torch's ConcatDataset of Python datasets")
    if len(ends) != count:
        raise ValueError(f"Mixture has {count} proportions, but the dataset has {len(ends)} parts: give "
                         "one for each part")
    begins = [0, *ends]
    for part in range(count):
        if begins[part] == begins[part + 1]:
            raise ValueError(f"Mixture: part {part} of the dataset has no samples: leave it out")
    return [operator.index(end) for end in ends]


def _labels_of(dataset: Any) -> list:
    """The class of each sample, without reading the samples."""
    if is_subset(dataset):
        labels = _labels_of(dataset.dataset)
        return [labels[index] for index in dataset.indices]
    source = getattr(dataset, "_source", None)
    if source is not None and source.has_labels:
        labels = source.labels().tolist()
        if -1 in labels:
            raise ValueError(f"Balanced: {source.name(labels.index(-1))} has no class: give labels=")
        return labels
    if hasattr(dataset, "datasets") and hasattr(dataset, "cumulative_sizes"):
        return [label for part in dataset.datasets for label in _labels_of(part)]
    for name in ("targets", "labels"):
        labels = getattr(dataset, name, None)
        if labels is not None and not callable(labels):
            return _listed(labels)
    raise ValueError(f"Balanced needs the class of every sample, which {type(dataset).__name__} does not "
                     "have in `targets` or `labels`: give millrace.Balanced(labels)")
