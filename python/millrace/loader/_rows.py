"""Rows: makes a batch from samples one by one, each copied into its row as soon as it is there.

Gives what torch's default_collate gives: tensors, arrays and numbers are stacked; str, bytes and None
become a list; dicts, tuples and lists become a batch of each of their elements.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

# Makes an array of a shape and a numpy dtype: anywhere, or in the memory of a batch.
NewArray = Callable[[tuple, Any], Any]
_SMALL_BYTES = 1024


def collate(samples: Sequence, kind: str) -> Any:
    rows = rows_of(samples[0], len(samples), kind)
    for row, sample in enumerate(samples):
        rows.add(row, sample)
    return rows.finish(len(samples))


def rows_of(first: Any, count: int, kind: str, new: Optional[NewArray] = None) -> Any:
    """The rows of up to `count` samples like `first`. kind: "torch", "numpy", or "array" for lists."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(first, torch.Tensor):
        if first.layout != torch.strided or first.is_cuda or first.dtype == torch.bfloat16:
            return _List(count, torch.stack)
        return _Array(first.shape, first.detach().numpy().dtype, count, "torch", new)
    if numpy is not None and isinstance(first, (numpy.ndarray, numpy.generic)):
        if first.dtype.kind not in "biufc":
            return _List(count, list)
        return _Array(first.shape, first.dtype, count, kind, new)
    if isinstance(first, (bool, int, float)) and kind != "array":
        number = next(each for each in (bool, int, float) if isinstance(first, each))
        return _Array((), numpy.dtype(number), count, kind, new)
    if isinstance(first, (bool, int, float, str, bytes)) or first is None:
        return _List(count, list)
    if isinstance(first, Mapping):
        return _Elements(first, list(first), lambda parts: dict(zip(first, parts)), count, kind, new)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return _Elements(first, range(len(first)), lambda parts: type(first)(*parts), count, kind, new)
    if isinstance(first, Sequence):
        return _Elements(first, range(len(first)), list, count, kind, new)
    raise TypeError(f"cannot make a batch of samples of type {type(first).__name__}: give "
                    "collate_fn=, or return tensors, arrays, numbers, str, dict or tuples")


class _Array:
    def __init__(self, shape: Any, dtype: Any, count: int, kind: str, new: Optional[NewArray]) -> None:
        import numpy
        self._shape = tuple(shape)
        self._array = (new or numpy.empty)((count, *self._shape), dtype)
        self._values = self._array
        if kind == "torch":
            import torch
            self._values = torch.from_numpy(self._array)
        # Large values are copied while they are in the CPU's cache, small ones all at once: a copy costs
        # a microsecond, whatever its size.
        self._small: Optional[list] = [] if self._array[:1].nbytes <= _SMALL_BYTES else None

    def add(self, row: int, value: Any) -> None:
        shape = getattr(value, "shape", ())
        if shape != self._shape:
            raise ValueError(f"its shape is {list(shape)}, but the first sample of the batch has "
                             f"{list(self._shape)}. Make them equal in the dataset, or give collate_fn=")
        if self._small is not None:
            self._small[row:] = [value]  # in place of one whose sample turned out to be bad
        else:
            # A row of the array costs a third of a row of the tensor.
            self._array[row] = value.detach().numpy() if hasattr(value, "detach") else value

    def finish(self, count: int) -> Any:
        if self._small is not None:
            values = self._small[:count]
            if hasattr(values[0], "detach"):
                import torch
                with torch.no_grad():
                    torch.stack(values, out=torch.from_numpy(self._array[:count]))
            else:
                self._array[:count] = values
        return self._values[:count]


class _List:
    def __init__(self, count: int, make: Callable[[list], Any]) -> None:
        self._values: list = [None] * count
        self._make = make

    def add(self, row: int, value: Any) -> None:
        self._values[row] = value

    def finish(self, count: int) -> Any:
        return self._make(self._values[:count])


class _Elements:
    def __init__(self, first: Any, keys: Any, make: Callable[[list], Any], count: int, kind: str,
                 new: Optional[NewArray]) -> None:
        self._keys = keys
        self._parts = [rows_of(first[key], count, kind, new) for key in keys]
        self._make = make

    def add(self, row: int, value: Any) -> None:
        if len(value) != len(self._keys):
            raise ValueError(f"it has {len(value)} elements, but the first sample of the batch has "
                             f"{len(self._keys)}. All samples of a batch must have the same number")
        for key, part in zip(self._keys, self._parts):
            part.add(row, value[key])

    def finish(self, count: int) -> Any:
        return self._make([part.finish(count) for part in self._parts])
