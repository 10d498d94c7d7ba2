"""Epoch: one pass over the dataset as a region, whose number the regions within inherit."""

from millrace._trace import current, region, set_epoch
from millrace.trace import names


class epoch:  # lower case as `region`: it is used like a function
    """The epoch of this thread while the block lasts; a region itself.

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
