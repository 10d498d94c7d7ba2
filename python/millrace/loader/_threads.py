"""Threads: makes batches of a Python dataset in threads of this process.

Threads do not speed up code that holds the GIL. Reading, decompressing and most of numpy, PIL and torch
release it. On a free-threaded Python nothing is held.
"""

import os
import select
import sys
import threading
import time
from typing import Any, Optional

from millrace import trace
from millrace.loader._job import Job, make_batch


class Threads:
    """Does not hold the loader, which could then never be freed."""

    kind = "thread"

    def __init__(self, job: Job, count: int, prefetch: int) -> None:
        self._job = job
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._run: Any = None
        self._is_closed = False
        self._started = 0
        self.count = count
        self.prefetch = prefetch or 2 * count

    def begin(self, run: Any) -> Any:
        with self._changed:
            self._run = run
            self._changed.notify_all()
        while self._started < self.count:
            # A daemon, so that a dataset that hangs cannot keep the program from exiting.
            threading.Thread(target=self._work, daemon=True, name=f"millrace-{self._started}").start()
            self._started += 1
        return run

    def take(self, run: Any, deadline: float) -> Any:
        """The next batch of the run, or its exception; None after the deadline."""
        with self._changed:
            while run.handed not in run.ready:
                # Check here and not right after the wait: a batch may have arrived while it
                # reacquired the lock.
                if time.monotonic() > deadline:
                    return None
                if run.input_file is None:
                    # In slices: on some platforms Ctrl-C cannot interrupt an unlimited wait.
                    self._changed.wait(0.2)
                    continue
                run.feed(self.prefetch, waits=True)
                self._changed.notify_all()
                if run.handed not in run.ready:
                    self._wait_for_input(run)
            result = run.ready[run.handed]
            if not isinstance(result, BaseException):
                del run.ready[run.handed]
                run.handed += 1
                run.feed(self.prefetch, waits=False)
                self._changed.notify_all()
            return result

    def _wait_for_input(self, run: Any) -> None:
        """Or for a batch that a thread has made: it writes to the same file."""
        began, is_idle = time.monotonic(), run.lacks_input(self.count)
        self._changed.release()
        try:
            poll = select.poll()
            poll.register(run.input_file, select.POLLIN)
            if poll.poll(200):
                os.read(run.input_file, 8)
        finally:
            self._changed.acquire()
        if is_idle:
            run.count_wait(time.monotonic() - began)

    def close(self) -> None:
        # In a forked child, a thread that stayed in the parent may hold the lock forever.
        if os.getpid() != self._process:
            return
        with self._changed:
            self._is_closed = True
            self._run = None
            self._changed.notify_all()

    def _work(self) -> None:
        while (work := self._next_work()) is not None:
            run, index = work
            try:
                result: Any = run.finish_batch(index, self._make(run, index))
            except BaseException as error:  # the consumer raises it
                result = error
            with self._changed:
                run.ready[index] = result
                self._changed.notify_all()
            if run.input_file is not None:
                os.write(run.input_file, (1).to_bytes(8, sys.byteorder))
            del work, run, result  # do not keep a batch alive while the thread waits

    def _next_work(self) -> Optional[tuple]:
        """A run and the index of a batch to make; None after close()."""
        with self._changed:
            while not self._is_closed and (self._run is None or not self._run.has_work(self.prefetch)):
                self._changed.wait()
            return None if self._is_closed else (self._run, self._run.start_batch())

    def _make(self, run: Any, index: int) -> Any:
        task = run.busy[index]

        def note(row: int) -> None:
            task.at = task.samples[row]

        with trace.region(trace.names.FETCH, epoch=run.epoch, step=index):
            return make_batch(self._job, task.samples, note, input=task.input)
