"""Learning rates of large batches: linear scaling, warm-up, polynomial decay.

    lr = scaled_lr(0.1, batch=8192)                        # 3.2
    optimizer = LARS(parameter_groups(model), lr=lr)
    schedule = WarmupPolynomial(optimizer, warmup_steps=5 * len(loader), total_steps=90 * len(loader))
    for ...:
        optimizer.step()
        schedule.step()                                    # after every step, not every epoch
"""

from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import _LRScheduler  # LRScheduler since torch 2.0, which keeps this name


def scaled_lr(base: float, batch: int, base_batch: int = 256) -> float:
    """Linear scaling: base * batch / base_batch. `batch` counts the samples of all ranks, and of all
    steps that are accumulated."""
    if not base > 0 or base == float("inf"):
        raise ValueError(f"the base rate is {base}; it must be positive")
    for name, value in (("batch", batch), ("base_batch", base_batch)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; it must be a number of samples, at least 1")
    return base * batch / base_batch


class WarmupPolynomial(_LRScheduler):
    """Raises the rate linearly from the optimizer's lr * start_factor to lr in `warmup_steps`, then
    lets it fall to lr * end_factor as (1 - t)**power, where t is the part of the remaining steps done.

    warmup_steps, total_steps: optimizer steps; or epochs, if step() is called once per epoch. The
        warm-up is part of the total. Call `in_epochs` to give epochs and step once per batch.
    power: 2 as published; 1 is linear.
    start_factor, end_factor: where the warm-up begins, and where the decay ends.

    No step of the run has the rate 0: the warm-up is already one step old at the first step, and the
    decay ends after the last. Later steps have lr * end_factor.
    """

    def __init__(self, optimizer: Optimizer, warmup_steps: int, total_steps: int, power: float = 2.0, *,
                 start_factor: float = 0.0, end_factor: float = 0.0, last_epoch: int = -1) -> None:
        if not 0 <= warmup_steps < total_steps:
            raise ValueError(f"warmup_steps is {warmup_steps} and total_steps {total_steps}: the warm-up "
                             "must be shorter than the run, and neither may be negative")
        if not power > 0:
            raise ValueError(f"power is {power}; it must be positive. 2 is usual for LARS")
        for name, value in (("start_factor", start_factor), ("end_factor", end_factor)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is {value}; it is a part of the full rate, 0 to 1")
        self.warmup_steps, self.total_steps, self.power = warmup_steps, total_steps, float(power)
        self.start_factor, self.end_factor = start_factor, end_factor
        super().__init__(optimizer, last_epoch)

    @classmethod
    def in_epochs(cls, optimizer: Optimizer, warmup: float, total: float, steps_per_epoch: int,
                  **options: Any) -> "WarmupPolynomial":
        """The same, of epochs with a number of steps each. Step it after every batch."""
        if steps_per_epoch < 1:
            raise ValueError(f"steps_per_epoch is {steps_per_epoch}; an epoch without a step: does this "
                             "worker have samples, and at least a batch of them?")
        return cls(optimizer, round(warmup * steps_per_epoch), round(total * steps_per_epoch), **options)

    def get_lr(self) -> list:
        return [base * self.factor(self.last_epoch) for base in self.base_lrs]

    def factor(self, step: int) -> float:
        """The rate of a step, counted from 0, as a part of the full rate."""
        if step < self.warmup_steps:
            return self.start_factor + (1 - self.start_factor) * (step + 1) / (self.warmup_steps + 1)
        left = max(0.0, 1 - (step - self.warmup_steps) / (self.total_steps - self.warmup_steps))
        return self.end_factor + (1 - self.end_factor) * left**self.power
