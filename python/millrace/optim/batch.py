"""AdaptiveBatch: the batch grows where a schedule would decay the rate, with fewer updates.

    schedule = polynomial(warmup=5, total=90)              # in epochs; or milestones(30, 60, 80)
    adaptive = AdaptiveBatch(optimizer, loader, schedule, max_batch=4096)
    for epoch in range(90):
        for images, labels in loader:                      # batches grow within the pass
            ...
            optimizer.step()
            adaptive.step()

The noise of SGD depends on rate / batch, so a larger batch does what a smaller rate does.
"""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

Schedule = Callable[[float], float]  # of the epochs done: the rate, as a part of the full rate


def polynomial(warmup: float, total: float, power: float = 2.0, start_factor: float = 0.1) -> Schedule:
    """Rises linearly from `start_factor` to 1 in `warmup` epochs, then falls to 0 at `total`."""
    if not 0 <= warmup < total or not power > 0 or not 0 < start_factor <= 1:
        raise ValueError(f"warmup is {warmup}, total {total}, power {power}, start_factor {start_factor}: the "
                         "warm-up must be shorter than the run, the power positive, and start_factor a part of 1")

    def part(epochs: float) -> float:
        if epochs < warmup:
            return start_factor + (1 - start_factor) * epochs / warmup
        return max(0.0, 1 - (epochs - warmup) / (total - warmup))**power

    return part


def milestones(*epochs: float, gamma: float = 0.1, warmup: float = 0.0, start_factor: float = 0.1) -> Schedule:
    """Multiplies the rate by `gamma` at each of the epochs."""
    if list(epochs) != sorted(epochs) or not 0 < gamma < 1 or not 0 < start_factor <= 1:
        raise ValueError(f"milestones {epochs} with gamma {gamma} and start_factor {start_factor}: the epochs must "
                         "increase, and the others be between 0 and 1")

    def part(done: float) -> float:
        rising = start_factor + (1 - start_factor) * done / warmup if done < warmup else 1.0
        return rising * gamma**sum(done >= each for each in epochs)

    return part


class AdaptiveBatch:
    """Sets the loader's batch size and the optimizer's rates after every step.

    loader: a millrace.DataLoader. Its batch size is the smallest, and the optimizer's rates are those
        for it: the full rate.
    schedule: the rate as a part of the full rate, a function of the epochs done.
    max_batch: the largest batch of a rank, for example what fits into memory. From there on the rate
        decays.
    growth: the batch is multiplied by this, whenever the schedule has decayed by as much.

    rate / batch is that of the schedule at every step: between two sizes the rate falls, and with the
    new size it is back at the full rate. A warm-up changes only the rate. With several ranks, each
    makes its own AdaptiveBatch with equal arguments and steps it after every step; all then change at
    the same batch.
    """

    def __init__(self, optimizer: Optimizer, loader: Any, schedule: Schedule, *, max_batch: int,
                 growth: float = 2.0) -> None:
        if not hasattr(loader, "set_batch_size"):
            raise TypeError(f"AdaptiveBatch changes the batch size of a millrace.DataLoader within an epoch; "
                            f"a {type(loader).__name__} cannot do that")
        state = loader.state_dict()
        self._size = state.get("positions", state["samples"])  # of an epoch
        self._world = loader.world.size
        if self._size == 0:
            raise ValueError("the dataset has no samples")
        if max_batch < loader.batch_size:
            raise ValueError(f"max_batch is {max_batch}, but the loader starts with {loader.batch_size}; the "
                             "batch only grows")
        if max_batch * self._world > self._size:
            raise ValueError(f"max_batch is {max_batch}: with {self._world} ranks a step would need "
                             f"{max_batch * self._world} samples, and an epoch has {self._size}; some worker "
                             f"would have none. Use at most {self._size // self._world}")
        if not growth > 1:
            raise ValueError(f"growth is {growth}; it must be larger than 1. 2 is usual")
        self._optimizer, self._loader, self._schedule = optimizer, loader, schedule
        self._base, self._max, self._growth = loader.batch_size, max_batch, float(growth)
        self._base_lrs = [group["lr"].clone() if isinstance(group["lr"], Tensor) else float(group["lr"])
                       for group in optimizer.param_groups]
        self._peak = 0.0  # the largest part of the rate so far
        self._epoch = loader.epoch
        self._taken = state["done"]  # samples of the epoch
        self.steps = 0
        self._apply()

    @property
    def batch_size(self) -> int:
        """The batch size of a rank in the next step."""
        return self._loader.batch_size

    @property
    def epochs(self) -> float:
        """Done, with the part of the current one."""
        return self._epoch + min(1.0, self._taken / self._size)

    def get_last_lr(self) -> list:
        return [group["lr"] for group in self._optimizer.param_groups]

    def step(self) -> None:
        """After every step of the optimizer."""
        if self._loader.epoch != self._epoch:
            self._epoch, self._taken = self._loader.epoch, 0
        self._taken += self._loader.batch_size * self._world
        self.steps += 1
        self._apply()

    def state_dict(self) -> dict:
        return {"epoch": self._epoch, "taken": self._taken, "steps": self.steps, "peak": self._peak,
                "base_lrs": list(self._base_lrs), "base_batch": self._base, "batch_size": self.batch_size}

    def load_state_dict(self, state: dict) -> None:
        """Sets the batch size of the loader too: load its own state before or after, as you like."""
        missing = {"epoch", "taken", "steps", "peak", "base_lrs", "base_batch", "batch_size"} - set(state)
        if missing:
            raise ValueError(f"the state has no {sorted(missing)[0]!r}: it is not that of an AdaptiveBatch")
        if state["base_batch"] != self._base or len(state["base_lrs"]) != len(self._base_lrs):
            raise ValueError(f"the state is of another run: it began with batches of {state['base_batch']} and "
                             f"{len(state['base_lrs'])} parameter groups, this one with {self._base} and "
                             f"{len(self._base_lrs)}")
        self._epoch, self._taken, self.steps = state["epoch"], state["taken"], state["steps"]
        self._peak, self._base_lrs = state["peak"], list(state["base_lrs"])
        self._loader.set_batch_size(state["batch_size"])
        self._apply()

    def _apply(self) -> None:
        part = self._schedule(self.epochs)
        if not 0 <= part <= 1 + 1e-9:
            raise ValueError(f"the schedule gives {part} at epoch {self.epochs:g}; it must be a part of the "
                             "full rate, 0 to 1")
        self._peak = max(self._peak, part)
        batch = max(self._batch_for(part / self._peak if self._peak > 0 else 1.0), self._loader.batch_size)
        if batch != self._loader.batch_size:
            self._loader.set_batch_size(batch)
        for group, rate in zip(self._optimizer.param_groups, self._base_lrs):
            wanted = rate * part * batch / self._base
            if isinstance(group["lr"], Tensor):
                group["lr"].copy_(wanted)
            else:
                group["lr"] = wanted

    def _batch_for(self, decayed: float) -> int:
        """The largest size of the series that is not more than the decay asks for."""
        if decayed <= 0:
            return self._max
        # A rate of exactly 1 / growth must not be missed by a rounding error.
        level = math.floor(math.log(1 / decayed, self._growth) + 1e-9)
        return min(self._max, round(self._base * self._growth**max(0, level)))
