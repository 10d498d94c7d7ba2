"""DataLoader: the batches of this rank, one epoch after another.

    loader = millrace.DataLoader(millrace.ImageFolder("train"), batch_size=256, shuffle=True)
    for epoch in range(90):
        for images, labels in loader:
            ...

Every pass is the next epoch. Batches are read ahead by threads, never by worker processes.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Optional, Union

from millrace import _trace, trace
from millrace.loader import _outputs
from millrace.loader._collate import Collate
from millrace.loader._native import native
from millrace.loader._python_loader import PythonLoader, PythonOptions
from millrace.loader._stats import Stats
from millrace.loader._world import World
from millrace.loader.datasets import Dataset

SHUFFLES = ("off", "global", "local", "partial", "file")


class DataLoader:
    """Batches of a dataset, as torch's DataLoader gives them, with a state that can be saved.

    dataset: an ImageFolder, Files or RawFolder, read and decoded by C++; or anything with
        `__len__` and `__getitem__`, whose samples Python threads fetch ahead.
    batch_size: samples of a batch, of this rank.
    shuffle: False; True or "global": any sample anywhere; "local": each rank keeps its samples;
        "partial": local, and every epoch a `fraction` of each rank's samples goes to others;
        "file": files are shuffled, samples stay in order within them.
    seed: with the epoch, everything that is random follows from it.
    drop_last, tail: what happens where samples do not fill the last step of all ranks. "drop" leaves
        them out of this epoch; "pad" fills batches up with samples from the start of the epoch
        (`loader.batch.is_real` has which); "uneven" lets ranks differ by a batch. By default "drop"
        with drop_last, else "uneven" for one rank and "pad" for several, as DistributedSampler.
    num_threads (num_workers): by default tuned from the time that training waits.
    prefetch: batches ahead; by default tuned as well, within `memory` ("1GiB", or bytes).
    rank, world_size: by default from torch.distributed where it is initialized, else from the
        launcher's environment (torchrun, mpirun, srun), else 1.
    shard: for local and partial, what holds samples of its own: every "rank", or every "node", whose
        ranks then share them.
    pin_memory: batches lie in pinned memory, for copies to a GPU that do not wait.
    skip_bad_samples: count samples that cannot be read and leave them out; else SampleError.
    timeout: seconds after which a sample that does not come is named in a TimeoutError.
    output: "torch", "numpy" or "array" (neither); by default the first that can be imported. "dict"
        is the same with every field by its name, and `sample`, `is_real` besides.
    transform: a function of a whole batch, called in Python.
    collate_fn: how samples of a Python dataset become a batch.
    sampler: a DistributedSampler, whose rank, shuffling and seed are taken over.
    """

    def __init__(self, dataset: Any, batch_size: int = 1, shuffle: Union[bool, str, None] = None, *,
                 fraction: float = 0.1, seed: int = 0, drop_last: bool = False,
                 tail: Optional[str] = None, num_threads: Optional[int] = None,
                 prefetch: Optional[int] = None, memory: Union[int, str] = "1GiB",
                 rank: Optional[int] = None, world_size: Optional[int] = None,
                 shard: str = "rank", pin_memory: bool = False, skip_bad_samples: bool = False,
                 timeout: float = 60, output: Optional[str] = None,
                 transform: Optional[Callable[[Any], Any]] = None,
                 collate_fn: Optional[Callable[[list], Any]] = None, sampler: Any = None,
                 num_workers: Optional[int] = None) -> None:
        if sampler is not None:
            shuffle, seed, drop_last, rank, world_size = _of_sampler(sampler, shuffle)
        self.dataset = dataset
        self.batch_size = _positive("batch_size", batch_size)
        self.world = World.find(rank, world_size)
        self.shuffle = _shuffle_name(shuffle)
        self.tail = tail or ("drop" if drop_last else "uneven" if self.world.size == 1 else "pad")
        self.batch: Any = None  # the last batch handed out, with .samples, .is_real, .epoch, .index
        self._is_dict = output == "dict"
        self._kind = _outputs.choose(None if self._is_dict else output)
        self._convert = _outputs.converter(self._kind)
        self._transform = transform
        self._pin = _pinning(self._kind) if pin_memory else None
        shard_count, place = _shards(self.world, shard)
        common = {"rank": place, "world_size": self.world.size, "batch_size": self.batch_size,
                  "tail": self.tail}
        order = {"shuffle": self.shuffle, "seed": _natural("seed", seed),
                 "fraction": float(fraction), "shard_count": shard_count}
        threads = _positive("num_threads", num_threads or num_workers or 0, or_zero=True)
        ahead = _positive("prefetch", prefetch or 0, or_zero=True)
        if _is_native(dataset):
            if collate_fn is not None:
                raise ValueError(f"collate_fn is for Python datasets; batches of a "
                                 f"{type(dataset).__name__} are made by C++. Give transform=, a "
                                 "function of the whole batch")
            self._loader: Any = native.Loader(
                dataset._source, dataset._decoder, **order, **common, thread_count=threads,
                prefetch_batches=ahead, memory_bytes=_bytes(memory),
                skips_bad_samples=bool(skip_bad_samples), timeout_seconds=float(timeout))
        else:
            self._loader = PythonLoader(PythonOptions(
                dataset, *_python_order(dataset, order, self.world), **common,
                thread_count=threads or min(4, os.cpu_count() or 1), prefetch=ahead or 4,
                collate=collate_fn or Collate.of(self._kind), transform=transform,
                skips_bad_samples=bool(skip_bad_samples), timeout_seconds=float(timeout)))
        self._epoch = 0
        self._is_resumed = False  # the next pass goes on where the loader stands
        self._iterator: Optional["_Iterator"] = None
        self._began: Optional[float] = None
        self._last = 0.0

    def __iter__(self) -> "_Iterator":
        before = self._iterator
        is_under_way = before is not None and not before.is_over
        # A pass that has given nothing is taken over as it stands; else the next epoch begins.
        if not self._is_resumed and not (is_under_way and before.is_fresh):
            self._epoch = before.epoch + 1 if is_under_way else self._epoch
            self._loader.start_epoch(self._epoch)
        self._is_resumed = False
        if before is not None:
            before.is_over = True
        self._iterator = _Iterator(self, self._epoch)
        return self._iterator

    def __len__(self) -> int:
        """Batches of a whole epoch of this rank."""
        return self._loader.batch_count

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next pass. A state that was loaded in the middle of it stays."""
        if self._is_resumed and epoch == self._epoch:
            return
        self._epoch = _natural("epoch", epoch)
        self._is_resumed = False
        if self._iterator is not None:
            self._iterator.is_over = True

    @property
    def epoch(self) -> int:
        """Of the pass that is under way, or of the next one."""
        if self._iterator is not None and not self._iterator.is_over:
            return self._iterator.epoch
        return self._epoch

    def state_dict(self) -> dict:
        """Where the job stands after the batches handed out so far: a few numbers, the same on all
        ranks. It goes on exactly there, also with another number of ranks, threads or another
        batch_size."""
        is_between = self._iterator is None or self._iterator.is_over
        if is_between and not self._is_resumed:
            return json.loads(self._loader.state_at(self._epoch, 0))
        return json.loads(self._loader.state())

    def load_state_dict(self, state: dict) -> None:
        """The next pass goes on where `state` stood. A state of another dataset, seed or shuffling is
        refused."""
        self._loader.restore(json.dumps(state))
        self._epoch = self._loader.epoch
        self._is_resumed = True
        if self._iterator is not None:
            self._iterator.is_over = True

    def stats(self) -> Stats:
        """Where the time went since the loader was made; print it."""
        seconds = self._last - self._began if self._began is not None else 0.0
        return Stats(self._loader.stats(), seconds=seconds)

    def close(self) -> None:
        """Ends the threads. Batches that are held stay good."""
        if self._iterator is not None:
            self._iterator.is_over = True
        self._loader.close()

    def __enter__(self) -> "DataLoader":
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.close()

    # ---- for the iterator ----

    def _next(self) -> Optional[Any]:
        began = time.monotonic()
        if self._began is None:
            self._began = began
        batch = self._loader.next()
        while batch is not None and batch.row_count == 0:  # all its samples were bad
            batch = self._loader.next()
        self._last = time.monotonic()
        if batch is None:
            return None
        self.batch = batch
        return batch.data if isinstance(self._loader, PythonLoader) else self._deliver(batch)

    def _deliver(self, batch: Any) -> Any:
        values = {name: self._out(array) for name, array in batch.fields().items()}
        if self.dataset.has_labels:
            values.setdefault("label", self._out(batch.labels))
        if self._is_dict:
            values["sample"] = self._out(batch.samples)
            values["is_real"] = self._out(batch.is_real)
            result: Any = values
        else:
            result = tuple(values.values()) if len(values) > 1 else next(iter(values.values()))
        return result if self._transform is None else self._transform(result)

    def _out(self, array: Any) -> Any:
        value = self._convert(array)
        return value if self._pin is None else self._pin(value)


