"""PythonLoader: batches of a map-style Python dataset, prefetched by threads.

It has the orders, shares, states and methods of the C++ loader. Each thread makes whole batches;
at most `prefetch` batches are in progress or ready. Threads do not speed up code that holds the GIL.
Reading, decompressing and most of numpy, PIL and torch release it.
"""

import json
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

from millrace import trace
from millrace.loader._errors import SampleError
from millrace.loader._native import native


@dataclass
class PythonBatch:
    """Like a C++ batch, but with the collated samples instead of arrays."""

    epoch: int
    index: int
    samples: list
    is_real: list
    data: Any

    @property
    def row_count(self) -> int:
        return len(self.samples)


@dataclass
class PythonOptions:
    dataset: Any
    order: Any  # native.Order
    # Makes the order for another number of shards; None if the number is fixed.
    reshard: Optional[Callable[[int], Any]]
    rank: int
    world_size: int
    batch_size: int
    tail: str
    thread_count: int  # 0: next() makes the batch itself
    prefetch_batches: int
    collate: Callable[[list], Any]
    transform: Optional[Callable[[Any], Any]]
    skips_bad_samples: bool
    timeout_seconds: float


class PythonLoader:
    def __init__(self, options: PythonOptions) -> None:
        self._options = options
        self._process = os.getpid()
        self._shared = _Shared(options)
        self._threads: list = []
        self._run = _Run(options, 0, 0)
        self._finalizer = weakref.finalize(self, _Shared.close, self._shared)

    def start_epoch(self, epoch: int) -> None:
        self._start(epoch, 0)

    def next(self) -> Optional[PythonBatch]:
        self._check_process()
        run = self._run
        if run.handed >= run.share.batch_count:
            return None
        self._start_threads()
        began = time.monotonic()
        with trace.region(trace.names.BATCH_WAIT, epoch=run.epoch, step=run.handed):
            result = (self._shared.wait(run, began + self._options.timeout_seconds)
                      if self._options.thread_count > 0 else self._make_here(run))
        self._shared.stats["wait_seconds"] += time.monotonic() - began
        if isinstance(result, BaseException):
            raise result
        if result is None:
            raise TimeoutError(self._stuck_sentence(run))
        self._shared.stats["batches"] += 1
        self._shared.stats["samples"] += result.row_count
        return result

    def _make_here(self, run: "_Run") -> PythonBatch:
        if self._shared.is_closed:
            raise RuntimeError("the loader is closed")
        batch = _make(self._shared, run, run.handed)
        run.handed += 1
        return batch

    @property
    def batch_count(self) -> int:
        return self._share_of(0).batch_count

    @property
    def batches_left(self) -> int:
        return self._run.share.batch_count - self._run.handed

    def state(self) -> str:
        run = self._run
        done = run.share.done_after(run.handed)
        return native.state_text(self._options.order, run.epoch, done)

    def state_at(self, epoch: int, done: int) -> str:
        return native.state_text(self._options.order, epoch, done)

    @property
    def epoch(self) -> int:
        return self._run.epoch

    def restore(self, text: str) -> None:
        self._check_process()
        native.check_state(text)  # raises with a reason if the text is not a state
        given = json.loads(text)
        order = self._options.order
        if self._options.reshard is not None:
            order = self._options.reshard(given["shards"])  # may have been saved by another number of ranks
        own = json.loads(native.state_text(order, given["epoch"], given["done"]))
        for key, value in own.items():
            if given[key] != value:
                raise ValueError(f"the state is from another job: its {key} is {given[key]}, here it "
                                 f"is {value}. Use the dataset, seed and shuffle it was saved "
                                 "with")
        self._options.order = order
        self._start(given["epoch"], given["done"])

    def stats(self) -> dict:
        return dict(self._shared.stats, threads=len(self._threads),
                    prefetch=self._options.prefetch_batches)

    def close(self) -> None:
        self._finalizer()

    def _start(self, epoch: int, done: int) -> None:
        self._check_process()
        self._run = _Run(self._options, epoch, done)
        self._shared.begin(self._run)

    def _start_threads(self) -> None:
        while len(self._threads) < self._options.thread_count:
            # A daemon, so that a dataset that hangs cannot keep the program from exiting.
            thread = threading.Thread(target=_work, args=(self._shared,), daemon=True,
                                      name=f"millrace-{len(self._threads)}")
            self._threads.append(thread)
            thread.start()

    def _share_of(self, done: int) -> Any:
        return _Run(self._options, 0, done).share

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(f"this process was forked from {self._process}, but the loader's "
                               "threads stayed there. Make the DataLoader in the process that "
                               "iterates over it")

    def _stuck_sentence(self, run: "_Run") -> str:
        sample = run.busy.get(run.handed)
        what = f"sample {sample}" if sample is not None else f"batch {run.handed}"
        return (f"{what} of the dataset was not ready within {self._options.timeout_seconds:g} s; "
                "check what __getitem__ waits for, or give a larger timeout=")


