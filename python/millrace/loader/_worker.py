"""The worker process: takes tasks, makes batches, leaves them in slots."""

import contextlib
import gc
import os
import pickle
import select
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from typing import Any, Optional

from millrace import trace
from millrace.loader import _slots
from millrace.loader._job import Job, make_batch
from millrace.loader._seeds import seed_all

# Records. Every task has another ticket, also one that is given a second time.
# Ticket, batch, epoch, slot; number of samples, bytes of their seeds, bytes of the input: all in the slot.
TASK = struct.Struct("<QQQQIII20x")
DONE = struct.Struct("<QIIQQQ24x")  # ticket, worker, is an error, slot, begin and length of the result in it


class SharedFile:
    """A file descriptor for a worker: the same after a fork, a duplicate otherwise."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __reduce__(self) -> Any:
        return _received, (DupFd(self.descriptor),)


def _received(duplicate: Any) -> SharedFile:
    return SharedFile(duplicate.detach())


@dataclass(frozen=True)
class Setup:
    """What a worker gets when it starts."""

    job: Job
    number: int
    count: int
    seed: int
    init: Optional[Callable[[int], Any]]
    parent: int  # the process whose end ends the worker
    is_pinned: bool  # the memory of batches
    file: SharedFile  # of the slots
    tasks: SharedFile
    results: SharedFile


def work(setup: Setup) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the training process, which ends us
    parent = os.pidfd_open(setup.parent)
    gc.freeze()  # collections need not walk over the dataset, nor copy the pages that a fork shares
    _describe(setup)
    if setup.init is not None:
        setup.init(setup.number)
    worker = _Worker(setup)
    tasks = setup.tasks.descriptor
    poll = select.poll()
    poll.register(tasks, select.POLLIN)
    poll.register(parent, select.POLLIN)
    while True:
        if any(file == parent for file, _ in poll.poll()):
            os._exit(0)
        try:
            record = os.read(tasks, TASK.size)
        except BlockingIOError:
            continue  # another worker was faster
        if not record:
            os._exit(0)
        worker.run(*TASK.unpack(record))


class _Worker:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._process = os.getpid()
        self._status = _slots.Status(setup.file.descriptor)
        self._own: list = []  # slots for batches
        self._task_slots: dict = {}  # by number

    def _task_slot(self, number: int) -> _slots.Slot:
        if number not in self._task_slots:
            self._task_slots[number] = _slots.Slot(self._setup.file.descriptor, number)
        return self._task_slots[number]

    def _free_slot(self) -> _slots.Slot:
        """The first slot whose batch nobody uses. Three free slots keep their memory: at times the
        training is ahead, at times the workers are."""
        free = [slot for slot in self._own if not self._status.is_used(slot.number)]
        while not free:
            if len(self._own) == _slots.SLOTS_PER_WORKER:
                raise MemoryError(f"the program holds {len(self._own)} batches of a worker; release some")
            number = self._setup.number * _slots.SLOTS_PER_WORKER + len(self._own)
            self._own.append(_slots.Slot(self._setup.file.descriptor, number, is_filled_here=True))
            # The worker whose place we took may have left a batch in it.
            free = [slot for slot in self._own[-1:] if not self._status.is_used(number)]
        if len(free) > 3 and free[-1] is self._own[-1] and not self._setup.is_pinned:
            self._own.pop().empty()
        return free[0]

    def run(self, ticket: int, batch: int, epoch: int, number: int, count: int,
            seed_bytes: int, input_bytes: int) -> None:
        setup = self._setup
        task_slot = self._task_slot(number)
        samples = task_slot.read_indices(count)
        seeds = task_slot.read_seeds(8 * count, seed_bytes) or [setup.seed] * count
        begin = 8 * count + seed_bytes
        input = pickle.loads(task_slot.read_bytes(begin, input_bytes)) if input_bytes else None
        self._status.fetch(setup.number, samples[0])
        self._status.begin(setup.number, ticket)

        def prepare(row: int) -> None:
            self._status.fetch(setup.number, samples[row])
            seed_all(seeds[row], epoch, samples[row])

        is_error = 0
        slot = self._free_slot()
        writer = _slots.SlotWriter(slot)
        try:
            with trace.region(trace.names.FETCH, epoch=epoch, step=batch):
                content = make_batch(setup.job, samples, prepare, writer.array, input)
            place = writer.finish((content.data, content.kept, content.bad, content.fetch_seconds,
                                   content.collate_seconds))
        except BaseException as error:
            is_error = 1
            place = _slots.SlotWriter(slot).finish(
                (type(error).__name__, str(error), traceback.format_exc()))
        if os.getpid() != self._process:
            os._exit(1)  # the dataset forked, and its child came back
        if sys.stdout is not None:
            with contextlib.suppress(OSError, ValueError):  # it is closed
                sys.stdout.flush()  # what the dataset printed: after the last batch, a signal ends us
        self._status.use(slot.number)
        os.write(setup.results.descriptor,
                 DONE.pack(ticket, setup.number, is_error, slot.number, *place))
        self._status.begin(setup.number, 0)


def _describe(setup: Setup) -> None:
    """For torch.utils.data.get_worker_info()."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    torch.set_num_threads(1)
    module = torch.utils.data._utils.worker
    module._worker_info = module.WorkerInfo(id=setup.number, num_workers=setup.count,
                                            seed=setup.seed + setup.number, dataset=setup.job.dataset)
