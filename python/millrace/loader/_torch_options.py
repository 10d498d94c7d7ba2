"""Options of torch's DataLoader, so that a script only has to change the class.

Options with an equivalent here are translated. Options about worker processes are ignored. Options
that would change the training if they were ignored are refused, and the error names an alternative.
"""

import sys
from typing import Any, Optional

from millrace.loader._options import natural


def refuse_iterable(dataset: Any) -> None:
    data = torch_data()
    is_stream = data is not None and isinstance(dataset, data.IterableDataset)
    if is_stream or not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"the order of {type(dataset).__name__} cannot be known in advance: a dataset "
                        "needs __len__ and __getitem__, and an iterable has its own order. "
                        "millrace.Files reads tar and TFRecord shards in any order")


def refuse_empty(dataset: Any) -> None:
    # torch refuses it only if it is shuffled, and otherwise trains nothing.
    if len(dataset) == 0:
        raise ValueError(f"{_name_of(dataset)} is an empty dataset: there is nothing to load. Check the files, the "
                         "list or the split that it was made of")


def _name_of(dataset: Any) -> str:
    """Its class, and what it was made of: files, a folder, or another dataset."""
    arguments, options = getattr(dataset, "_made_of", ((), {}))
    made_of = next(iter((*arguments, *options.values())), None)
    whole = getattr(dataset, "dataset", None)
    inner = (_name_of(whole) if whole is not None else
             repr(getattr(dataset, "root", made_of))[:200] if hasattr(dataset, "root") or made_of is not None else "")
    return f"{type(dataset).__name__}({inner})" if inner else type(dataset).__name__


def pace_of(num_workers: Optional[int], batches: Optional[int],
            prefetch_factor: Optional[int]) -> tuple[int, int]:
    """The number of threads and of prefetched batches. 0: the loader chooses."""
    if prefetch_factor is not None and num_workers != 0:
        if batches is not None or num_workers is None:
            raise ValueError(f"prefetch_factor={prefetch_factor} is per worker: give num_workers too, "
                             "or prefetch=millrace.Prefetch(batches=...), for all workers together")
        batches = prefetch_factor * num_workers
    return natural("num_workers", num_workers or 0, 4096), natural("prefetch_factor", batches or 0, 2**32 - 1)


def is_subset(dataset: Any) -> bool:
    """Whether it is exactly torch's Subset: a derived class may do more."""
    data = torch_data()
    return data is not None and type(dataset) is data.Subset


def torch_data() -> Any:
    # If torch is not imported, no object can be an instance of its classes.
    return getattr(getattr(sys.modules.get("torch"), "utils", None), "data", None)


def is_distributed(sampler: Any) -> bool:
    """Whether it is a DistributedSampler, or looks like one."""
    # By its attributes: samplers of other libraries copy them.
    wanted = ("num_replicas", "rank", "shuffle", "seed", "drop_last", "epoch")
    return all(hasattr(sampler, name) for name in wanted)
