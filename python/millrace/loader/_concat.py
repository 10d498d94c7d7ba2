"""Concat: several datasets that C++ reads, as one."""

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, Optional

from millrace.loader._native import native
from millrace.loader.datasets import Dataset


class Concat(Dataset):
    """Several datasets that C++ reads, one after the other, such as the parts of a mixture.

        both = millrace.Concat([millrace.ImageFolder("web"), millrace.ImageFolder("scans", flip=0)])
        loader = millrace.DataLoader(both, 256, shuffle=millrace.Mixture([0.8, 0.2]))

    Each part keeps its own options, but all must give the same fields. Labels are those of the parts.
    map: as in `Files`, for the samples of all parts.
    """

    def __init__(self, datasets: Iterable[Dataset], *, map: Optional[Callable[[Any], Any]] = None) -> None:
        self.datasets = list(datasets)
        self._map = map
        for number, dataset in enumerate(self.datasets):
            if not isinstance(dataset, Dataset) or dataset._decoder is None:
                raise TypeError(f"Concat: dataset {number} is a {type(dataset).__name__}, whose samples are "
                                "made in Python; concatenate those with torch.utils.data.ConcatDataset")
        self._source = native.concat_sources([dataset._source for dataset in self.datasets])
        self._decoder = native.concat_decoder([dataset._decoder for dataset in self.datasets],
                                              [len(dataset) for dataset in self.datasets])
        for number, dataset in enumerate(self.datasets):
            if dataset._map is not None:
                raise ValueError(f"Concat: dataset {number} has its own map=. Give map= to Concat, for all")
            if dataset._shapes != self.datasets[0]._shapes:
                raise ValueError(f"Concat: a field of dataset {number} has another form than in dataset 0. "
                                 "Give all the same Ragged, Text, Mask or Boxes")
        self._shapes = self.datasets[0]._shapes
        with_labels = [dataset.has_labels for dataset in self.datasets]
        if len(set(with_labels)) > 1:
            raise ValueError(f"Concat: dataset {with_labels.index(True)} has labels, but dataset "
                             f"{with_labels.index(False)} has none")

    @property
    def cumulative_sizes(self) -> list:
        """Where each dataset ends, as in torch's ConcatDataset."""
        return list(accumulate(len(dataset) for dataset in self.datasets))

    @property
    def has_labels(self) -> bool:
        return self.datasets[0].has_labels
