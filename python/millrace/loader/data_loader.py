"""DataLoader: the batches of this rank, one epoch after another.

    loader = millrace.DataLoader(millrace.ImageFolder("train"), batch_size=256, shuffle=True, epochs=90)
    for epoch in range(90):
        for images, labels in loader:
            ...

Every pass is the next epoch. Batches are read ahead by threads, never by worker processes.
"""

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Optional, Union

from millrace import _trace, trace
from millrace.loader import _outputs
from millrace.loader._collate import Collate
from millrace.loader._native import native
from millrace.loader._options import (cache_of, connect_ranks, deadline, local_of, natural, positive,
                                      refuse_cache, shards, shuffle_name, size_of)
from millrace.loader._pinned import gpu_to_pin_for, then_pin
from millrace.loader._python_loader import PythonLoader, PythonOptions
from millrace.loader._ranks import close_at_exit
from millrace.loader._stats import Stats
from millrace.loader._torch_options import (Asked, epoch_of, pace_of, refuse_iterable,
                                            refuse_worker_init, without_samplers)
from millrace.loader._world import World
from millrace.loader.datasets import Dataset, read_by_native


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
    epochs: how many the whole run has, counted from epoch 0 also where a state is loaded. The last one
        is then known, and nothing is read ahead or kept for one after it. A pass more is no error.
    num_threads (num_workers): by default tuned from the time that training waits.
    prefetch: batches ahead; by default tuned as well, within `memory` ("1GiB", or bytes).
    io_depth: reads of a thread that are under way at once, at most, where that is faster than one at
        a time (`engine=` of the dataset; `stats()["reads"]` says which it is). 1: one at a time.
    cache_memory, cache_dir with cache_disk: how much of this process's memory ("4GiB", or bytes) and
        of a directory on the node's disk may keep encoded samples that are read again. The order is
        known, so that what is needed soonest is kept. By default nothing is.
    cache_peers: ranks started by mpirun or srun ask each other for what they keep before they read
        the files. Every rank makes the loader, in the same order as other such loaders.
    local_dir: for shuffle="partial", a directory on the node's own disk. Each rank copies its samples
        into it once and reads them from there, and those that go to other ranks travel while the
        epoch is trained. The batches are the same as without. Several ranks are started by mpirun or
        srun, and every rank makes the loader and takes its epochs.
    rank, world_size: by default from torch.distributed where it is initialized, else from the
        launcher's environment (torchrun, mpirun, srun), else 1.
    shard: for local and partial, what holds samples of its own: every "rank", or every "node", whose
        ranks then share them; "both": every rank, of the part that is its node's.
    pin_memory: batches lie in pinned memory, for copies to a GPU that do not wait.
    skip_bad_samples: count samples that cannot be read and leave them out; else SampleError.
    timeout: seconds after which a sample that does not come is named in a TimeoutError; 0: never.
    output: "torch", "numpy" or "array" (neither); by default the first that can be imported. "dict",
        for what C++ reads,
        is the same with every field by its name, and `sample`, `is_real` besides.
    transform: a function of a whole batch, called in Python.
    collate_fn: how samples of a Python dataset become a batch.
    sampler, batch_sampler, generator: of torch, for scripts that have them. A SequentialSampler, a
        RandomSampler, a SubsetRandomSampler, a DistributedSampler, and a BatchSampler of one of them
        become the same in the words above; a generator's initial_seed() is the seed.
    num_workers=0: a Python dataset is asked by the thread that takes the batches, as by torch.
    persistent_workers, multiprocessing_context, pin_memory_device, in_order: let pass, since threads
        stay, there are no processes, and batches always come in order. prefetch_factor: batches ahead
        for each of num_workers.
    """

    _epoch = 0  # of the next pass
    _is_epoch_given = False  # by the program, or by a pass before
    _is_resumed = False  # the next pass goes on where the loader stands
    _pass: Optional["_Pass"] = None  # the last one; not its iterator, which holds the loader
    _began: Optional[float] = None
    _last = 0.0

    def __init__(self, dataset: Any, batch_size: int = 1, shuffle: Union[bool, str, None] = None, *,
                 fraction: float = 0.1, seed: int = 0, drop_last: bool = False,
                 tail: Optional[str] = None, epochs: Optional[int] = None,
                 num_threads: Optional[int] = None,
                 prefetch: Optional[int] = None, memory: Union[int, str] = "1GiB",
                 io_depth: int = 32, cache_memory: Union[int, str, None] = None,
                 cache_dir: Union[str, "os.PathLike[str]", None] = None,
                 cache_disk: Union[int, str, None] = None, cache_peers: bool = False,
                 local_dir: Union[str, "os.PathLike[str]", None] = None,
                 rank: Optional[int] = None, world_size: Optional[int] = None,
                 shard: str = "rank", pin_memory: bool = False, skip_bad_samples: bool = False,
                 timeout: float = 60, output: Optional[str] = None,
                 transform: Optional[Callable[[Any], Any]] = None,
                 collate_fn: Optional[Callable[[list], Any]] = None, sampler: Any = None,
                 num_workers: Optional[int] = None, batch_sampler: Any = None,
                 generator: Any = None, prefetch_factor: Optional[int] = None,
                 worker_init_fn: Any = None, persistent_workers: bool = False,
                 multiprocessing_context: Any = None, pin_memory_device: str = "",
                 in_order: bool = True) -> None:
        refuse_worker_init(worker_init_fn)
        refuse_iterable(dataset)
        asked = without_samplers(Asked(dataset, batch_size, shuffle, seed, drop_last, rank, world_size),
                                 sampler, batch_sampler, generator)
        self.dataset = dataset = asked.dataset
        self.sampler = sampler
        self._sampler_epoch = epoch_of(sampler)
        self.batch_size = positive("batch_size", asked.batch_size)
        self.world = World.find(asked.rank, asked.world_size)
        self.shuffle = shuffle_name(asked.shuffle)
        self.tail = tail or ("drop" if asked.drop_last else
                             "uneven" if self.world.size == 1 else "pad")
        self.batch: Any = None  # the last batch handed out, with .samples, .is_real, .epoch, .index
        self._is_dict = output == "dict"
        self._kind = _outputs.choose(None if self._is_dict else output)
        self._convert = _outputs.converter(self._kind)
        self._transform = transform
        shard_count, place = shards(self.world, shard)
        order = {"shuffle": self.shuffle, "seed": natural("seed", asked.seed), "fraction": float(fraction),
                 "shard_count": shard_count}
        common = {"rank": place, "world_size": self.world.size, "batch_size": self.batch_size,
                  "tail": self.tail, "skips_bad_samples": bool(skip_bad_samples),
                  "timeout_seconds": deadline(timeout)}
        epoch_count = 0 if epochs is None else positive("epochs", epochs)
        pace = pace_of(num_threads, num_workers, prefetch, prefetch_factor)
        if pin_memory and self._kind != "torch":
            raise ValueError("pin_memory=True needs output='torch'")
        gpu = gpu_to_pin_for() if pin_memory else None
        cache = cache_of(cache_memory, cache_dir, cache_disk, cache_peers)
        self._is_local = local_dir is not None  # this rank holds its samples
        self._loader: Any
        self._data = read_by_native(dataset)
        if self._data is not None:
            _refuse_collate(dataset, collate_fn)
            local = local_of(local_dir, self.shuffle, cache)
            talks = "cache_peers=True" if cache_peers else "local_dir" if self._is_local else ""
            if talks:
                connect_ranks(talks, self.world, place)
            self._loader = native.Loader(self._data._source, self._data._decoder, **order, **common,
                                         **pace, epoch_count=epoch_count, pins_for_gpu=gpu,
                                         memory_bytes=size_of(memory),
                                         io_depth=positive("io_depth", io_depth), **cache, **local)
            if talks:
                close_at_exit(self._loader)
            self._warn_of_skew(place)
        else:  # these are not read ahead over the end of an epoch: the last one is like the others
            refuse_cache(dataset, cache, local_dir)
            if num_workers != 0 or num_threads is not None:
                # Threads beyond a few only queue for the GIL.
                pace["thread_count"] = pace["thread_count"] or min(4, os.cpu_count() or 1)
            self._loader = self._open_python(order, {**common, **pace}, collate_fn, gpu is not None)

    def _warn_of_skew(self, place: int) -> None:
        # One rank for all: where shards are sorted by class, all of them are.
        is_sharded = self.shuffle in ("local", "partial") and self.world.size > 1
        data = self._data
        if is_sharded and place == 0 and data is not None and data.has_labels:
            warning = self._loader.skew_warning(data._source, place)
            if warning is not None:
                warnings.warn(warning, stacklevel=3)

    def _tell_restaged(self, advice: str = "") -> None:
        told = self._loader.restaged() if self._is_local and self.world.rank == 0 else None
        if told is not None:
            warnings.warn(told + advice, stacklevel=3)

    def _advice_on_epoch(self) -> str:
        """What to call, if a pass begins elsewhere than the storage and nobody said where to begin."""
        held = None if self._is_epoch_given else self.storage_epoch
        if held is None or held == self._epoch:
            return ""
        return (f". No state was loaded, so the loader began with epoch {self._epoch}. To go on with the "
                f"storage's epoch, call loader.set_epoch({held}) (it was in loader.storage_epoch) or "
                "loader.load_state_dict(state) before the first pass")

    def _open_python(self, order: dict, options: dict, collate_fn: Optional[Callable[[list], Any]],
                     pins: bool) -> PythonLoader:
        made, reshard = _python_order(self.dataset, order, self.world)
        options["prefetch_batches"] = options["prefetch_batches"] or options["thread_count"] + 2
        return PythonLoader(PythonOptions(
            dataset=self.dataset, order=made, reshard=reshard,
            collate=collate_fn or Collate.of(self._kind),
            transform=then_pin(self._transform) if pins else self._transform, **options))

    def __iter__(self) -> "_Iterator":
        self._follow_sampler()
        before = self._pass
        is_under_way = before is not None and not before.is_over
        # A pass that has given nothing is taken over as it stands; else the next epoch begins.
        if not self._is_resumed and not (before is not None and is_under_way and before.is_fresh):
            self._epoch = before.epoch + 1 if before is not None and is_under_way else self._epoch
            advice = self._advice_on_epoch()
            self._loader.start_epoch(self._epoch)
            self._is_epoch_given = True
            self._tell_restaged(advice)
        self._is_resumed = False
        if before is not None:
            before.is_over = True
        self._pass = _Pass(self._epoch)
        return _Iterator(self, self._pass)

    def _follow_sampler(self) -> None:
        # Scripts tell the epoch to the DistributedSampler that they made.
        epoch = epoch_of(self.sampler)
        if epoch is not None and epoch != self._sampler_epoch:
            self._sampler_epoch = epoch
            self.set_epoch(epoch)

    def __len__(self) -> int:
        """Batches of a whole epoch of this rank."""
        return self._loader.batch_count

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next pass. A state that was loaded in the middle of it stays."""
        if self._is_resumed and epoch == self._epoch:
            return
        self._epoch = natural("epoch", epoch)
        self._is_epoch_given = True
        self._is_resumed = False
        if self._pass is not None:
            self._pass.is_over = True

    @property
    def epoch(self) -> int:
        """Of the pass that is under way, or of the next one."""
        if self._pass is not None and not self._pass.is_over:
            return self._pass.epoch
        return self._epoch

    @property
    def storage_epoch(self) -> Optional[int]:
        """With local_dir, the epoch whose samples the ranks' disks hold, the same on all ranks; None if
        they are empty, and without local_dir. A job that is started again without a state goes on there
        by `loader.set_epoch(loader.storage_epoch)`."""
        return self._loader.storage_epoch if self._is_local else None

    def state_dict(self) -> dict:
        """Where the job stands after the batches handed out so far: a few numbers, the same on all
        ranks. It goes on exactly there, also with another number of ranks (not with local_dir),
        threads or another batch_size."""
        is_between = self._pass is None or self._pass.is_over
        if is_between and not self._is_resumed:
            return json.loads(self._loader.state_at(self._epoch, 0))
        return json.loads(self._loader.state())

    def load_state_dict(self, state: dict) -> None:
        """The next pass goes on where `state` stood. A state of another dataset, seed or shuffling is
        refused. With local_dir every rank makes this call; where the rank holds samples of another
        epoch, those that are missing are read from the dataset, and a warning says so."""
        self._loader.restore(json.dumps(state))
        self._tell_restaged()
        self._epoch = self._loader.epoch
        self._is_epoch_given = True
        self._is_resumed = True
        if self._pass is not None:
            self._pass.is_over = True

    def stats(self) -> Stats:
        """Where the time went since the loader was made; print it."""
        seconds = self._last - self._began if self._began is not None else 0.0
        return Stats(self._loader.stats(), seconds=seconds)

    def close(self) -> None:
        """Ends the threads. Batches that are held stay good."""
        if self._pass is not None:
            self._pass.is_over = True
        self._loader.close()

    def __repr__(self) -> str:
        of = f"{type(self.dataset).__name__} of {len(self.dataset)} samples"
        ranks = f", rank {self.world.rank} of {self.world.size}" if self.world.size > 1 else ""
        return (f"DataLoader({of}, batch_size={self.batch_size}, shuffle={self.shuffle!r}{ranks}, "
                f"epoch {self.epoch})")

    def __reduce__(self) -> Any:
        raise TypeError("a DataLoader has threads and a place in the data, and cannot be pickled or "
                        "copied. Send the dataset and make the DataLoader where it is used; "
                        "state_dict() is what can be saved")

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
        return batch.data if self._data is None else self._deliver(batch, self._data)

    def _deliver(self, batch: Any, data: Dataset) -> Any:
        values = {name: self._convert(array) for name, array in batch.fields().items()}
        if data.has_labels:
            values.setdefault("label", self._convert(batch.labels))
        if self._is_dict:
            values["sample"] = self._convert(batch.samples)
            values["is_real"] = self._convert(batch.is_real)
            result: Any = values
        else:
            result = tuple(values.values()) if len(values) > 1 else next(iter(values.values()))
        return result if self._transform is None else self._transform(result)


