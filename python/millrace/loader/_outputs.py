"""Outputs: the loader's arrays as torch tensors, as numpy arrays, or unconverted.

No conversion copies. The loader owns the memory, and reuses it when the last tensor is released.
"""

import importlib
from typing import Any, Callable, Optional

KINDS = ("torch", "numpy", "array")


def choose(kind: Optional[str]) -> str:
    """`kind`; by default the first of torch and numpy that can be imported, or "array"."""
    if kind is not None:
        if kind not in KINDS:
            raise ValueError(f"output={kind!r}: expected {', '.join(KINDS)} or dict")
        return kind
    return next((name for name in ("torch", "numpy") if _module(name) is not None), "array")


def converter(kind: str) -> Callable[[Any], Any]:
    """A function that converts an Array of the extension."""
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
        # torch before 2.1 does not accept booleans over DLPack.
        if array.dtype == "bool":
            return from_dlpack(array.as_bytes().__dlpack__()).view(torch.bool)
        return from_dlpack(array.__dlpack__())

    return convert


def _numpy_converter(numpy: Any) -> Callable[[Any], Any]:
    def convert(array: Any) -> Any:
        if array.dtype == "bfloat16":
            raise ValueError("numpy has no bfloat16; use output='torch', or another dtype")
        return numpy.asarray(array)

    return convert
