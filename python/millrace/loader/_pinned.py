"""Pinned memory: where CUDA's functions for it are, of the runtime that torch has loaded."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Optional

FUNCTIONS = ("cudaSetDevice", "cudaHostRegister", "cudaHostUnregister")


def find_cuda() -> Optional[tuple]:
    """The addresses of the three functions and this process's device; None without a GPU."""
    import torch
    if not torch.cuda.is_available():
        return None
    device = torch.cuda.current_device()
    for path in _loaded("libcudart"):
        library = ctypes.CDLL(path)
        if all(hasattr(library, name) for name in FUNCTIONS):
            addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                         for name in FUNCTIONS]
            return (*addresses, device)
    return None


def then_pin(transform: Optional[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """For batches of Python datasets, in the thread that makes them: these are copied, as by torch."""
    return pin if transform is None else lambda batch: pin(transform(batch))


def pin(value: Any) -> Any:
    if hasattr(value, "pin_memory"):
        return value.pin_memory()
    if isinstance(value, Mapping):
        return {key: pin(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(pin, value))
    return type(value)(map(pin, value)) if isinstance(value, (list, tuple)) else value


def _loaded(name: str) -> list:
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if name in line}
    return sorted(path for path in paths if path.startswith("/"))
