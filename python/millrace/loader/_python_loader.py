"""PythonLoader: batches of a map-style Python dataset, made ahead by processes or threads.

It has the orders, shares, states and methods of the C++ loader. At most `prefetch` batches are in
progress or ready.
"""

import json
import os
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

from millrace import trace
from millrace.loader._job import Content, Job, make_batch
from millrace.loader._loader_options import LoaderOptions
from millrace.loader._native import native
from millrace.loader._python_workers import starter_of
from millrace.loader._seeds import kept_generators, seed_all


@dataclass
class PythonBatch:
    """Like a C++ batch, but with the collated samples instead of arrays."""

    epoch: int
    index: int
    samples: list
    is_real: list
    content: Content

    @property
    def row_count(self) -> int:
        return len(self.samples)

    @property
    def data(self) -> Any:
        return self.content.data


@dataclass
class PythonOptions:
    loader: LoaderOptions
    job: Job
    order: Any  # native.Order
    # Makes the order for another number of shards; None if the number is fixed.
    reshard: Optional[Callable[[int], Any]]
    rank: int
    world_size: int
    batch_size: int
    tail: str
    # Starts the workers; None: next() makes the batch itself.
    start_workers: Optional[Callable[[], Any]]


def open_python(options: LoaderOptions, order: dict, **of_rank: Any) -> "PythonLoader":
    """order: the options of native.Order; of_rank: rank, world_size, batch_size and tail."""
    job = options.job(options.asked.dataset, len(options.asked.dataset))
    made, reshard = _order_of(order, job.size, of_rank["world_size"])
    return PythonLoader(PythonOptions(options, job, made, reshard, start_workers=starter_of(options.workers, job),
                                      **of_rank))


def _order_of(options: dict, sample_count: int, world_size: int) -> tuple:
    """The order, and a function that makes it for another number of shards (None if it is fixed)."""
    fraction = options["fraction"] if options["shuffle"] == "partial" else 0.0  # states name it

    def of_shards(count: int) -> Any:
        return native.Order(**{**options, "sample_count": sample_count, "shard_count": count, "fraction": fraction})

    if options["shuffle"] not in ("local", "partial"):
        return of_shards(1), None
    if options["shard_count"] != 0:
        return of_shards(options["shard_count"]), None
    return of_shards(world_size), of_shards


class PythonLoader:
    def __init__(self, options: Any) -> None:
        self._options = options
        self._process = os.getpid()
        self._is_closed = False
        self._workers: list = []  # at most one: Processes or Threads
        self._run = self._new_run(0, 0)
        self._stats: dict[str, Any] = {"batches": 0, "samples": 0, "bytes_read": 0, "bad_samples": 0,
                                       "first_bad_sample": "", "read_seconds": 0.0,
                                       "decode_seconds": 0.0, "wait_seconds": 0.0}
        self._work_began = 0.0
        self._finalizer = weakref.finalize(self, _close, self._workers)

    def start_epoch(self, epoch: int) -> None:
        self._start(epoch, 0)

    def set_batch_size(self, batch_size: int) -> None:
        """There is no position afterwards: call start_epoch() or restore()."""
        self._check()
        self._options.batch_size = batch_size

    def next(self) -> Optional[PythonBatch]:
        self._check()
        run = self._run
        if run.handed >= run.batch_count:
            return None
        began = time.monotonic()
        with trace.region(trace.names.BATCH_WAIT, epoch=run.epoch, step=run.handed):
            if self._options.start_workers is None:
                batch = _make_here(self._options.job, run)
            else:
                run = self._begin()
                batch = self._workers[0].take(run, began + self._options.loader.timeout_seconds)
        self._stats["wait_seconds"] += time.monotonic() - began
        if isinstance(batch, BaseException):
            raise batch
        if batch is None:
            raise TimeoutError(self._stuck_sentence(run))
        self._count(batch)
        return batch

    @property
    def batch_count(self) -> int:
        return Run(self._options, 0, 0).batch_count

    @property
    def batches_left(self) -> int:
        return self._run.batch_count - self._run.handed

    def samples_of_epoch(self, epoch: int, number: int) -> tuple:
        """Those of a batch of a whole epoch, as Share.samples()."""
        options = self._options
        share = native.Share(options.order.size, 0, options.rank, options.world_size, options.batch_size,
                             options.tail)
        return share.samples(options.order, epoch, number)

    def state(self) -> str:
        run = self._run
        return self.state_at(run.epoch, run.share.done_after(run.handed))

    def state_at(self, epoch: int, done: int) -> str:
        return native.state_text(self._options.order, epoch, done)

    @property
    def epoch(self) -> int:
        return self._run.epoch

    def restore(self, text: str) -> None:
        self._check()
        native.check_state(text)  # raises with a reason if the text is not a state
        given = json.loads(text)
        order = self._options.order
        if self._options.reshard is not None:
            order = self._options.reshard(given["shards"])  # may have been saved by another number of ranks
        own = json.loads(native.state_text(order, given["epoch"], given["done"]))
        for key, value in own.items():
            if key == "drawn_from" and given.get(key, value) != value:
                raise ValueError("the state is from another job: its weights, its parts or its indices of "
                                 "the epoch differ. Use those that it was saved with")
            if given.get(key, value) != value:
                raise ValueError(f"the state is from another job: its {key} is {given[key]}, here it "
                                 f"is {value}. Use the dataset, seed and shuffle it was saved "
                                 "with")
        self._options.order = order
        self._start(given["epoch"], given["done"])

    def stats(self) -> dict:
        count = self._workers[0].count if self._workers else 0
        prefetch = self._workers[0].prefetch if self._workers else 0
        kind = self._workers[0].kind if self._workers else "thread"
        busy = self._stats["read_seconds"] + self._stats["decode_seconds"]
        worked = count * (time.monotonic() - self._work_began)
        return dict(self._stats, threads=count, prefetch=prefetch, worker=kind,
                    blocked_seconds=max(0.0, worked - busy))

    def close(self) -> None:
        self._is_closed = True
        self._finalizer()

    def _start(self, epoch: int, done: int) -> None:
        self._check()
        self._run = self._new_run(epoch, done)
        if not self._options.loader.workers.is_persistent:
            _close(self._workers)

    def _new_run(self, epoch: int, done: int) -> Any:
        return Run(self._options, epoch, done)

    def _begin(self) -> Any:
        if not self._workers and self._options.start_workers is not None:
            self._workers.append(self._options.start_workers())
            self._work_began = time.monotonic()
        if not self._run.is_begun:
            self._run = self._workers[0].begin(self._run)
            self._run.is_begun = True
        return self._run

    def _count(self, batch: PythonBatch) -> None:
        stats, content = self._stats, batch.content
        stats["batches"] += 1
        stats["samples"] += batch.row_count
        stats["read_seconds"] += content.fetch_seconds
        stats["decode_seconds"] += content.collate_seconds
        stats["bad_samples"] += len(content.bad)
        stats["first_bad_sample"] = stats["first_bad_sample"] or next(iter(content.bad), "")

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(f"this process was forked from {self._process}, but the loader's "
                               "workers belong to that one. Make the DataLoader in the process that "
                               "iterates over it")
        if self._is_closed:
            raise RuntimeError("the loader is closed")

    def _stuck_sentence(self, run: "Run") -> str:
        task = run.busy.get(run.handed)
        what = f"sample {task.at}" if task is not None and task.at is not None else f"batch {run.handed}"
        return (f"{what} of the dataset was not ready within {self._options.loader.timeout_seconds:g} s; "
                "check what __getitem__ waits for, or give a larger timeout=")


