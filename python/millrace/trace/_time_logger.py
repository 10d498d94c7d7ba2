"""TimeLogger: a table of timed actions, with the fields of NERSC's class of the same name."""

import os
import sys
import threading
import time
from typing import NamedTuple, Optional

from millrace._trace import _place_variables, region


class Row(NamedTuple):
    """One action. Times are seconds since 1970; the duration is measured with the monotonic clock."""

    epoch: int
    rank: int
    caller: str
    action: str
    start: float
    end: float
    duration: float
    process: int
    thread: int


class TimeLogger:
    """Keeps a row per action, writes the rows as CSV or JSON, and marks each action as a region.

        logger = TimeLogger(rank=rank)
        logger.start_timer("read")
        ...
        logger.end_timer("read")

        with logger.timer("decode", epoch=3):
            ...

        logger.write_csv(f"times.{rank}.csv")

    It works with and without `millrace trace`. Threads may share a logger: a timer belongs to the
    thread that started it. An action may be nested in itself.
    """

    fields = Row._fields

    def __init__(self, rank: Optional[int] = None, epoch: int = 0, caller: Optional[str] = None,
                 enabled: bool = True) -> None:
        self.rank = rank_of_environment() if rank is None else rank
        self.epoch = epoch
        self.caller = caller
        self.enabled = enabled
        self.rows: list = []
        # By thread object and action. Not by get_ident(), which the next thread gets again.
        self._started: dict = {}

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of timers that are started without one."""
        self.epoch = epoch

    def start_timer(self, action: str, epoch: Optional[int] = None,
                    caller: Optional[str] = None) -> None:
        if self.enabled:
            if caller is None:
                caller = self.caller or name_of_caller(sys._getframe(1))
            self._push(action, self.epoch if epoch is None else epoch, caller)

    def end_timer(self, action: str) -> Optional[Row]:
        """Returns the new row. Raises ValueError if this thread has not started the action."""
        if not self.enabled:
            return None
        end_ns = time.monotonic_ns()
        key = (threading.current_thread(), action)
        stack = self._started.get(key)
        if stack is None:
            raise ValueError(f"the timer '{action}' was not started on this thread; call "
                             f"start_timer('{action}') first")
        epoch, caller, start, start_ns, span = stack.pop()
        if not stack:
            del self._started[key]
        span.end()
        duration = (end_ns - start_ns) / 1e9
        row = Row(epoch, self.rank, caller, action, start, start + duration, duration, os.getpid(),
                  threading.get_native_id())
        self.rows.append(row)
        return row

    def timer(self, action: str, epoch: Optional[int] = None,
              caller: Optional[str] = None) -> "Timer":
        """start_timer and end_timer as a context manager."""
        if caller is None:
            caller = self.caller or name_of_caller(sys._getframe(1))
        return Timer(self, action, epoch, caller)

    def write_csv(self, path) -> None:
        import csv
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.fields)
            writer.writerows(self.rows)

    def write_json(self, path) -> None:
        """Writes a list of objects."""
        import json
        with open(path, "w", encoding="utf-8") as file:
            json.dump([row._asdict() for row in self.rows], file, indent=1)
            file.write("\n")

    def _push(self, action: str, epoch: int, caller: str) -> None:
        span = region(action, epoch=epoch, caller=caller).begin()
        stack = self._started.setdefault((threading.current_thread(), action), [])
        stack.append((epoch, caller, time.time(), time.monotonic_ns(), span))


class Timer:
    """One action of a TimeLogger as a context manager."""

    def __init__(self, logger: TimeLogger, action: str, epoch: Optional[int], caller: str) -> None:
        self._logger = logger
        self._arguments = (action, epoch, caller)

    def __enter__(self) -> "Timer":
        self._logger.start_timer(*self._arguments)
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self._logger.end_timer(self._arguments[0])


def rank_of_environment() -> int:
    variable = _place_variables(os.environ)[0]
    value = "" if variable is None else os.environ[variable]
    return int(value) if value.isdecimal() else 0


def name_of_caller(frame) -> str:
    """The name of the calling function; as `Class.method` from Python 3.11 on."""
    code = frame.f_code
    return getattr(code, "co_qualname", code.co_name)
