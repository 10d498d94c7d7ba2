"""Millrace: finds and removes the data bottleneck of deep-learning training.

    from millrace import trace      # mark what a program does; `millrace trace` records it

    import millrace                 # batches that are ready when training needs them
    loader = millrace.DataLoader(millrace.ImageFolder("train"), batch_size=256, shuffle=True)

    from millrace import pls        # partial local shuffling over MPI

    from millrace import optim      # LARS and what else large batches need; with torch

    python -m millrace.lab          # how much shuffling a model needs; with torch

Importing this package needs only Python. It loads none of these parts; each is loaded on first use.
See docs/guide/loader-python.md and docs/guide/trace-python.md.
"""

TYPE_CHECKING = False  # type checkers assume True; importing typing costs a millisecond
if TYPE_CHECKING:
    from millrace import lab, loader, optim, pls, trace
    from millrace._version import __version__
    from millrace.loader import (ArrayFolder, Balanced, Boxes, Cache, Concat, DataLoader, Dataset, Files,
                                 Folders, Image, ImageFolder, Listed, Local, Mask, Mixture, PaddedBatch,
                                 Partial, Prefetch, Ragged, RaggedBatch, RawFolder, SampleError, Stats,
                                 Subset, Text, Weighted, World)

# A literal list: type checkers treat names that are missing here as private.
__all__ = ["ArrayFolder", "Balanced", "Boxes", "Cache", "Concat", "DataLoader", "Dataset", "Files",
           "Folders", "Image", "ImageFolder", "Listed", "Local", "Mask", "Mixture", "PaddedBatch",
           "Partial", "Prefetch", "Ragged", "RaggedBatch", "RawFolder", "SampleError", "Stats",
           "Subset", "Text", "Weighted", "World", "__version__", "lab", "loader", "optim", "pls", "trace"]
_MODULES = ("lab", "loader", "optim", "pls", "trace")


if not TYPE_CHECKING:  # otherwise type checkers would accept any name
    def __getattr__(name: str) -> object:
        import importlib
        if name == "__version__":
            return importlib.import_module("millrace._version").__version__
        if name in _MODULES:
            return importlib.import_module(f"millrace.{name}")
        if name in __all__:
            return getattr(importlib.import_module("millrace.loader"), name)
        raise AttributeError(f"module 'millrace' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
