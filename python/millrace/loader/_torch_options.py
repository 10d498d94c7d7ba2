"""Options of torch's DataLoader in our words, so that a script changes its class and nothing else.

What has a meaning here is taken over; what is about worker processes means nothing and is let pass;
what would change the training if it were ignored is refused, with what to give instead.
"""

import sys
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from millrace.loader._options import natural

_TAKEN = ("a SequentialSampler, a RandomSampler without replacement, a SubsetRandomSampler or a "
          "DistributedSampler")


@dataclass(frozen=True)
class Asked:
    """Which samples come in which order and how many at once, as it was asked for."""

    dataset: Any
    batch_size: Any
    shuffle: Union[bool, str, None]
    seed: int
    drop_last: bool
    rank: Optional[int]
    world_size: Optional[int]


def without_samplers(asked: Asked, sampler: Any, batch_sampler: Any, generator: Any) -> Asked:
    """The same, said by dataset, shuffle and seed alone."""
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
        raise TypeError(f"{type(dataset).__name__} is no dataset whose order can be known ahead: it "
                        "needs __len__ and __getitem__, and an iterable has its own order. Tar and "
                        "TFRecord shards are read in any order by millrace.Files")


def refuse_worker_init(worker_init_fn: Any) -> None:
    if worker_init_fn is not None:
        raise ValueError("worker_init_fn: there are no worker processes. Call it once yourself where "
                         "it sets something up; random crops and flips follow from seed= and the "
                         "epoch, in every thread")


def pace_of(num_threads: Optional[int], num_workers: Optional[int], prefetch: Optional[int],
            prefetch_factor: Optional[int]) -> dict[str, Any]:
    """Threads and batches ahead; 0 is what the loader finds best."""
    ahead = prefetch
    if prefetch_factor is not None and num_workers != 0:
        if prefetch is not None or num_workers is None:
            raise ValueError(f"prefetch_factor={prefetch_factor} is for each of num_workers: give "
                             "both, or prefetch=, the batches ahead of all threads together")
        ahead = prefetch_factor * num_workers
    return {"thread_count": natural("num_threads", num_threads or num_workers or 0, 4096),
            "prefetch_batches": natural("prefetch", ahead or 0, 2**32 - 1)}


def is_subset(dataset: Any) -> bool:
    """Whether it is torch's Subset itself: one that was derived may do more."""
    data = _torch_data()
    return data is not None and type(dataset) is data.Subset


def epoch_of(sampler: Any) -> Optional[int]:
    """What set_epoch() of a DistributedSampler was last told; None of other samplers."""
    return sampler.epoch if _is_distributed(sampler) else None


def _torch_data() -> Any:
    # Who has not imported torch has no object of it.
    return getattr(getattr(sys.modules.get("torch"), "utils", None), "data", None)


def _is_distributed(sampler: Any) -> bool:
    # By its members: samplers of other libraries have taken them over.
    wanted = ("num_replicas", "rank", "shuffle", "seed", "drop_last", "epoch")
    return all(hasattr(sampler, name) for name in wanted)


def _of_batches(asked: Asked, sampler: Any, batch_sampler: Any) -> tuple:
    if sampler is not None or asked.shuffle or asked.drop_last or asked.batch_size != 1:
        raise ValueError("batch_sampler says what batch_size, shuffle, sampler and drop_last say: "
                         "give one or the other")
    data = _torch_data()
    if data is None or type(batch_sampler) is not data.BatchSampler:
        raise ValueError(f"batch_sampler={type(batch_sampler).__name__}: the order must be known "
                         f"ahead. Taken over is a BatchSampler of {_TAKEN}; else give batch_size= "
                         "and shuffle=")
    return batch_sampler.sampler, replace(asked, batch_size=batch_sampler.batch_size,
                                          drop_last=batch_sampler.drop_last)


def _of_sampler(asked: Asked, sampler: Any) -> Asked:
    if asked.shuffle:
        raise ValueError("give a sampler or shuffle, not both")
    if _is_distributed(sampler):
        return replace(asked, shuffle=sampler.shuffle, seed=sampler.seed, rank=sampler.rank,
                       world_size=sampler.num_replicas,
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
    raise ValueError(f"sampler={kind.__name__}: the order must be known ahead. Taken over is {_TAKEN} "
                     "of the whole dataset. Else leave it out and give shuffle= and seed=, or make a "
                     "loader of Subset(dataset, list(sampler)) for every epoch")


def _is_of_all(sampler: Any, dataset: Any) -> bool:
    return hasattr(sampler, "__len__") and len(sampler) == len(dataset)


def _seed_of(generator: Any, seed: int) -> int:
    if seed != 0:
        raise ValueError("give a generator or a seed, not both")
    if not hasattr(generator, "initial_seed"):
        raise TypeError(f"generator={type(generator).__name__}: give a torch.Generator, or seed=")
    return generator.initial_seed()
