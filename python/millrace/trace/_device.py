"""Device time: when the GPU computed and when it copied, on the clock of the host.

CUDA events are put into the stream around the work of each step. Nothing ever waits for them: the
training thread asks once per step whether the oldest ones have passed (`query`), and a thread of our own
reads their times and records the regions `device` and `device_copy`. So these have a thread of their own
in the trace, and come in the order of the device.

The device has its own clock. What is known about it without a synchronisation: an event cannot pass
before the host has put it into the stream, nor after the host has seen that it passed. Each bracket that
is read moves the clock by as little as satisfies both. docs/design/gpu-time.md has the reasons, the error
and the drift.
"""

import atexit
import collections
import os
import threading
import time
from threading import get_ident
from time import monotonic_ns

from millrace import _trace
from millrace.trace import names

# Work whose launches are closer together is one bracket: an event costs a few microseconds.
JOIN_NS = 50_000
# An event that passes later than this after it was asked for had to wait for work before it.
BUSY_NS = 20_000
READ_SECONDS = 0.25  # between two rounds of the reading thread
LAST_SECONDS = 2.0   # how long the end of the program waits for the last events


class Bracket:
    """Work of the device between two events in one stream."""

    __slots__ = ("name", "place", "stream", "begin", "end", "asked_ns", "left_ns", "seen_ns", "has_end")

    def __init__(self, name, place, stream, begin, end, asked_ns):
        self.name = name
        self.place = place        # epoch and step
        self.stream = stream
        self.begin, self.end = begin, end
        self.asked_ns = asked_ns  # when the host put `begin` into the stream
        self.left_ns = asked_ns   # when the host had launched the last work
        self.seen_ns = 0          # when the host saw that `end` had passed
        self.has_end = False      # `end` is in the stream, after all work so far


class DeviceClock:
    """Maps times of events to the monotonic clock of the host, bracket by bracket.

    Each bracket is measured from the end of the one before: elapsed_time() is a 32-bit float, which
    is exact to a microsecond only over some seconds.
    """

    def __init__(self):
        self.anchor, self.anchor_ns = None, 0

    def read(self, bracket):
        """The begin and the end of the bracket."""
        if self.anchor is None:
            self.anchor, self.anchor_ns = bracket.begin, bracket.asked_ns
        begin_ns = self.anchor_ns + to_ns(self.anchor.elapsed_time(bracket.begin))
        end_ns = begin_ns + to_ns(bracket.begin.elapsed_time(bracket.end))
        shift_ns = max(0, bracket.asked_ns - begin_ns)
        shift_ns -= max(0, end_ns + shift_ns - bracket.seen_ns)
        begin_ns, end_ns = begin_ns + shift_ns, end_ns + shift_ns
        self.anchor, self.anchor_ns = bracket.end, end_ns
        return begin_ns, end_ns


def to_ns(milliseconds):
    return round(milliseconds * 1e6)


