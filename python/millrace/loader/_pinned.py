"""Pinned memory: which GPU to pin for, and how to pin batches of Python datasets."""

from collections.abc import Callable, Mapping
from typing import Any, Optional


def gpu_to_pin_for() -> Optional[int]:
    """The CUDA index of this process's GPU. None without a GPU: then, as in torch, nothing is
    pinned."""
    import torch
    has_cuda = torch.version.cuda is not None and torch.cuda.is_available()
    return torch.cuda.current_device() if has_cuda else None


def then_pin(transform: Optional[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """For Python datasets: like torch, copies a batch into pinned memory on the thread that made
    it."""
    return pin if transform is None else lambda batch: pin(transform(batch))


def pin(value: Any) -> Any:
    if hasattr(value, "pin_memory"):
        return value.pin_memory()
    if isinstance(value, Mapping):
        return {key: pin(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(pin, value))
    return type(value)(map(pin, value)) if isinstance(value, (list, tuple)) else value
