"""Accumulation: several batches make one step, to emulate a batch that does not fit into memory.

    accumulation = Accumulation(model, batches=8)
    for images, labels in loader:
        with accumulation:                                 # DistributedDataParallel sends only the 8th time
            accumulation.part_of(criterion(model(images), labels)).backward()
        if accumulation.is_due:
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
"""

from contextlib import ExitStack
from typing import Any

from torch import Tensor


class Accumulation:
    """Counts batches, and keeps DistributedDataParallel from averaging gradients before the last.

    model: a module. If it has `no_sync()`, this is used for all batches of a step but the last.
    batches: batches per step.

    The forward pass must be inside the `with` too: DistributedDataParallel decides there. Batches that
    are left over at the end of an epoch belong to the first step of the next. Save checkpoints when a
    step is due: there is no state, because gradients are not saved.
    """

    def __init__(self, model: Any, batches: int) -> None:
        if isinstance(batches, bool) or not isinstance(batches, int) or batches < 1:
            raise ValueError(f"batches is {batches!r}; it must be a number of batches, at least 1")
        self._model = model
        self.batches = batches
        self._count = 0  # of the current step
        self._open = ExitStack()

    @property
    def is_due(self) -> bool:
        """Whether the gradients of a step are complete."""
        return self._count == self.batches

    def part_of(self, loss: Tensor) -> Tensor:
        """The share of a batch's mean loss in the mean over the whole step."""
        return loss / self.batches

    def __enter__(self) -> "Accumulation":
        if self.is_due:
            self._count = 0
        no_sync = getattr(self._model, "no_sync", None)
        if no_sync is not None and self._count + 1 < self.batches:
            self._open.enter_context(no_sync())
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self._open.close()
        if kind is None:
            self._count += 1
