"""What keeps accuracy at large batches: LARS, schedules, growing batches and compressed gradients.

    from millrace import optim
    optimizer = optim.LARS(optim.parameter_groups(model), lr=optim.scaled_lr(0.1, batch=8192))
    schedule = optim.WarmupPolynomial(optimizer, warmup_steps=780, total_steps=14040)

Needs torch 1.13 or newer. See docs/guide/optim.md.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("millrace.optim needs PyTorch: install torch 1.13 or newer") from error

from millrace.optim.accumulate import Accumulation
from millrace.optim.batch import AdaptiveBatch, milestones, polynomial
from millrace.optim.compression import GradientCompression
from millrace.optim.groups import parameter_groups
from millrace.optim.lars import LARS
from millrace.optim.schedule import WarmupPolynomial, scaled_lr

__all__ = ["LARS", "Accumulation", "AdaptiveBatch", "GradientCompression", "WarmupPolynomial",
           "milestones", "parameter_groups", "polynomial", "scaled_lr"]
