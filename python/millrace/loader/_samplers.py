"""Samplers of torch, and the program's own: what they ask for, expressed as an order that is known ahead.

torch iterates over a sampler while it loads. The loader instead knows the order of every epoch, to
prefetch, to keep samples and to resume. So a sampler of torch is translated, and one of the program is
iterated before the epoch if that gives the same indices whenever it is done: because it has set_epoch(),
or because it always gives the same.
"""

import copy
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Optional

from millrace.loader._orders import Listed, Mixture, Weighted
from millrace.loader._torch_options import is_distributed, torch_data
from millrace.loader._world import World

_ADVICE = ("Give shuffle=millrace.Listed(function) instead, with a function of (seed, epoch) that returns "
           "the indices of an epoch")
_CERTAIN_LENGTH = 12  # shuffled twice, so many numbers are never in the same order


@dataclass(frozen=True)
class Asked:
    """The requested samples, their order and the batch size."""

    dataset: Any
    batch_size: Any
    shuffle: Any
    seed: int
    drop_last: bool
    world: Optional[World]
    alone_because: str = ""  # why it works for one rank only


class GivenEpochs:
    """The epochs that the program gives to set_epoch() of its sampler."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler if is_distributed(sampler) else None
        self._seen = sampler.epoch if is_distributed(sampler) else None
        self._given: Optional[int] = None
        if self._sampler is None and hasattr(sampler, "set_epoch"):
            self._watch(sampler)

    def take(self) -> Optional[int]:
        """The epoch that was given since the last call; None if there was none."""
        if self._sampler is not None:
            given = self._sampler.epoch if self._sampler.epoch != self._seen else None
            self._seen = self._sampler.epoch
            return given
        given, self._given = self._given, None
        return given

    def _watch(self, sampler: Any) -> None:
        # Samplers have their epoch under any name, so watch the call instead.
        original = sampler.set_epoch

        def set_epoch(epoch: int) -> Any:
            self._given = epoch
            return original(epoch)

        set_epoch._is_watching = True  # type: ignore[attr-defined]
        try:
            sampler.set_epoch = set_epoch
        except AttributeError:
            pass  # it has __slots__: the program must call set_epoch() of the loader


def without_samplers(asked: Asked, sampler: Any, batch_sampler: Any,
                     generator: Any) -> tuple[Asked, GivenEpochs]:
    """The same request, expressed only with dataset, shuffle, seed and ranks."""
    if batch_sampler is not None:
        sampler, asked = _of_batches(asked, sampler, batch_sampler)
    if sampler is not None:
        asked = _of_sampler(asked, sampler)
        generator = generator or getattr(sampler, "generator", None)
    if generator is not None:
        asked = replace(asked, seed=_seed_of(generator, asked.seed))
    return asked, GivenEpochs(sampler if sampler is not None else batch_sampler)


def refuse_ranks(asked: Asked, world: World) -> None:
    if world.size > 1 and asked.alone_because:
        raise ValueError(asked.alone_because)


def _of_batches(asked: Asked, sampler: Any, batch_sampler: Any) -> tuple:
    if sampler is not None or asked.shuffle or asked.drop_last or asked.batch_size != 1:
        raise ValueError("batch_sampler replaces batch_size, shuffle, sampler and drop_last: give one "
                         "or the others")
    data = torch_data()
    if data is not None and type(batch_sampler) is data.BatchSampler:
        return batch_sampler.sampler, replace(asked, batch_size=batch_sampler.batch_size,
                                              drop_last=batch_sampler.drop_last)
    name = f"batch_sampler={type(batch_sampler).__name__}"
    asked = replace(asked, alone_because=f"{name}: ranks take turns with samples, so its batches would be mixed. "
                    f"{_ADVICE}, and batch_size=")
    refuse_ranks(asked, asked.world or World.find())
    sizes: list = []

    def flattened(batches: list) -> list:
        sizes.extend(len(batch) for batch in batches[:1 - len(sizes)])  # of the first epoch
        for number, batch in enumerate(batches):
            is_last = number == len(batches) - 1
            if len(batch) > sizes[0] or (len(batch) < sizes[0] and not is_last):
                raise ValueError(f"{name}: batch {number} has {len(batch)} samples, and the first one had "
                                 f"{sizes[0]}: all batches but the last must have the same number")
        return [index for batch in batches for index in batch]

    shuffle = _known_order(name, batch_sampler, flattened, len(asked.dataset))
    return None, replace(asked, shuffle=shuffle, batch_size=sizes[0] if sizes else 1)


def _of_sampler(asked: Asked, sampler: Any) -> Asked:
    if asked.shuffle:
        raise ValueError("give a sampler or shuffle, not both")
    if is_distributed(sampler):
        return replace(asked, shuffle=sampler.shuffle, seed=sampler.seed,
                       world=World.find(sampler.rank, sampler.num_replicas),
                       drop_last=asked.drop_last or sampler.drop_last)
    translated = _of_torch(asked, sampler)
    if translated is not None:
        return translated
    name = f"sampler={type(sampler).__name__}"
    if hasattr(sampler, "num_replicas"):
        asked = replace(asked, alone_because=f"{name} returns only the indices of one rank, but the loader needs "
                        f"those of all ranks, in the same order on every rank. {_ADVICE}")
        refuse_ranks(asked, asked.world or World.find())
    return replace(asked, shuffle=_known_order(name, sampler, list, len(asked.dataset)))


def _of_torch(asked: Asked, sampler: Any) -> Optional[Asked]:
    """For torch's own samplers: a derived class may do something else."""
    data, kind, count = torch_data(), type(sampler), len(asked.dataset)
    if data is None:
        return None
    if kind is data.SubsetRandomSampler:
        return replace(asked, dataset=data.Subset(asked.dataset, list(sampler.indices)), shuffle=True)
    if kind is data.WeightedRandomSampler:
        weights = sampler.weights.tolist()
        weights += [0.0] * (count - len(weights))  # torch never draws samples past the last weight
        return replace(asked, shuffle=Weighted(weights, sampler.num_samples, sampler.replacement))
    if kind is data.SequentialSampler and len(sampler) == count:
        return replace(asked, shuffle=False)
    if kind is data.RandomSampler and len(sampler.data_source) == count:
        if sampler.replacement:
            return replace(asked, shuffle=Weighted(samples=sampler.num_samples))
        if sampler.num_samples == count:
            return replace(asked, shuffle=True)
        # A mixture of one part: no sample comes again before all were drawn.
        return replace(asked, shuffle=Mixture([1.0], sampler.num_samples))
    return None


