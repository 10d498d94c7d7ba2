"""The loader: batches of training data that C++ threads read and decode ahead of time.

    loader = millrace.DataLoader(millrace.ImageFolder("train"), batch_size=256, shuffle=True)
    for images, labels in loader: ...

Works with PyTorch, with only NumPy, or with neither. See docs/guide/loader-python.md.
"""

from millrace.loader._concat import Concat
from millrace.loader._errors import SampleError
from millrace.loader._options import Cache, Local, Partial, Prefetch
from millrace.loader._orders import Balanced, Listed, Mixture, Weighted
from millrace.loader._shapes import Boxes, Mask, PaddedBatch, Ragged, RaggedBatch, Text
from millrace.loader._stats import Stats
from millrace.loader._world import World
from millrace.loader.data_loader import DataLoader
from millrace.loader.datasets import (ArrayFolder, Dataset, Files, Folders, Image, ImageFolder,
                                      RawFolder, Subset)

__all__ = ["ArrayFolder", "Balanced", "Boxes", "Cache", "Concat", "DataLoader", "Dataset", "Files",
           "Folders", "Image", "ImageFolder", "Listed", "Local", "Mask", "Mixture", "PaddedBatch",
           "Partial", "Prefetch", "Ragged", "RaggedBatch", "RawFolder", "SampleError", "Stats",
           "Subset", "Text", "Weighted", "World"]