@dataclass
class _Pass:
    epoch: int
    is_over: bool = False
    is_fresh: bool = True  # has given nothing yet


class _Iterator(Iterator):
    """One pass. `len` is the batches that are left, so that a progress bar knows its end."""

    def __init__(self, loader: DataLoader, its_pass: _Pass) -> None:
        self._loader = loader
        self._pass = its_pass

    def __iter__(self) -> "_Iterator":
        return self

    def __next__(self) -> Any:
        loader, its_pass = self._loader, self._pass
        if its_pass.is_over:
            if loader._pass is not its_pass:
                raise RuntimeError("this pass ended when another one began: a DataLoader has one "
                                   "position. Make a second DataLoader for a second pass beside it")
            raise StopIteration
        its_pass.is_fresh = False
        if not trace.enabled():
            batch = loader._next()
        else:
            _trace._follow(its_pass.epoch, None)
            batch = loader._next()
            _trace._follow(its_pass.epoch, loader.batch.index if batch is not None else None)
        if batch is None:
            its_pass.is_over = True
            loader._epoch = its_pass.epoch + 1
            raise StopIteration
        return batch

    def __len__(self) -> int:
        return 0 if self._pass.is_over else self._loader._loader.batches_left

    __length_hint__ = __len__


def _refuse_collate(dataset: Any, collate_fn: Any) -> None:
    if collate_fn is not None:
        raise ValueError(f"collate_fn is for Python datasets; batches of a {type(dataset).__name__} "
                         "are made by C++. Give transform=, a function of the whole batch")


def _python_order(dataset: Any, order: dict, world: World) -> tuple:
    """The order, and what makes it for another number of shards (None where that is fixed)."""
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
