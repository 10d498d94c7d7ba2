"""Job: how a batch of a Python dataset is made, in a process, in a thread or by the caller."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from millrace.loader._errors import SampleError
from millrace.loader._rows import NewArray, rows_of


@dataclass(frozen=True)
class Job:
    dataset: Any
    size: int  # of the dataset, when the loader was made
    collate: Optional[Callable[[list], Any]]  # None: as torch's default_collate
    kind: str  # of a batch: "torch", "numpy" or "array"
    skips_bad_samples: bool
    then: Optional[Callable[[Any], Any]] = None  # called with every batch, where it is made
    noun: str = "the dataset"  # what is sent to workers, in messages


@dataclass(frozen=True)
class WorkerOptions:
    """Options of what makes the batches of a Python dataset, or calls the function of map=."""

    kind: str  # "process", "thread", or "none": next() does it
    count: int  # 0: chosen, and for processes tuned
    prefetch: int  # batches; 0: chosen
    memory_bytes: int  # at most for prefetched batches
    seed: int
    context: Any  # of multiprocessing, or its name
    init: Optional[Callable[[int], Any]]
    restarts: bool  # another process takes the place of one that died
    is_persistent: bool  # when all batches of an epoch are begun, processes go on with the next epoch
    gpu: Optional[int]  # to pin batches for


@dataclass
class Content:
    """A batch: what it holds, and of which samples."""

    data: Any
    kept: list  # positions of the samples that are in it
    bad: list  # a sentence for each of the others
    fetch_seconds: float
    collate_seconds: float


def make_batch(job: Job, samples: list, before_each: Callable[[int], Any],
               new: Optional[NewArray] = None, input: Any = None) -> Content:
    """`before_each` is called with the row of each sample before it is fetched. `input`: a batch of the samples
    that was read already (_map.py)."""
    began = time.monotonic()
    dataset = job.dataset if input is None else job.dataset.at(input)
    items: list = []
    kept: list = []
    bad: list = []
    rows: Any = None
    is_whole = hasattr(job.dataset, "__getitems__") and not job.skips_bad_samples
    if is_whole:
        before_each(0)
        items = list(job.dataset.__getitems__(samples))
    for row, sample in enumerate(samples):
        try:
            if is_whole:
                item = items[row]
            else:
                before_each(row)
                item = dataset[sample if input is None else row]
                if job.collate is not None:
                    items.append(item)
            if job.collate is None:
                if rows is None:
                    rows = rows_of(item, len(samples), job.kind, new)
                rows.add(len(kept), item)
            kept.append(row)
        except Exception as error:
            sentence = f"sample {sample} of the dataset: {type(error).__name__}: {error}{_advice(job, error)}"
            if not job.skips_bad_samples:
                raise SampleError(sentence) from error
            bad.append(sentence)
    fetched = time.monotonic()
    data = None
    if kept:
        data = rows.finish(len(kept)) if job.collate is None else job.collate(items)
        if job.then is not None:
            data = job.then(data)
    return Content(data, kept, bad, fetched - began, time.monotonic() - fetched)


def _advice(job: Job, error: Exception) -> str:
    if isinstance(error, AssertionError) and "daemonic processes" in str(error):
        return (". The dataset starts processes with multiprocessing, which Python forbids in a worker "
                "process: give worker='thread' or num_workers=0, or start them with subprocess")
    length = len(job.dataset)
    return "" if length == job.size else (f". The dataset had {job.size} samples when the loader was "
                                          f"made, and has {length} now: make a new DataLoader")
