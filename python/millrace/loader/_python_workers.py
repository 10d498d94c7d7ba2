"""Which workers make the batches of a Python dataset: processes, threads or none."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Optional

from millrace.loader._job import Job, WorkerOptions
from millrace.loader._pinned import Pinning
from millrace.loader._threads import Threads


def kind_of(worker: Optional[str], num_workers: Optional[int], output: str) -> str:
    """What makes the batches: "process", "thread", or "none" (next() does)."""
    can_fork = output != "array"  # slots need numpy
    kind = worker or ("process" if _has_gil() and can_fork else "thread")
    if kind not in ("process", "thread"):
        raise ValueError(f"worker={worker!r}: expected 'process' or 'thread'")
    return "none" if num_workers == 0 else kind


def starter_of(options: WorkerOptions, job: Job) -> Optional[Callable[[], Any]]:
    """Starts the workers; None if there are none."""
    if options.kind == "none":
        return None
    cpu_count = len(os.sched_getaffinity(0))
    if options.kind == "process":
        from millrace.loader._processes import Processes  # needs numpy
        if options.context is None or isinstance(options.context, str):
            options = replace(options, context=multiprocessing.get_context(options.context))
        pinning = None if options.gpu is None else Pinning(options.gpu)
        return lambda: Processes(job, options, cpu_count, pinning)
    # More threads would only wait for the GIL.
    most = min(4, cpu_count) if _has_gil() else cpu_count
    return lambda: Threads(job, options.count or most, options.prefetch)


def _has_gil() -> bool:
    return getattr(sys, "_is_gil_enabled", lambda: True)()
