"""Window: records only some steps (`python -m millrace.trace --steps 100:200`).

Every process of the job begins paused, before its first call: the recorder looks for VARIABLE itself. Nothing is
recorded then, neither calls nor regions, so that the start of the program does not count as a part of the
window. The training process counts the batches that its loaders have returned, over all epochs and without evaluations, and
records while the number of the batch is in the window. A worker fetches ahead of training: it records while
the batch that it makes is in the window.
"""

import atexit
import multiprocessing
import os
import sys

from millrace import _trace

VARIABLE = "MILLRACE_STEPS"  # not MILLRACE_TRACE_...: the launcher removes those of an outer trace


def parse(text):
    """"100:200" becomes (100, 200): the first step, and the one after the last. Raises ValueError."""
    first, colon, end = text.partition(":")
    if not colon or not (first or end) or not all(part == "" or part.isdecimal()
                                                  for part in (first, end)):
        raise ValueError(f"--steps is FIRST:END, for example 100:200, but got '{text}'")
    window = (int(first or 0), int(end) if end else None)
    if window[1] is not None and window[1] <= window[0]:
        raise ValueError(f"--steps {text} has no steps: END must be larger than FIRST")
    return window


class Window:
    def __init__(self, first, end):
        self.first, self.end = first, end
        self.done = 0           # batches that training has got
        self.is_on = False
        self.was_on = False
        self.is_counted = False  # the batch that is being waited for
        self.is_marked = False
        self.owner = os.getpid()
        self._shared = None
        _trace._pause(True)
        atexit.register(self._say_if_missed)

    @property
    def shared(self):
        """For the workers: the number of the first batch of the epoch, and whether training records."""
        if self._shared is None:
            from multiprocessing.sharedctypes import RawArray
            self._shared = RawArray("q", 2)
            self._shared[1] = self.is_on
        return self._shared

    def begin_epoch(self):
        self.shared[0] = self.done

    def begin_step(self, is_training):
        """The training process is about to wait for a batch."""
        self.is_counted = is_training
        if is_training:
            self._set(self.contains(self.done))

    def end_wait(self):
        self.done += self.is_counted
        if self.is_on and not self.is_marked:
            self.is_marked = True
            # Its imports were not recorded, so a path says that the program uses PyTorch.
            path = getattr(sys.modules.get("torch"), "__file__", None) or ""
            _trace.mark("window", first=self.first, torch=path)

    def contains(self, step):
        return step >= self.first and (self.end is None or step < self.end)

    def follow_worker(self, step, is_evaluation):
        """A worker is about to make a batch: `step` of its epoch."""
        shared = getattr(multiprocessing.current_process(), "_millrace_window", None)
        if shared is None:
            return
        is_on = bool(shared[1]) if is_evaluation or step is None else self.contains(shared[0] + step)
        if is_on != self.is_on:
            self.is_on = is_on
            _trace._pause(not is_on)

    def _set(self, is_on):
        if is_on == self.is_on:
            return
        if not is_on:
            _trace._device_drain()  # the last steps of the window may still run on the device
        self.is_on = is_on
        self.was_on = self.was_on or is_on
        if self._shared is not None:
            self._shared[1] = is_on
        _trace._pause(not is_on)

    def _say_if_missed(self):
        if self.done > 0 and not self.was_on and os.getpid() == self.owner:
            print(f"python -m millrace.trace: nothing was recorded: the window begins at step "
                  f"{self.first}, but the program ended after {self.done} steps", file=sys.stderr)


def from_environment():
    try:
        return Window(*parse(os.environ[VARIABLE])) if _trace._preloaded() else None
    except (KeyError, ValueError):
        return None


current = from_environment()
