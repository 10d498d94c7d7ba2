"""Pinned memory: which GPU to pin for, and how to pin batches of Python datasets."""

import mmap
import os
from collections.abc import Mapping
from typing import Any, Optional

from millrace.loader._native import native


def gpu_to_pin_for(kind: str) -> Optional[int]:
    """The CUDA index of this process's GPU. None without a GPU: then, as in torch, nothing is
    pinned."""
    if kind != "torch":
        raise ValueError("pin_memory=True needs output='torch'")
    import torch
    has_cuda = torch.version.cuda is not None and torch.cuda.is_available()
    return torch.cuda.current_device() if has_cuda else None


class Pinning:
    """Pins the memory of worker processes, and says when the GPU no longer reads a batch in it.

    A program may start an asynchronous copy and release the batch at once. torch knows only its own pinned
    memory; a fence of all work so far tells when ours can be written again.
    """

    def __init__(self, gpu: int) -> None:
        self._native = native.Pinning(gpu)
        self.new_fence = self._native.new_fence

    def map(self, file: int, size_bytes: int, offset: int) -> mmap.mmap:
        import numpy  # here: the loader works without it
        mapped = _PinnedMap(file, size_bytes, offset=offset)
        address = numpy.frombuffer(mapped, numpy.uint8).ctypes.data
        if not self._native.pin(address, size_bytes):
            raise RuntimeError(f"cannot pin {size_bytes} bytes for the GPU; give pin_memory=False, or raise "
                               "the limit of locked memory (ulimit -l)")
        mapped.pinned = self._native, address, os.getpid()
        return mapped


class _PinnedMap(mmap.mmap):
    pinned: Any = None

    def __del__(self) -> None:
        """Before the memory is unmapped: its addresses may be mapped, and pinned, again."""
        if self.pinned is None:
            return
        gpu, address, process = self.pinned
        if process == os.getpid():
            gpu.new_fence().wait()  # a copy may be under way
            gpu.unpin(address)


def pin(value: Any) -> Any:
    if hasattr(value, "pin_memory"):
        return value.pin_memory()
    if isinstance(value, Mapping):
        return {key: pin(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(pin, value))
    return type(value)(map(pin, value)) if isinstance(value, (list, tuple)) else value
