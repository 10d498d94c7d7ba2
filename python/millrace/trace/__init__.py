"""Regions: named intervals that a Python program marks and `millrace trace` records.

    from millrace import trace

    @trace.region("decode")
    def decode(data): ...

    for epoch in range(epochs):
        with trace.epoch(epoch):
            for batch in trace.iterate(loader, "fetch"):
                with trace.region("compute"):
                    train(batch)

If the program is not traced, all of this costs almost nothing: a decorated function is the function
itself. If it is traced, a decorated call or a `with` costs well under a microsecond.

A PyTorch training script needs none of this: `python -m millrace.trace train.py` marks what PyTorch
does. `millrace.trace.names` has the names that reports recognize.
"""

from millrace._trace import (RegionFunction, Span, current, enabled, iterate, mark, region,
                             set_epoch, set_rank, set_step)
from millrace.trace import names
from millrace.trace._epoch import epoch
from millrace.trace._time_logger import TimeLogger

__all__ = ["RegionFunction", "Span", "TimeLogger", "current", "enabled", "epoch", "iterate", "mark",
           "names", "region", "set_epoch", "set_rank", "set_step"]
