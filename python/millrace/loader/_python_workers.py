"""Which workers make the batches of a Python dataset: processes, threads or none."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Optional

from millrace.loader._job import Job
from millrace.loader._options import natural
from millrace.loader._pinned import Pinning, pin
from millrace.loader._threads import Threads


@dataclass(frozen=True)
class WorkerOptions:
    """As given to DataLoader."""

    kind: Optional[str]
    count: Optional[int]
    prefetch: int
    memory_bytes: int
    context: Any
    init: Optional[Callable[[int], Any]]
    restarts: bool
    is_persistent: bool


def kind_of(options: WorkerOptions, job: Job) -> str:
    """What makes the batches: "process", "thread", or "none" (next() does)."""
    kind = options.kind or ("process" if _has_gil() and _can_fork(job) else "thread")
    if kind not in ("process", "thread"):
        raise ValueError(f"worker={options.kind!r}: expected 'process' or 'thread'")
    return "none" if options.count == 0 else kind


def job_of(options: WorkerOptions, job: Job, gpu: Optional[int]) -> Job:
    """The job, for batches that are pinned where they are made. Processes use memory that is pinned."""
    return replace(job, then=pin) if gpu is not None and kind_of(options, job) != "process" else job


def starter_of(options: WorkerOptions, job: Job, seed: int,
               gpu: Optional[int]) -> Optional[Callable[[], Any]]:
    """Starts the workers; None if there are none. gpu: to pin batches for."""
    kind = kind_of(options, job)
    count = 0 if options.count is None else natural("num_workers", options.count, 4096)
    if kind != "process":
        _refuse_process_options(options)
        if kind == "none":
            return None
        # More threads would only wait for the GIL.
        most = _cpu_count() if not _has_gil() else min(4, _cpu_count())
        return lambda: Threads(job, count or most, options.prefetch)
    from millrace.loader._processes import Options, Processes
    context = options.context
    if context is None or isinstance(context, str):
        context = multiprocessing.get_context(context)
    wanted = Options(context, count, _cpu_count(), options.prefetch, options.memory_bytes, seed,
                     options.init, options.restarts, options.is_persistent, None if gpu is None else Pinning(gpu))
    return lambda: Processes(job, wanted)


def _refuse_process_options(options: WorkerOptions) -> None:
    if options.init is not None:
        raise ValueError("worker_init_fn is for worker processes: remove worker='thread' or num_workers=0, "
                         "or call it once yourself")


def _can_fork(job: Job) -> bool:
    return job.kind != "array"  # slots need numpy


def _has_gil() -> bool:
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def _cpu_count() -> int:
    return len(os.sched_getaffinity(0))
