"""Options of torch's DataLoader, so that a script only has to change the class.

Options with an equivalent here are translated. Options about worker processes are ignored. Options
that would change the training if they were ignored are refused, and the error names an alternative.
"""

import sys
from dataclasses import dataclass, replace
from typing import Any, Optional

from millrace.loader._options import Shuffle, natural
from millrace.loader._world import World

_SUPPORTED_SAMPLERS = ("SequentialSampler, RandomSampler without replacement, SubsetRandomSampler "
                       "and DistributedSampler")


@dataclass(frozen=True)
class Asked:
    """The requested samples, their order and the batch size."""

    dataset: Any
    batch_size: Any
    shuffle: Shuffle
    seed: int
    drop_last: bool
    world: Optional[World]


def without_samplers(asked: Asked, sampler: Any, batch_sampler: Any, generator: Any) -> Asked:
    """The same request, expressed only with dataset, shuffle, seed and ranks."""
    if batch_sampler is not None:
        sampler, asked = _of_batches(asked, sampler, batch_sampler)
    if sampler is not None:
        asked = _of_sampler(asked, sampler)
        generator = generator or getattr(sampler, "generator", None)
    return asked if generator is None else replace(asked, seed=_seed_of(generator, asked.seed))


def refuse_iterable(dataset: Any) -> None:
    data = _torch_data()
    is_stream = data is not None and isinstance(dataset, data.IterableDataset)
    if is_stream or not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"the order of {type(dataset).__name__} cannot be known in advance: a dataset "
                        "needs __len__ and __getitem__, and an iterable has its own order. "
                        "millrace.Files reads tar and TFRecord shards in any order")


def pace_of(num_workers: Optional[int], batches: Optional[int],
            prefetch_factor: Optional[int]) -> dict[str, Any]:
    """The number of threads and of prefetched batches. 0: the loader chooses."""
    if prefetch_factor is not None and num_workers != 0:
        if batches is not None or num_workers is None:
            raise ValueError(f"prefetch_factor={prefetch_factor} is per worker: give num_workers too, "
                             "or prefetch=millrace.Prefetch(batches=...), for all workers together")
        batches = prefetch_factor * num_workers
    return {"thread_count": natural("num_workers", num_workers or 0, 4096),
            "prefetch_batches": natural("prefetch_factor", batches or 0, 2**32 - 1)}


def is_subset(dataset: Any) -> bool:
    """Whether it is exactly torch's Subset: a derived class may do more."""
    data = _torch_data()
    return data is not None and type(dataset) is data.Subset


def epoch_of(sampler: Any) -> Optional[int]:
    """The epoch last given to a DistributedSampler's set_epoch(); None for other samplers."""
    return sampler.epoch if _is_distributed(sampler) else None


def _torch_data() -> Any:
    # If torch is not imported, no object can be an instance of its classes.
    return getattr(getattr(sys.modules.get("torch"), "utils", None), "data", None)


def _is_distributed(sampler: Any) -> bool:
    # By its attributes: samplers of other libraries copy them.
    wanted = ("num_replicas", "rank", "shuffle", "seed", "drop_last", "epoch")
    return all(hasattr(sampler, name) for name in wanted)


def _of_batches(asked: Asked, sampler: Any, batch_sampler: Any) -> tuple:
    if sampler is not None or asked.shuffle or asked.drop_last or asked.batch_size != 1:
        raise ValueError("batch_sampler replaces batch_size, shuffle, sampler and drop_last: give one "
                         "or the others")
    data = _torch_data()
    if data is None or type(batch_sampler) is not data.BatchSampler:
        raise ValueError(f"batch_sampler={type(batch_sampler).__name__}: the order must be known in "
                         f"advance. Supported is a BatchSampler of {_SUPPORTED_SAMPLERS}. Otherwise "
                         "give batch_size= and shuffle=")
    return batch_sampler.sampler, replace(asked, batch_size=batch_sampler.batch_size,
                                          drop_last=batch_sampler.drop_last)


def _of_sampler(asked: Asked, sampler: Any) -> Asked:
    if asked.shuffle:
        raise ValueError("give a sampler or shuffle, not both")
    if _is_distributed(sampler):
        return replace(asked, shuffle=sampler.shuffle, seed=sampler.seed,
                       world=World.find(sampler.rank, sampler.num_replicas),
                       drop_last=asked.drop_last or sampler.drop_last)
    data = _torch_data()
    kind = type(sampler)
    if data is not None and kind is data.SubsetRandomSampler:
        chosen = data.Subset(asked.dataset, list(sampler.indices))
        return replace(asked, dataset=chosen, shuffle=True)
    if data is not None and _is_of_all(sampler, asked.dataset):
        if kind is data.SequentialSampler:
            return replace(asked, shuffle=False)
        if kind is data.RandomSampler and not sampler.replacement:
            return replace(asked, shuffle=True)
    raise ValueError(f"sampler={kind.__name__}: the order must be known in advance. Supported are "
                     f"{_SUPPORTED_SAMPLERS} of the whole dataset. Otherwise remove it and give "
                     "shuffle= and seed=, or make a loader of Subset(dataset, list(sampler)) for "
                     "every epoch")


def _is_of_all(sampler: Any, dataset: Any) -> bool:
    return hasattr(sampler, "__len__") and len(sampler) == len(dataset)


def _seed_of(generator: Any, seed: int) -> int:
    if seed != 0:
        raise ValueError("give a generator or a seed, not both")
    if not hasattr(generator, "initial_seed"):
        raise TypeError(f"generator={type(generator).__name__}: give a torch.Generator, or seed=")
    return generator.initial_seed()
