"""Regions: how a Python program says what it is doing, for `millrace trace` to record.

    from millrace import trace

    @trace.region("decode")
    def decode(data): ...

    for epoch in range(epochs):
        with trace.epoch(epoch):
            for batch in trace.iterate(loader, "fetch"):
                with trace.region("compute"):
                    train(batch)

Where the program is not traced, all of this does next to nothing: decorated functions are the
functions themselves. Where it is, a decorated call and a `with` cost well under a microsecond.

A training script of PyTorch needs none of it: `python -m millrace.trace train.py` marks what
PyTorch does. The names that reports know are in `millrace.trace.names`.
"""

from millrace._trace import (RegionFunction, Span, current, enabled, iterate, mark, region,
                             set_epoch, set_rank, set_step)
from millrace.trace import names
from millrace.trace._epoch import epoch
from millrace.trace._time_logger import TimeLogger

__all__ = ["RegionFunction", "Span", "TimeLogger", "current", "enabled", "epoch", "iterate", "mark",
           "names", "region", "set_epoch", "set_rank", "set_step"]
