"""Pinned memory: which GPU to pin for, and how to pin batches of Python datasets."""

from collections.abc import Callable, Mapping
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
        self.new_fence = native.gpu_fences(gpu)

    def register(self, address: int, size_bytes: int) -> None:
        """Pins memory for as long as it is mapped."""
        import torch
        status = torch.cuda.cudart().cudaHostRegister(address, size_bytes, 1)  # 1: for every GPU
        if int(status) != 0:
            raise RuntimeError(f"cannot pin {size_bytes} bytes for the GPU (CUDA error {int(status)}); give "
                               "pin_memory=False, or raise the limit of locked memory (ulimit -l)")


def pin(value: Any) -> Any:
    if hasattr(value, "pin_memory"):
        return value.pin_memory()
    if isinstance(value, Mapping):
        return {key: pin(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(pin, value))
    return type(value)(map(pin, value)) if isinstance(value, (list, tuple)) else value
