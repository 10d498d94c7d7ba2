"""Processes: makes batches of a Python dataset in worker processes.

The consumer writes tasks into a pipe that all workers read; whoever is free takes the next. A task names
a slot of shared memory (_slots.py) that holds the indices of the samples. The worker leaves the batch in
a slot of its own and says so in a second pipe. All records of both pipes have 64 bytes, so each is written
and read whole without a lock, and a worker that is killed takes only its own task with it.

No thread of ours runs in the training process: it hands out tasks and collects batches while it waits
for one. Workers end when the process that made them does, however it ends.
"""

import collections
import itertools
import multiprocessing.process
import os
import pickle
import select
import signal
import time
import weakref
from array import array
from dataclasses import dataclass
from typing import Any, Callable, Optional

from millrace.loader import _slots
from millrace.loader._errors import SampleError
from millrace.loader._job import Content, Job, WorkerOptions
from millrace.loader._pinned import Pinning
from millrace.loader._worker import DONE, TASK, Setup, SharedFile, work

_TASKS_MAX = 1000  # as many records fit into a pipe
_DEATHS_MAX = 10  # without a batch in between
_WAIT_SHARE_MAX = 0.05  # of the time: if training waits longer, another worker is started


class Processes:
    kind = "process"

    def __init__(self, job: Job, options: WorkerOptions, count_max: int, pinning: Optional[Pinning]) -> None:
        """count_max: of workers, if their number is tuned: until the training does not wait for them."""
        self._job = job
        self._options = options
        self._count_max = count_max
        self._pinning = pinning
        self._file = _slots.create_file()
        task_reads, self._task_writes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._done_reads, done_writes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._shared = tuple(SharedFile(file) for file in (self._file, task_reads, done_writes))
        self._task_reads = task_reads
        self._status = _slots.Status(self._file)
        self._releases = Releases(self._status.release, self._pinning and self._pinning.new_fence)
        self._slots: dict = {}  # by number, those of the workers
        self._task_slots = 0
        self._free: list = []  # slots for tasks
        self._given: dict = {}  # by ticket: a _Given, until its result is here
        self._tickets = itertools.count(1)
        self._run: Any = None
        self._next_run: Any = None  # the epoch after it, if it is begun already
        self._batch_bytes = 0
        self._has_lost_task = False
        self._failure: Optional[BaseException] = None  # a task is lost for good
        self._deaths = 0  # of workers, since the last batch
        self._fatal_samples: set = set()  # that a worker was fetching when it died
        self._wait = _Wait()
        self._workers: list = []
        _all_workers.add(self)
        self._poll = select.poll()
        self._poll.register(self._done_reads, select.POLLIN)
        self._finalizer = weakref.finalize(
            self, _close, os.getpid(), self._workers,
            (self._file, task_reads, self._task_writes, self._done_reads, done_writes))

    @property
    def count(self) -> int:
        return len(self._workers)

    @property
    def prefetch(self) -> int:
        if self._options.prefetch:
            return min(self._options.prefetch, _TASKS_MAX)
        fits = self._options.memory_bytes // max(1, self._batch_bytes + self._run.input_bytes)
        return max(2, min(2 * self.count, fits, _TASKS_MAX))

    def begin(self, run: Any) -> Any:
        """Starts a pass. Returns the one to take from: batches of this epoch may have been begun."""
        if self._next_run is not None and self._next_run.is_same_as(run):
            run = self._next_run
        else:
            while (record := _read(self._task_reads, TASK.size)):  # of another run, and not begun
                self._free.append(self._given.pop(TASK.unpack(record)[0]).slot)
        self._run, self._next_run = run, None
        if run.input_file is not None:
            self._poll.register(run.input_file, select.POLLIN)
        self._wait = _Wait()
        # Tasks first: the first worker starts to fetch while the others are being started.
        for number in range(self.count, self._options.count or min(4, self._count_max)):
            self._submit_all()
            self._workers.append(self._start_worker(number))
        self._submit_all()
        return run

    def take(self, run: Any, deadline: float) -> Any:
        """The next batch of the run, or its exception; None after the deadline."""
        began = time.monotonic() - run.input_wait_seconds
        while run.handed not in run.ready:
            if self._failure is not None:
                return self._failure
            now = time.monotonic()
            if now > deadline:
                self._note_samples()
                return None
            self._submit_all(waits=True)
            if run.handed not in run.ready:
                self._receive(deadline - now)
        result = run.ready[run.handed]
        if isinstance(result, BaseException):
            return result
        del run.ready[run.handed]
        run.handed += 1
        self._tune(time.monotonic() - run.input_wait_seconds - began)
        self._submit_all()
        return result

    def close(self) -> None:
        self._finalizer()

    def _submit_all(self, waits: bool = False) -> None:
        self._releases.settle(self.prefetch)
        run = self._run
        run.feed(self.prefetch, waits)
        self._submit_some(run, self.prefetch)
        if self._options.is_persistent:
            self._next_run = self._next_run or run.following()
            if self._next_run is not None:
                self._submit_some(self._next_run, self.prefetch - run.in_progress)

    def _submit_some(self, run: Any, prefetch: int) -> None:
        while run.has_work(prefetch):
            slot = self._free.pop() if self._free else self._new_task_slot()
            self._submit(_Given(run, run.start_batch(), slot))

    def _is_wanted(self, run: Any) -> bool:
        return run is self._run or run is self._next_run

    def _submit(self, given: "_Given") -> None:
        run, slot = given.run, given.slot
        task = run.busy[given.batch]
        slot.write_indices(task.samples)
        seeds = b"" if task.seeds is None else array("Q", task.seeds).tobytes()
        input = b"" if task.input is None else pickle.dumps(task.input)
        if seeds or input:
            slot.write_bytes(8 * len(task.samples), seeds + input)
        ticket = next(self._tickets)
        self._given[ticket] = given
        os.write(self._task_writes, TASK.pack(ticket, given.batch, run.epoch, slot.number,
                                              len(task.samples), len(seeds), len(input)))

    def _new_task_slot(self) -> _slots.Slot:
        self._task_slots += 1
        return _slots.Slot(self._file, _slots.FIRST_TASK_SLOT + self._task_slots - 1, is_filled_here=True)

    def _receive(self, seconds: float) -> None:
        """Takes one result if there is one, otherwise waits for it or for the end of a worker."""
        record = _read(self._done_reads, DONE.size)
        if record:
            self._accept(*DONE.unpack(record))
            return
        began, is_idle = time.monotonic(), self._run.lacks_input(self.count)
        events = self._poll.poll(min(seconds, 0.05 if self._has_lost_task else 3600) * 1000)
        if is_idle:
            self._run.count_wait(time.monotonic() - began)
        if not events and self._has_lost_task:
            self._find_lost_task()
        for file, _ in events:
            if file == self._run.input_file:
                _read(file, 8)
            elif file != self._done_reads and not _has_data(self._done_reads):
                self._bury(next(each for each in self._workers if each.pidfd == file))

    def _accept(self, ticket: int, worker: int, is_error: int, number: int, begin: int,
                length: int) -> None:
        self._deaths = 0
        for each in self._workers:
            each.has_worked |= each.number == worker
        given = self._given.pop(ticket)
        self._free.append(given.slot)
        if not self._is_wanted(given.run):
            self._status.release(number)
            return
        if number not in self._slots:
            self._slots[number] = _slots.Slot(self._file, number, self._pinning)
        # All arrays of the batch are views of this one: once it is gone, the slot can be used again.
        base = self._slots[number].view(begin + length)
        self._releases.watch(base, number)
        value = _slots.load(base, begin, length)
        if is_error:
            given.run.ready[given.batch] = _error_of(worker, *value)
            return
        self._batch_bytes = max(self._batch_bytes, begin + length)
        if self._fatal_samples:  # they were not what ended the worker
            self._fatal_samples.difference_update(given.run.busy[given.batch].samples)
        given.run.ready[given.batch] = given.run.finish_batch(given.batch, Content(*value))

    def _tune(self, waited_seconds: float) -> None:
        if (self._options.count or self.count >= self._count_max
                or not self._wait.is_long(waited_seconds, 2 * self.count)):
            return
        for _ in range(min(max(1, self.count // 2), self._count_max - self.count)):
            self._workers.append(self._start_worker(self.count))

    def _note_samples(self) -> None:
        """What each worker does now, for the message of a timeout."""
        for worker in self._workers:
            given = self._given.get(self._status.ticket(worker.number))
            if given is not None and given.run is self._run:
                given.run.busy[given.batch].at = self._status.sample(worker.number)

    def _start_worker(self, number: int) -> "_Worker":
        self._status.begin(number, 0)
        options = self._options
        setup = Setup(self._job, number, options.count or self._count_max, options.seed, options.init,
                      os.getpid(), self._pinning is not None, *self._shared)
        process = options.context.Process(target=work, args=(setup,), daemon=True,
                                          name=f"millrace-worker-{number}")
        try:
            process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                f"{self._job.noun} cannot be sent to a worker process: {error}. Define it, collate_fn and "
                "worker_init_fn at the top of a module; or give multiprocessing_context='fork', or "
                "worker='thread'") from error
        worker = _Worker(number, process, os.pidfd_open(process.pid))
        self._poll.register(worker.pidfd, select.POLLIN)
        return worker

    def _bury(self, worker: "_Worker") -> None:
        self._poll.unregister(worker.pidfd)
        os.close(worker.pidfd)
        worker.process.join()
        self._workers.remove(worker)
        ticket, sample = self._status.ticket(worker.number), self._status.sample(worker.number)
        given = self._given.get(ticket)
        what = (f"while it fetched sample {sample} of the dataset" if given is not None else
                "between two batches" if worker.has_worked else "before its first batch")
        sentence = f"worker {worker.number} (process {worker.process.pid}) {_ending(worker.process)} {what}"
        if reason := self._cannot_restart(worker, given, sample):
            self._failure = RuntimeError(f"{sentence}. {reason}")
            return
        self._workers.append(self._start_worker(worker.number))
        if given is None:
            self._has_lost_task = True  # perhaps: it may have taken one and not said so yet
        else:
            self._submit_again(ticket)

    def _cannot_restart(self, worker: "_Worker", given: Optional["_Given"], sample: int) -> str:
        if not self._options.restarts and worker.process.exitcode > 0:
            return "Its messages are on standard error"
        if not self._options.restarts:
            return ("The kernel log (dmesg) shows whether memory ran out; python -X faulthandler shows "
                    "where it crashed. With restart_workers=True another worker takes its place")
        self._deaths += 1
        if not worker.has_worked and (worker.process.exitcode >= 0 or self._deaths > _DEATHS_MAX):
            return "Its messages are on standard error"
        if given is not None and sample in self._fatal_samples:
            return "An earlier worker ended at the same sample: it cannot be loaded"
        if given is not None:
            self._fatal_samples.add(sample)
        return ""

    def _submit_again(self, ticket: int) -> None:
        given = self._given.pop(ticket)
        if not self._is_wanted(given.run):
            self._free.append(given.slot)
            return
        try:
            given.run.start_again(given.batch)
        except SampleError as error:
            given.run.ready[given.batch] = error
            self._free.append(given.slot)
            return
        self._submit(given)

    def _find_lost_task(self) -> None:
        """A worker that was killed right after it took a task had no time to say which. Once nobody
        works and nothing is left to do or to receive, every task without a result is lost."""
        is_idle = all(self._status.ticket(worker.number) not in self._given for worker in self._workers)
        if is_idle and not _has_data(self._task_reads) and not _has_data(self._done_reads):
            self._has_lost_task = False
            for ticket in list(self._given):
                self._submit_again(ticket)


class Releases:
    """Slots whose batch the program has released. A GPU may still copy from them; workers get a slot back
    when its fence is over.

    A callback in Python would swallow the KeyboardInterrupt that arrives while it runs, and would release
    the slot in a forked child, too. So the callback is a method in C, and settle() does the rest."""

    def __init__(self, release: Callable[[int], None], new_fence: Optional[Callable[[], Any]]) -> None:
        self._release = release
        self._new_fence = new_fence
        self._watched: dict = {}  # by id of the reference: the reference, which has to live, and the slot
        self._released: collections.deque = collections.deque()  # references whose array is gone
        self._fenced: collections.deque = collections.deque()  # (fence, slot), the oldest first

    def watch(self, array: Any, slot: int) -> None:
        """`slot` is released when `array` is gone."""
        reference = weakref.ref(array, self._released.append)
        self._watched[id(reference)] = reference, slot

    def settle(self, count_max: int) -> None:
        """Returns slots to their workers. Waits for the GPU if more than `count_max` of them wait for it."""
        while self._released:
            _, slot = self._watched.pop(id(self._released.popleft()))
            if self._new_fence is None:
                self._release(slot)
            else:
                self._fenced.append((self._new_fence(), slot))
        while self._fenced:
            fence, slot = self._fenced[0]
            if not fence.is_over():
                if len(self._fenced) <= count_max:
                    return
                fence.wait()
            self._fenced.popleft()
            self._release(slot)


_all_workers: weakref.WeakSet = weakref.WeakSet()


def _forget_workers() -> None:
    """A forked child would otherwise end them when it exits: multiprocessing takes them for its own."""
    for processes in _all_workers:
        for worker in processes._workers:
            multiprocessing.process._children.discard(worker.process)  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_forget_workers)


@dataclass
class _Given:
    """A task that a worker has, or will have."""

    run: Any
    batch: int
    slot: _slots.Slot


@dataclass
class _Worker:
    number: int
    process: Any
    pidfd: int
    has_worked: bool = False


class _Wait:
    """How long training waits for batches."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._began = time.monotonic()
        self._waited = 0.0
        self._batches = 0

    def is_long(self, waited_seconds: float, batches_min: int) -> bool:
        self._waited += waited_seconds
        self._batches += 1
        seconds = time.monotonic() - self._began
        if self._batches < batches_min or seconds < 0.1:
            return False
        is_long = self._waited > _WAIT_SHARE_MAX * seconds
        self._begin()
        return is_long


def _read(file: int, size: int) -> bytes:
    try:
        return os.read(file, size)
    except BlockingIOError:
        return b""


def _has_data(file: int) -> bool:
    return bool(select.select([file], [], [], 0)[0])


def _ending(process: Any) -> str:
    code = process.exitcode
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"


def _error_of(worker: int, kind: str, message: str, traceback_text: str) -> BaseException:
    text = f"{message}\n\nTraceback of worker {worker}:\n{traceback_text}"
    return SampleError(text) if kind == "SampleError" else RuntimeError(f"{kind}: {text}")


def _close(owner: int, workers: list, files: tuple) -> None:
    if os.getpid() != owner:
        return
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.process.join()
        os.close(worker.pidfd)
    for file in files:
        os.close(file)
