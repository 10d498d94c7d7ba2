"""Epoch: one pass over the dataset as a region. The regions inside inherit its number."""

from millrace._trace import current, region, set_epoch
from millrace.trace import names


class epoch:  # lower case, like `region`: it is used like a function
    """Sets the epoch of this thread within the block, which is itself a region.

        with trace.epoch(3):
            for batch in trace.iterate(loader): ...
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._previous = None
        self._span = None

    def __enter__(self) -> "epoch":
        self._previous = current()[0]
        set_epoch(self.number)
        self._span = region(names.EPOCH).begin()
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self._span.__exit__(kind, value, traceback)
        set_epoch(self._previous)