class _Iterator(Iterator):
    """One pass. `len` is the batches that are left, so that a progress bar knows its end."""

    def __init__(self, loader: DataLoader, epoch: int) -> None:
        self.epoch = epoch
        self.is_over = False
        self.is_fresh = True  # has given nothing yet
        self._loader = loader

    def __iter__(self) -> "_Iterator":
        return self

    def __next__(self) -> Any:
        if self.is_over:
            if self._loader._iterator is not self:
                raise RuntimeError("this pass ended when another one began: a DataLoader has one "
                                   "position. Make a second DataLoader for a second pass beside it")
            raise StopIteration
        self.is_fresh = False
        loader = self._loader
        if not trace.enabled():
            batch = loader._next()
        else:
            _trace._follow(self.epoch, None)
            batch = loader._next()
            _trace._follow(self.epoch, loader.batch.index if batch is not None else None)
        if batch is None:
            self.is_over = True
            loader._epoch = self.epoch + 1
            raise StopIteration
        return batch

    def __len__(self) -> int:
        return 0 if self.is_over else self._loader._loader.batches_left

    __length_hint__ = __len__


def _is_native(dataset: Any) -> bool:
    return isinstance(dataset, Dataset) and dataset._decoder is not None


def _python_order(dataset: Any, order: dict, world: World) -> tuple:
    """The order, and what makes it for another number of shards (None where that is fixed)."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"a {type(dataset).__name__} is no dataset that can be shuffled: it needs "
                        "__len__ and __getitem__. An iterable of unknown length is not taken")
    if order["shuffle"] == "file":
        raise ValueError("shuffle='file' needs a dataset of files (ImageFolder, Files): of a Python "
                         "dataset it is not known which samples lie in one file")
    options = {"shuffle": order["shuffle"], "seed": order["seed"], "sample_count": len(dataset)}
    if order["shuffle"] == "partial":
        options["fraction"] = order["fraction"]
    if order["shuffle"] not in ("local", "partial"):
        return native.Order(**options), None

    def of_shards(count: int) -> Any:
        return native.Order(shard_count=count, **options)

    if order["shard_count"] != 0:
        return of_shards(order["shard_count"]), None
    return of_shards(world.size), of_shards


def _of_sampler(sampler: Any, shuffle: Union[bool, str, None]) -> tuple:
    if shuffle:
        raise ValueError("give a sampler or shuffle, not both")
    wanted = ("num_replicas", "rank", "shuffle", "seed", "drop_last")
    if not all(hasattr(sampler, name) for name in wanted):
        raise ValueError(f"sampler={type(sampler).__name__}: only a DistributedSampler can be taken "
                         "over. Leave it out, and give shuffle= and seed=; the loader shards by rank "
                         "itself")
    return sampler.shuffle, sampler.seed, sampler.drop_last, sampler.rank, sampler.num_replicas


def _shuffle_name(shuffle: Union[bool, str, None]) -> str:
    name = {False: "off", None: "off", True: "global"}.get(shuffle, shuffle)  # type: ignore[arg-type]
    if name not in SHUFFLES:
        raise ValueError(f"shuffle={shuffle!r}: there are False, True, "
                         + ", ".join(repr(known) for known in SHUFFLES))
    return name


def _shards(world: World, shard: str) -> tuple:
    """How many hold samples of their own (0: every rank), and the place of this rank."""
    if shard == "rank":
        return 0, world.rank
    if shard != "node":
        raise ValueError(f"shard={shard!r}: there are 'rank' and 'node'")
    if world.node_count == 0:
        raise ValueError(f"shard='node' needs as many ranks on every node, and there are {world.size} "
                         f"ranks, {world.local_size} of them here. Take shard='rank'")
    # Shard s has the positions s, s + nodes, ...; ranks are numbered so that those of a node have
    # only such positions, whatever the launcher's numbering is within its blocks of a node each.
    node = world.rank // world.local_size
    return world.node_count, world.local_rank * world.node_count + node


def _positive(name: str, value: Any, or_zero: bool = False) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < (not or_zero):
        raise ValueError(f"{name}={value!r} is not a number of at least 1")
    return int(value)


def _natural(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 0:
        raise ValueError(f"{name}={value!r} is not a number from 0 on")
    return int(value)


def _bytes(memory: Union[int, str]) -> int:
    return native.parse_size(memory) if isinstance(memory, str) else _positive("memory", memory)


def _pinning(kind: str) -> Callable[[Any], Any]:
    if kind != "torch":
        raise ValueError("pin_memory=True needs output='torch'")
    import torch
    if not torch.cuda.is_available():
        return lambda tensor: tensor  # as torch: no accelerator, nothing to pin for
    return lambda tensor: tensor.pin_memory()
