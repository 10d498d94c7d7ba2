"""Outputs: arrays of the loader as tensors of torch, arrays of numpy, or as they are.

None of them copies. The memory is the loader's, and is used again when the last tensor lets go.
"""

import importlib
from typing import Any, Callable, Optional

KINDS = ("torch", "numpy", "array")


def choose(kind: Optional[str]) -> str:
    """`kind`, or the best that can be imported."""
    if kind is not None:
        if kind not in KINDS:
            raise ValueError(f"output={kind!r}: there are {', '.join(KINDS)} and dict")
        return kind
    return next((name for name in ("torch", "numpy") if _module(name) is not None), "array")


def converter(kind: str) -> Callable[[Any], Any]:
    """What turns an Array of the extension into the output."""
    if kind == "array":
        return lambda array: array
    module = _module(kind)
    if module is None:
        raise ImportError(f"output='{kind}' needs the module {kind}, which cannot be imported here")
    return _torch_converter(module) if kind == "torch" else _numpy_converter(module)


def _module(name: str) -> Optional[Any]:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _torch_converter(torch: Any) -> Callable[[Any], Any]:
    from_dlpack = torch.utils.dlpack.from_dlpack

    def convert(array: Any) -> Any:
        # torch before 2.1 takes no booleans by DLPack.
        if array.dtype == "bool":
            return from_dlpack(array.as_bytes().__dlpack__()).view(torch.bool)
        return from_dlpack(array.__dlpack__())

    return convert


def _numpy_converter(numpy: Any) -> Callable[[Any], Any]:
    def convert(array: Any) -> Any:
        if array.dtype == "bfloat16":
            raise ValueError("numpy has no bfloat16; take output='torch', or another dtype")
        return numpy.asarray(array)

    return convert
