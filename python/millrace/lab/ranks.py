"""Real ranks: processes that each have some of the workers, and average their gradients."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Optional

from millrace.lab._errors import LabError

RENDEZVOUS = "MILLRACE_LAB_STORE"  # the file by which ranks that start() has started find each other


def start(arguments: list, count: int) -> int:
    """Runs this command as `count` ranks. If one fails, the others are stopped."""
    with tempfile.TemporaryDirectory(prefix="millrace-lab-") as folder:
        processes: list = []
        # By default it would end this process alone, and leave the ranks behind.
        old_handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            for rank in range(count):
                environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
                               RENDEZVOUS: os.path.join(folder, "store")}
                environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
                processes.append(subprocess.Popen([sys.executable, "-m", "millrace.lab", *arguments], env=environment))
            return _wait(processes)
        except OSError as error:
            raise LabError(f"cannot start rank {len(processes)} of {count}: {error.strerror}; give fewer --processes") \
                from None
        finally:
            signal.signal(signal.SIGTERM, old_handler)
            for process in processes:
                if process.poll() is None:
                    process.terminate()
                process.wait()


def _wait(processes: list) -> int:
    while True:
        codes = [process.poll() for process in processes]
        for code in codes:
            if code:  # a signal is negative
                return code if code > 0 else 1
        if None not in codes:
            return 0
        time.sleep(0.02)


@contextmanager
def joined(backend: Optional[str]) -> Iterator[None]:
    """Connects the ranks, if there are any."""
    if backend is None:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise LabError("torchrun started several ranks, but each would train alone: give --ranks gloo or nccl")
        yield
        return
    import torch.distributed as dist
    if not dist.is_available():
        raise LabError("this PyTorch has no torch.distributed: leave --ranks out")
    store = os.environ.get(RENDEZVOUS)
    try:
        if store:
            dist.init_process_group(backend, init_method=f"file://{store}", rank=int(os.environ["RANK"]),
                                    world_size=int(os.environ["WORLD_SIZE"]))
        else:
            dist.init_process_group(backend)
    except (RuntimeError, ValueError) as error:
        raise LabError(f"--ranks {backend}: the ranks cannot connect: {error}") from None
    try:
        yield
    finally:
        dist.destroy_process_group()
