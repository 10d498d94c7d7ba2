"""Collate: makes a batch from samples of a Python dataset, like torch's default_collate."""

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional
import sys


class Collate:
    """Stacks tensors, arrays and numbers; puts str and bytes into a list; collates the elements of
    dicts, tuples and lists recursively."""

    def __init__(self, kind: str, convert_number_list: Callable[[list], Any]) -> None:
        self._kind = kind
        self._number_list = convert_number_list

    @classmethod
    def of(cls, kind: str) -> "Collate":
        if kind == "torch":
            import torch
            return cls(kind, lambda values: torch.tensor(
                values, dtype=torch.float64 if isinstance(values[0], float) else None))
        if kind == "numpy":
            import numpy
            return cls(kind, numpy.asarray)
        return cls(kind, list)

    def __call__(self, samples: Sequence) -> Any:
        first = samples[0]
        if (stacked := self._stack(first, samples)) is not None:
            return stacked
        if isinstance(first, (bool, int, float)):
            return self._number_list(list(samples))
        if isinstance(first, (str, bytes)) or first is None:
            return list(samples)
        if isinstance(first, Mapping):
            return {key: self([sample[key] for sample in samples]) for key in first}
        if isinstance(first, tuple) and hasattr(first, "_fields"):
            return type(first)(*(self(part) for part in self._parts(samples)))
        if isinstance(first, Sequence):
            return [self(part) for part in self._parts(samples)]
        raise TypeError(f"cannot make a batch of samples of type {type(first).__name__}: give "
                        "collate_fn=, or return tensors, arrays, numbers, str, dict or tuples")

    def _stack(self, first: Any, samples: Sequence) -> Optional[Any]:
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(first, torch.Tensor):
            return torch.stack(list(samples))
        if numpy is not None and isinstance(first, (numpy.ndarray, numpy.generic)):
            if first.dtype.kind not in "biufc":
                return list(samples)
            stacked = numpy.stack(list(samples))
            return torch.from_numpy(stacked) if self._kind == "torch" and torch else stacked
        return None

    @staticmethod
    def _parts(samples: Sequence) -> list:
        lengths = {len(sample) for sample in samples}
        if len(lengths) != 1:
            raise ValueError(f"samples of one batch have {min(lengths)} to {max(lengths)} elements; "
                             "all samples must have the same number")
        return list(zip(*samples))
