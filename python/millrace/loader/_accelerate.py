"""Says to Accelerate when a loader is at its last batch: `accumulate()` then takes the last step of the epoch.

Accelerate asks the loaders that its prepare() has wrapped, and prepare() returns other classes than torch's as
they are. So the loader enters itself, with `end_of_dataloader` and `remainder`, into the list of those that are
under way.
"""

import sys
from typing import Any


def begin(loader: Any) -> None:
    """Before the first batch of a pass."""
    state = _state()
    if state is not None:
        state._remove_dataloader(loader)  # it may be there from a pass that did not end
        loader.end_of_dataloader = False
        state._add_dataloader(loader)


def end(loader: Any) -> None:
    state = _state()
    if state is not None:
        state._remove_dataloader(loader)
    loader.end_of_dataloader = False


def _state() -> Any:
    """Accelerate's GradientState, which all of the program shares; None without an Accelerator."""
    kind = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    return None if kind is None or not kind._shared_state else kind()