def _known_order(name: str, sampler: Any, flattened: Callable[[list], list], count: int) -> Listed:
    has_epochs = hasattr(sampler, "set_epoch")
    most = max(10 * count, 2**22)

    def indices(epoch: int) -> list:
        given = list(islice(iter(_at_epoch(sampler, epoch) if has_epochs else _copied(sampler)), most + 1))
        if len(given) > most:
            raise ValueError(f"{name} returns more than {most} indices for one epoch; it may have no end. "
                             f"{_ADVICE}")
        return flattened(given)

    with _same_randomness(sampler):
        first = indices(0)
        # Randomness goes on, so that a random order differs the next time.
        times = 1 if len(first) >= _CERTAIN_LENGTH else 8
        if any(indices(0) != first for _ in range(times)):
            reason = ("set_epoch(0) gives another order each time: it must seed its generator with the "
                      "epoch" if has_epochs else
                      "it gives another order each time, and has no set_epoch(epoch) that selects one")
            raise ValueError(f"{name}: the order must be known in advance, but {reason}. {_ADVICE}")
    if not has_epochs:
        return Listed(lambda seed, epoch: first)

    def of_epoch(seed: int, epoch: int) -> list:
        with _same_randomness(sampler):
            return indices(epoch)

    return Listed(of_epoch)


def _copied(sampler: Any) -> Any:
    """A shallow copy, so that the program's own sampler does not change."""
    try:
        return copy.copy(sampler)
    except Exception:
        return sampler


def _at_epoch(sampler: Any, epoch: int) -> Any:
    ours = _copied(sampler)
    own = getattr(ours, "__dict__", {})
    if getattr(own.get("set_epoch"), "_is_watching", False):
        del own["set_epoch"]
    ours.set_epoch(epoch)
    return ours


@contextmanager
def _same_randomness(sampler: Any) -> Iterator[None]:
    """Leaves the generators of the program as they were: iterating over a sampler draws from them."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    own = list(getattr(sampler, "__dict__", {}).values())
    states: list[tuple[Callable[[Any], Any], Any]] = [(random.setstate, random.getstate())]
    if torch is not None:
        states.append((torch.set_rng_state, torch.get_rng_state()))
        states += [(value.set_state, value.get_state()) for value in own
                   if isinstance(value, torch.Generator)]
    if numpy is not None:
        states.append((numpy.random.set_state, numpy.random.get_state()))
        for value in own:
            if isinstance(value, numpy.random.Generator):
                states.append((lambda state, of=value: setattr(of.bit_generator, "state", state),
                               value.bit_generator.state))
            elif isinstance(value, numpy.random.RandomState):
                states.append((value.set_state, value.get_state()))
    states += [(value.setstate, value.getstate()) for value in own if isinstance(value, random.Random)]
    try:
        yield
    finally:
        for set_state, state in states:
            set_state(state)


def _seed_of(generator: Any, seed: int) -> int:
    if seed != 0:
        raise ValueError("give a generator or a seed, not both")
    if not hasattr(generator, "initial_seed"):
        raise TypeError(f"generator={type(generator).__name__}: give a torch.Generator, or seed=")
    return generator.initial_seed()