@dataclass
class _Run:
    """One pass that starts at position `done`: the progress of its batches."""

    options: PythonOptions
    epoch: int
    done: int
    share: Any = None
    taken: int = 0   # batches that threads have started
    handed: int = 0  # batches that next() has returned
    ready: dict = field(default_factory=dict)  # by index: a PythonBatch or an exception
    busy: dict = field(default_factory=dict)   # by index: the sample being fetched

    def __post_init__(self) -> None:
        options = self.options
        self.share = native.Share(options.order.size, self.done, options.rank, options.world_size,
                                  options.batch_size, options.tail)

    def has_work(self) -> bool:
        return self.taken < min(self.share.batch_count, self.handed + self.options.prefetch_batches)


class _Shared:
    """State shared with the threads. They do not hold the loader, which could then never be freed."""

    def __init__(self, options: PythonOptions) -> None:
        self.options = options
        self.process = os.getpid()
        self.changed = threading.Condition()
        self.run: Optional[_Run] = None
        self.is_closed = False
        self.stats: dict[str, Any] = {"batches": 0, "samples": 0, "bytes_read": 0,
                                      "bad_samples": 0, "first_bad_sample": "", "read_seconds": 0.0,
                                      "decode_seconds": 0.0, "wait_seconds": 0.0,
                                      "blocked_seconds": 0.0}

    def begin(self, run: _Run) -> None:
        with self.changed:
            if self.is_closed:
                raise RuntimeError("the loader is closed")
            self.run = run
            self.changed.notify_all()

    def close(self) -> None:
        # In a forked child, a thread that stayed in the parent may hold the lock forever.
        if os.getpid() != self.process:
            return
        with self.changed:
            self.is_closed = True
            self.run = None
            self.changed.notify_all()

    def wait(self, run: _Run, deadline: float) -> Any:
        """The next batch of the run, or its exception; None after the deadline."""
        with self.changed:
            if self.run is not run:
                self.run = run
                self.changed.notify_all()
            while run.handed not in run.ready:
                if self.is_closed:
                    return RuntimeError("the loader is closed")
                # Check here and not right after the wait: a batch may have arrived while it
                # reacquired the lock.
                if time.monotonic() > deadline:
                    return None
                # In slices: on some platforms Ctrl-C cannot interrupt an unlimited wait.
                self.changed.wait(0.2)
            result = run.ready[run.handed]
            if not isinstance(result, BaseException):
                del run.ready[run.handed]
                run.handed += 1
                self.changed.notify_all()
            return result

    def take_work(self) -> Optional[tuple]:
        """A run and the index of a batch to make; None after close()."""
        with self.changed:
            began = time.monotonic()
            while not self.is_closed and (self.run is None or not self.run.has_work()):
                self.changed.wait()
            self.stats["blocked_seconds"] += time.monotonic() - began
            if self.is_closed or self.run is None:
                return None
            index = self.run.taken
            self.run.taken += 1
            return self.run, index

    def finish(self, run: _Run, index: int, result: Any) -> None:
        with self.changed:
            run.busy.pop(index, None)
            run.ready[index] = result
            self.changed.notify_all()

    def count_bad(self, error: BaseException) -> None:
        with self.changed:
            self.stats["bad_samples"] += 1
            self.stats["first_bad_sample"] = self.stats["first_bad_sample"] or str(error)


def _work(shared: _Shared) -> None:
    while (work := shared.take_work()) is not None:
        run, index = work
        try:
            result: Any = _make(shared, run, index)
        except BaseException as error:  # the consumer raises it
            result = error
        shared.finish(run, index, result)
        del work, run, result  # do not keep a batch alive while the thread waits


def _make(shared: _Shared, run: _Run, index: int) -> PythonBatch:
    options = run.options
    samples, is_real = run.share.samples(options.order, run.epoch, index)
    began = time.monotonic()
    with trace.region(trace.names.FETCH, epoch=run.epoch, step=index):
        items, kept = _fetch(shared, run, index, samples)
        fetched = time.monotonic()
        data = options.collate(items) if items else None
        if options.transform is not None and items:
            data = options.transform(data)
    with shared.changed:
        shared.stats["read_seconds"] += fetched - began
        shared.stats["decode_seconds"] += time.monotonic() - fetched
    return PythonBatch(run.epoch, index, [samples[row] for row in kept],
                       [is_real[row] for row in kept], data)


def _fetch(shared: _Shared, run: _Run, index: int, samples: list) -> tuple:
    dataset = run.options.dataset
    if hasattr(dataset, "__getitems__") and not run.options.skips_bad_samples:
        run.busy[index] = samples[0]
        return list(dataset.__getitems__(samples)), range(len(samples))
    items, kept = [], []
    for row, sample in enumerate(samples):
        run.busy[index] = sample
        try:
            items.append(dataset[sample])
            kept.append(row)
        except Exception as error:
            told = SampleError(f"sample {sample} of the dataset: {type(error).__name__}: {error}")
            if not run.options.skips_bad_samples:
                raise told from error
            shared.count_bad(told)
    return items, kept