class DeviceTimer:
    """Puts events around the work of one thread that trains, and records when the device did it.

    `cuda` has the interface of torch.cuda: Event, current_stream and is_initialized. `kind` is the type
    of its devices.
    """

    def __init__(self, cuda, kind="cuda"):
        self.kind = kind
        self._cuda = cuda
        self._thread = None               # the ident of the thread that trains
        self._depth = 0
        self._open = None                 # the bracket that may still grow
        self._pending = collections.deque()  # of the training thread: their ends may not have passed
        self._passed = collections.deque()   # to the reading thread
        self._pool = []                   # events that can be used again
        self._clock = DeviceClock()
        self._busy_until_ns = {}          # by stream
        self._reader = None
        self._wake = threading.Event()
        self._is_ending = False
        self._lock = threading.Lock()     # reading, or capturing a graph
        self._is_capturing = False

    # ---- the training thread ------------------------------------------------------------------------

    def enter(self, name):
        """The thread is about to launch work. False: it is not timed, and leave() is not needed."""
        if get_ident() != self._thread and not self._begin() or self._is_capturing:
            return False
        self._depth += 1
        if self._depth > 1:
            return True
        now_ns, bracket = monotonic_ns(), self._open
        if bracket is not None:
            # Neither the step nor the stream is asked for again: programs do not change them so fast.
            if bracket.name is name and now_ns - bracket.left_ns < JOIN_NS:
                return True
            self._close()
        if not _trace.enabled():
            self._depth = 0
            return False
        pool = self._pool
        try:
            begin = pool.pop() if pool else self._make_event(enable_timing=True)
            stream = self._current_stream()
            begin.record(stream)
            end = pool.pop() if pool else self._make_event(enable_timing=True)
        except RuntimeError as error:
            return self._give_up(error)
        self._open = Bracket(name, _trace.current(), stream, begin, end, now_ns)
        return True

    def leave(self, may_go_on=False):
        """The work is launched. `may_go_on`: more is likely to follow at once, so no event is needed."""
        self._depth -= 1
        bracket = self._open
        if self._depth > 0 or bracket is None:
            return
        if may_go_on or self._is_capturing:
            bracket.has_end = False
        else:
            self._record_end(bracket)
        bracket.left_ns = monotonic_ns()

    def end_step(self):
        """The work of a step is launched. Looks which earlier work has passed; never waits for it."""
        if get_ident() != self._thread or self._is_capturing:
            return
        if self._open is not None and self._depth == 0:
            self._close()
        self._look()

    def _begin(self):
        """The first thread that launches work is the one that trains."""
        if self._thread is not None or not self._cuda.is_initialized():
            return False
        self._make_event, self._current_stream = self._cuda.Event, self._cuda.current_stream
        self._thread = get_ident()
        self._reader = threading.Thread(target=self._read_on, name="millrace-device", daemon=True)
        self._reader.start()  # now: a program that ends cannot start threads
        atexit.register(self.finish)
        os.register_at_fork(after_in_child=self._forget)
        return True

    def _close(self):
        bracket, self._open = self._open, None
        if bracket.has_end or self._record_end(bracket):
            self._pending.append(bracket)

    def _record_end(self, bracket):
        try:
            bracket.end.record(bracket.stream)
        except RuntimeError as error:
            return self._give_up(error)
        bracket.has_end = True
        return True

    def _look(self):
        pending = self._pending
        try:
            while pending and pending[0].end.query():
                pending[0].seen_ns = monotonic_ns()
                self._passed.append(pending.popleft())
        except RuntimeError as error:
            self._give_up(error)

    def _give_up(self, error):
        """The device has failed. The program will find out by itself: nothing is raised here."""
        kept.append((self._open, self._pending))
        self._open, self._pending = None, collections.deque()
        self._thread = 0  # no thread has this ident
        _trace.mark("device_time_lost", error=str(error))
        return False

    def drain(self):
        """Records what has passed by now, or passes soon: recording is about to end."""
        until = time.monotonic() + LAST_SECONDS
        self.end_step()
        while self._pending and time.monotonic() < until:
            time.sleep(0.001)
            self._look()
        while self._passed and self._reader is not None and time.monotonic() < until:
            self._wake.set()
            time.sleep(0.001)
        with self._lock:  # the last one is being recorded
            pass

    def finish(self):
        self.drain()
        self._is_ending = True
        self._wake.set()
        if self._reader is not None:
            self._reader.join(LAST_SECONDS)

    def _forget(self):
        """In a forked child, which cannot use the device. Its events must not even be destroyed."""
        kept.append((self._open, self._pending, self._passed, self._pool, self._clock))
        self.__init__(self._cuda, self.kind)

    # ---- graphs -------------------------------------------------------------------------------------

    def begin_capture(self):
        """Asking for an event during the capture of a CUDA graph would break the capture."""
        with self._lock:
            self._is_capturing = True

    def end_capture(self):
        self._is_capturing = False

    # ---- the reading thread -------------------------------------------------------------------------

    def _read_on(self):
        while not self._is_ending:
            self._wake.wait(READ_SECONDS)
            self._wake.clear()
            with self._lock:
                if not self._is_capturing:
                    self._read_passed()

    def _read_passed(self):
        while self._passed:
            bracket = self._passed.popleft()
            try:
                self._record(bracket)
            except RuntimeError as error:  # for example, events of two devices
                self._clock = DeviceClock()
                _trace.mark("device_time_lost", error=str(error))

    def _record(self, bracket):
        anchor = self._clock.anchor
        begin_ns, end_ns = self._clock.read(bracket)
        if anchor is not None:
            self._pool.append(anchor)
        if bracket.begin is not anchor:
            self._pool.append(bracket.begin)
        # From asked_ns on, `begin` waited for work that was launched before: the device was busy.
        busy_until_ns = self._busy_until_ns.get(bracket.stream, end_ns)
        if begin_ns - bracket.asked_ns > BUSY_NS:
            begin_ns = min(begin_ns, max(busy_until_ns, bracket.asked_ns))
        self._busy_until_ns[bracket.stream] = end_ns
        epoch, step = bracket.place
        _trace._record_past(_trace.region(bracket.name, epoch=epoch, step=step), begin_ns,
                            max(begin_ns, end_ns))


kept = []
timer = None  # of this process; None: PyTorch has no CUDA


def wrap(function, is_last=False):
    """The function, with its work on the device timed. `is_last`: it is the last of a step."""
    if timer is None:
        return function
    import functools

    @functools.wraps(function)
    def timed(*arguments, **keywords):
        entered = timer.enter(names.DEVICE)
        try:
            return function(*arguments, **keywords)
        finally:
            if entered:
                timer.leave()
                if is_last:
                    timer.end_step()

    return timed


def find(torch_version):
    """Makes the timer if this PyTorch has CUDA (or HIP, under the same names)."""
    global timer
    if os.environ.get("MILLRACE_DEVICE_TIME") == "0":
        return None
    if timer is None and (getattr(torch_version, "cuda", None) or getattr(torch_version, "hip", None)):
        import sys
        timer = DeviceTimer(LazyCuda(sys.modules))
    return timer


class LazyCuda:
    """torch.cuda, which is imported after the modules that use it here."""

    def __init__(self, modules):
        self._modules = modules

    def is_initialized(self):
        cuda = self._modules.get("torch.cuda")
        if cuda is None or not cuda.is_initialized():
            return False
        self.Event, self.current_stream = cuda.Event, cuda.current_stream
        return True
