"""Device time: when the GPU computed and when it copied, on the clock of the host.

CUDA events are put into the stream around the work of each step, as few as possible: each is a call of
the driver. Nothing ever waits for them: the training thread asks once per step whether the oldest ones
have passed (`query`), and a thread of our own reads their times and records the regions `device` and
`device_copy`. So these have a thread of their own
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
# After so many steps in which an end was not needed, because more work followed at once, it is left out.
TRUSTED = 8
POSITIONS = 256      # in a step, for which this is remembered; after the last one they begin again
GROUP = 64           # brackets that are asked for together, in a program whose steps are not seen
READ_SECONDS = 0.25  # between two rounds of the reading thread
LAST_SECONDS = 2.0   # how long the end of the program waits for the last events
NEVER_NS = 1 << 63


class Lane:
    """A stream. There is one object per stream, so that lanes can be compared with `is`."""

    __slots__ = ("stream", "busy_until_ns")

    def __init__(self, stream):
        self.stream = stream
        self.busy_until_ns = NEVER_NS  # of the reading thread: the end of the last bracket


class Bracket:
    """Work of the device between two events in one stream."""

    __slots__ = ("name", "place", "lane", "begin", "end", "asked_ns")

    def __init__(self, name, place, lane, begin, asked_ns, end=None):
        self.name = name
        self.place = place        # epoch and step
        self.lane = lane
        self.begin = begin        # may be the end of the bracket before
        self.end = end            # None: not in the stream yet
        self.asked_ns = asked_ns  # when the host put `begin` into the stream


class DeviceClock:
    """Maps times of events to the monotonic clock of the host, bracket by bracket.

    Each bracket is measured from the end of the one before: elapsed_time() is a 32-bit float, which
    is exact to a microsecond only over some seconds.
    """

    __slots__ = ("anchor", "anchor_ns")

    def __init__(self):
        self.anchor, self.anchor_ns = None, 0

    def read(self, bracket, seen_ns):
        """The begin and the end of the bracket. `seen_ns` is when the host saw that its end had passed."""
        begin, asked_ns, anchor = bracket.begin, bracket.asked_ns, self.anchor
        if begin is anchor:
            begin_ns = self.anchor_ns
        elif anchor is None:
            begin_ns = asked_ns
        else:
            begin_ns = self.anchor_ns + round(anchor.elapsed_time(begin) * 1e6)
        end_ns = begin_ns + round(begin.elapsed_time(bracket.end) * 1e6)
        if begin_ns < asked_ns:
            end_ns += asked_ns - begin_ns
            begin_ns = asked_ns
        if end_ns > seen_ns:
            begin_ns -= end_ns - seen_ns
            end_ns = seen_ns
        self.anchor, self.anchor_ns = bracket.end, end_ns
        return begin_ns, end_ns


class DeviceTimer:
    """Puts events around the work of one thread that trains, and records when the device did it.

    `cuda` has the interface of LazyCuda. `kind` is the type of its devices.
    """

    def __init__(self, cuda, kind="cuda"):
        self.kind = kind
        self._cuda = cuda
        self._thread = None               # the ident of the thread that trains
        self._depth = 0
        self._open = None                 # the bracket that may still grow
        self._has_end = False             # its end is in the stream, after all work so far
        self._left_ns = 0                 # when its last work was launched, and then its end put in
        self._position = 0                # of the last leave() in the step that might have put in an end
        self._joins = [0] * POSITIONS     # in how many steps in a row the end of a position was not needed
        self._device = self._raw_stream = self._lane = None  # where the last bracket began
        self._lanes = {}                  # by device and raw stream
        self._group = []                  # brackets of this step in one stream
        self._pending = collections.deque()  # groups; their ends may not have passed
        self._passed = collections.deque()   # to the reading thread: groups, and when they were seen to have passed
        self._pool = []                   # events that can be used again: no bracket has them any more
        self._clock = DeviceClock()
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
        if self._depth:
            self._depth += 1
            return True
        self._depth = 1
        now_ns, bracket = monotonic_ns(), self._open
        if bracket is None:
            return self._start(name, now_ns, None)
        if bracket.name is name and now_ns - self._left_ns < JOIN_NS:
            # Neither the step nor the stream is asked for again: programs do not change them so fast.
            if self._has_end:
                self._joins[self._position] += 1
            return True
        is_near = not self._has_end or now_ns - self._left_ns < JOIN_NS
        if not self._close(now_ns):
            return False
        return self._start(name, now_ns, bracket if is_near else None)

    def leave(self, may_go_on=False):
        """The work is launched. `may_go_on`: more is likely to follow at once, so no event is needed."""
        depth = self._depth = self._depth - 1
        if depth or self._open is None:
            return
        self._left_ns = monotonic_ns()
        if may_go_on or self._is_capturing:
            self._has_end = False
            return
        position = self._position = (self._position + 1) % POSITIONS
        if self._joins[position] == TRUSTED:
            self._has_end = False
        else:
            self._record_end(self._open)

    def end_step(self):
        """The work of a step is launched. Looks which earlier work has passed; never waits for it."""
        if get_ident() != self._thread or self._is_capturing:
            return
        if self._open is not None and not self._depth:
            self._close(monotonic_ns())
        self._position = 0
        self._look()

    def _begin(self):
        """The first thread that launches work is the one that trains."""
        if self._thread is not None or not self._cuda.is_initialized():
            return False
        self._thread = get_ident()
        self._reader = threading.Thread(target=self._read_on, name="millrace-device", daemon=True)
        self._reader.start()  # now: a program that ends cannot start threads
        atexit.register(self.finish)
        os.register_at_fork(after_in_child=self._forget)
        return True

    def _start(self, name, now_ns, before):
        """Opens a bracket. In the stream of the bracket `before`, it begins with the event that ends that one."""
        if not _trace.enabled():
            self._depth = 0
            return False
        cuda = self._cuda
        try:
            device = cuda.get_device()
            raw_stream = cuda.get_raw_stream(device)
            if raw_stream != self._raw_stream or device != self._device:
                self._change_lane(device, raw_stream)
            lane = self._lane
            if before is not None and before.lane is lane:
                begin, now_ns = before.end, self._left_ns
            else:
                begin = self._pool.pop() if self._pool else cuda.Event(enable_timing=True)
                begin.record(lane.stream)
        except RuntimeError as error:
            return self._give_up(error)
        self._open = Bracket(name, _trace.current(), lane, begin, now_ns)
        return True

    def _change_lane(self, device, raw_stream):
        lane = self._lanes.get((device, raw_stream))
        if lane is None:
            lane = self._lanes[device, raw_stream] = Lane(self._cuda.current_stream())
        self._device, self._raw_stream, self._lane = device, raw_stream, lane

    def _close(self, now_ns):
        """Ends the open bracket: no more work has joined it."""
        bracket, self._open = self._open, None
        self._joins[self._position] = 0
        if not self._has_end:
            self._left_ns = now_ns
            if not self._record_end(bracket):
                return False
        group = self._group
        if group and (group[-1].lane is not bracket.lane or len(group) == GROUP):
            self._look()
        self._group.append(bracket)
        return True

    def _record_end(self, bracket):
        pool = self._pool
        try:
            end = bracket.end
            if end is None:
                end = bracket.end = pool.pop() if pool else self._cuda.Event(enable_timing=True)
            end.record(bracket.lane.stream)
        except RuntimeError as error:
            return self._give_up(error)
        self._has_end = True
        return True

    def _look(self):
        """A stream works in order: if the last bracket of a group has passed, all of it have."""
        pending = self._pending
        if self._group:
            pending.append(self._group)
            self._group = []
        try:
            while pending and pending[0][-1].end.query():
                self._passed.append((monotonic_ns(), pending.popleft()))
        except RuntimeError as error:
            self._give_up(error)

    def _give_up(self, error):
        """The device has failed. The program will find out by itself: nothing is raised here."""
        kept.append((self._open, self._group, self._pending))
        self._open, self._group, self._pending = None, [], collections.deque()
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
        kept.append((self._open, self._group, self._pending, self._passed, self._pool, self._clock, self._lanes))
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
        passed = self._passed
        while passed:
            seen_ns, group = passed.popleft()
            for bracket in group:
                try:
                    self._record(bracket, seen_ns)
                except RuntimeError as error:  # for example, events of two devices
                    self._clock = DeviceClock()
                    _trace.mark("device_time_lost", error=str(error))

    def _record(self, bracket, seen_ns):
        clock, pool, begin, lane = self._clock, self._pool, bracket.begin, bracket.lane
        before = clock.anchor
        begin_ns, end_ns = clock.read(bracket, seen_ns)
        # A bracket that begins with the end of another is the next one read: nobody has these two any more.
        if before is not None:
            pool.append(before)
        if begin is not before:
            pool.append(begin)
        # From asked_ns on, `begin` waited for work that was launched before: the device was busy.
        asked_ns, busy_until_ns = bracket.asked_ns, lane.busy_until_ns
        if begin_ns - asked_ns > BUSY_NS and begin_ns > busy_until_ns:
            begin_ns = asked_ns if asked_ns > busy_until_ns else busy_until_ns
        lane.busy_until_ns = end_ns
        _trace._record_past(REGIONS[bracket.name], bracket.place, begin_ns, end_ns)


REGIONS = {name: _trace.region(name) for name in (names.DEVICE, names.DEVICE_COPY)}
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
    """What is needed of torch.cuda, which is imported after the modules that use it here.

    get_device() and get_raw_stream(device) say which stream is the current one, without making an object of it
    as current_stream() does. Event is the class below torch.cuda.Event, whose methods only call those of this one.
    These names are private: if this PyTorch does not have them, or they take other arguments, the public ones
    are used.
    """

    def __init__(self, modules):
        self._modules = modules

    def is_initialized(self):
        cuda = self._modules.get("torch.cuda")
        if cuda is None or not cuda.is_initialized():
            return False
        self.current_stream = cuda.current_stream
        try:
            private = self._modules["torch._C"]
            self.Event = private._CudaEventBase
            self.get_device, self.get_raw_stream = private._cuda_getDevice, private._cuda_getCurrentRawStream
            self.get_raw_stream(self.get_device())
            self.Event(enable_timing=True)  # the driver makes it when it is recorded
        except Exception:
            self.Event = cuda.Event
            self.get_device, self.get_raw_stream = cuda.current_device, cuda.current_stream
        return True