@dataclass
class Task:
    """A batch in progress."""

    samples: list
    is_real: list
    seeds: Optional[list] = None  # of each row; None: that of the run
    at: Optional[int] = None  # the sample being fetched
    input: Any = None  # what was read of it already (_map.py)


@dataclass
class Run:
    """One pass that starts at position `done`: the progress of its batches."""

    options: PythonOptions
    epoch: int
    done: int
    order: Any = None
    share: Any = None
    batch_size: int = 0
    is_begun: bool = False
    taken: int = 0   # batches that workers have started
    handed: int = 0  # batches that next() has returned
    ready: dict = field(default_factory=dict)  # by index: a PythonBatch or an exception
    busy: dict = field(default_factory=dict)   # by index: a Task
    input_file: Optional[int] = None  # it needs no input: its batches can be started at any time
    input_bytes: int = 0  # of a batch
    input_wait_seconds: float = 0.0

    def __post_init__(self) -> None:
        options = self.options
        self.order = options.order
        self.batch_size = options.batch_size
        self.share = native.Share(self.order.size, self.done, options.rank, options.world_size,
                                  options.batch_size, options.tail)

    def following(self) -> Optional["Run"]:
        """The next epoch, if all batches of this one are begun and it is not the last."""
        options, epoch = self.options.loader, self.epoch + 1
        lists = options.lists
        is_known = epoch != options.epoch_count and (lists is None or lists.drawing.knows(epoch))
        if not is_known or self.taken < self.batch_count:
            return None
        return Run(self.options, self.epoch + 1, 0)

    def is_same_as(self, other: "Run") -> bool:
        return (self.order is other.order and self.epoch == other.epoch
                and self.done == other.done and self.batch_size == other.batch_size)

    @property
    def batch_count(self) -> int:
        return self.share.batch_count

    @property
    def in_progress(self) -> int:
        return self.taken - self.handed

    def feed(self, prefetch: int, waits: bool) -> None:
        """See MapRun."""

    def lacks_input(self, worker_count: int) -> bool:
        return False

    def has_work(self, prefetch: int) -> bool:
        return self.taken < min(self.share.batch_count, self.handed + prefetch)

    def start_batch(self) -> int:
        """The index of the next batch; `busy` has its task."""
        index = self.taken
        self.busy[index] = Task(*self.share.samples(self.order, self.epoch, index))
        self.taken += 1
        return index

    def start_again(self, index: int) -> None:
        pass

    def finish_batch(self, index: int, content: Content) -> PythonBatch:
        task = self.busy.pop(index)
        return PythonBatch(self.epoch, index, [task.samples[row] for row in content.kept],
                           [task.is_real[row] for row in content.kept], content)


def _make_here(job: Job, run: Any) -> Any:
    """The next batch, or its exception."""
    index = run.handed
    run.feed(1, waits=True)
    if index not in run.ready:
        if run.has_work(1):
            run.start_batch()
        else:  # the last try raised
            run.start_again(index)
        task = run.busy[index]
        seeds = task.seeds or [run.options.loader.workers.seed] * len(task.samples)
        with trace.region(trace.names.FETCH, epoch=run.epoch, step=index), kept_generators():
            content = make_batch(job, task.samples,
                                 lambda row: seed_all(seeds[row], run.epoch, task.samples[row]),
                                 input=task.input)
        run.ready[index] = run.finish_batch(index, content)
    result = run.ready[index]
    if not isinstance(result, BaseException):
        del run.ready[index]
        run.handed += 1
    return result


def _close(workers: list) -> None:
    for each in workers:
        each.close()
    workers.clear()
