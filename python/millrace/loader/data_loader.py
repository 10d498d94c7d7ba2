"""DataLoader: the batches of this rank, one epoch after another.

    loader = millrace.DataLoader(millrace.ImageFolder("train"), batch_size=256, shuffle=True, epochs=90)
    for epoch in range(90):
        for images, labels in loader:
            ...

Every pass is the next epoch. Threads prefetch batches of what C++ reads, worker processes those of a
Python dataset. With `map=`, both: C++ reads, and processes call the function.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Optional

from millrace import _trace, trace
from millrace.loader import _accelerate, _outputs, _shapes, _torch_view
from millrace.loader._native import native
from millrace.loader._loader_options import options_of
from millrace.loader._map import open_mapped
from millrace.loader._options import Cache, Prefetch, connect_ranks, natural, positive, shards
from millrace.loader._orders import AnyShuffle
from millrace.loader._python_loader import open_python
from millrace.loader._ranks import close_at_exit
from millrace.loader._samplers import refuse_ranks
from millrace.loader._stats import Stats
from millrace.loader._world import World
from millrace.loader.datasets import Dataset
from millrace.trace import _window


class DataLoader:
    """Batches of a dataset, like torch's DataLoader, with a state that can be saved.

    dataset: an ImageFolder, ArrayFolder, RawFolder or Files, which C++ reads and decodes; or anything
        with `__len__` and `__getitem__`, whose samples worker processes prefetch.
    batch_size: samples per batch of this rank.
    shuffle: False; True or "global": over the whole dataset; "local": each rank shuffles its own
        samples; "partial": local, and every epoch a fraction of each rank's samples moves to other
        ranks; "file": shuffles files, and keeps the order of the samples in them. millrace.Local(...)
        and millrace.Partial(...) are "local" and "partial" with options. millrace.Weighted(...),
        millrace.Balanced(...), millrace.Mixture(...) and millrace.Listed(...) draw samples.
    seed: together with the epoch, it determines everything that is random.
    drop_last, tail: what to do if the samples do not fill the last step of all ranks. "drop" skips
        them in this epoch; "pad" fills the batches with samples from the start of the epoch
        (`loader.batch.is_real` says which); "uneven" lets ranks differ by a batch. The default is
        "drop" with drop_last, otherwise "uneven" for one rank and, like DistributedSampler, "pad" for
        several.
    epochs: the number of epochs of the whole run, counted from epoch 0 even if a state is loaded.
        The loader then neither prefetches nor keeps anything beyond the last one. Iterating once more
        is not an error.
    world: a millrace.World, the rank and the number of ranks. By default from torch.distributed if it
        is initialized, otherwise from the launcher's environment (torchrun, mpirun, srun), otherwise a
        single rank.
    prefetch: a millrace.Prefetch, how far ahead the loader reads.
    cache: a millrace.Cache, which keeps encoded samples in memory, on a local disk and on other ranks.
        By default none are kept.
    skip_bad_samples: skip and count samples that cannot be read, instead of raising SampleError.
    output: "torch", "numpy" or "array" (neither); by default the first that can be imported. "dict"
        (only for what C++ reads): a dict of the default output by field name, with `sample` and
        `is_real`.
    transform: a Python function that is called with each whole batch, in the thread that iterates, for
        every kind of dataset. A function of each sample is the dataset's `map=`, and runs in workers.
    worker: whether workers of a Python dataset, or of `map=`, are "process" or "thread". By default
        processes, because threads of one interpreter take turns; threads on a free-threaded Python.
    restart_workers: if a worker process dies, continue with another one instead of raising.

    torch has these too:

    num_workers: the number of processes that call a Python dataset or the function of `map=`; for what
        C++ reads without `map=`, the number of threads. By default tuned to the time that training
        waits. 0: as in torch, the thread that iterates also calls the Python dataset or function.
    worker_init_fn, multiprocessing_context, persistent_workers: for worker processes, as in torch.
    prefetch_factor: batches to prefetch for each of num_workers.
    collate_fn: makes a batch from a list of samples of a Python dataset, or results of `map=`.
    pin_memory: puts batches into pinned memory, so that copies to a GPU are asynchronous.
    timeout: raise a TimeoutError that names the sample if it is not ready after this many seconds;
        0: never.
    sampler, batch_sampler, generator: for scripts that use those of torch. torch's own samplers are
        translated into the options above. The seed is the generator's initial_seed(). Other samplers
        need set_epoch(), or must give the same indices every time; otherwise use millrace.Listed.
    pin_memory_device, in_order: ignored. Batches always come in order.
    """

    _epoch = 0  # of the next pass
    _is_epoch_given = False  # by the program or an earlier pass
    _is_resumed = False  # the next pass continues at the loader's position
    _pass: Optional["_Pass"] = None  # the latest; not its iterator, which references the loader
    _began: Optional[float] = None
    _last = 0.0

    # What torch's DataLoader has, for libraries that read it.
    sampler: Any
    batch_sampler: Any
    collate_fn: Callable[[list], Any]
    num_workers: int
    prefetch_factor: Optional[int]
    pin_memory: bool
    pin_memory_device: str
    timeout: float
    worker_init_fn: Any
    multiprocessing_context: Any
    generator: Any
    persistent_workers: bool
    in_order: bool
    end_of_dataloader = False  # the last batch of a pass was returned: for Accelerate

    def __init__(self, dataset: Any, batch_size: int = 1, shuffle: AnyShuffle = None, *,
                 seed: int = 0, tail: Optional[str] = None, epochs: Optional[int] = None,
                 world: Optional[World] = None, prefetch: Optional[Prefetch] = None,
                 cache: Optional[Cache] = None, skip_bad_samples: bool = False,
                 output: Optional[str] = None, transform: Optional[Callable[[Any], Any]] = None,
                 worker: Optional[str] = None, restart_workers: bool = False,
                 # torch's own options:
                 sampler: Any = None, batch_sampler: Any = None, num_workers: Optional[int] = None,
                 collate_fn: Optional[Callable[[list], Any]] = None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 60, worker_init_fn: Any = None,
                 multiprocessing_context: Any = None, generator: Any = None,
                 prefetch_factor: Optional[int] = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True) -> None:
        given = dict(locals())
        del given["self"]
        options = self._options = options_of(given)
        self.dataset, self.batch_size = options.asked.dataset, options.asked.batch_size
        self.shuffle = options.order.drawn.shuffle
        self.batch: Any = None  # the last batch returned, with .samples, .is_real, .epoch, .index
        self._convert = _outputs.converter(options.kind)
        self._open(options.asked.world or World.find())
        self.__dict__.update(_torch_view.options_of(given))
        self.collate_fn = _torch_view.Collate(options)
        self._given_sampler = sampler
        self.sampler, self.batch_sampler = _torch_view.samplers_of(self, sampler)

    def _open(self, world: World) -> None:
        """Opens the loader of this rank."""
        options, partial = self._options, self._options.order.partial
        refuse_ranks(options.asked, world)
        self.world = world
        self.tail = options.tail or ("drop" if options.asked.drop_last else "uneven" if world.size == 1 else "pad")
        shard_count, place = shards(world, partial.shard)
        order = options.order.options(shard_count)
        of_rank = {"rank": place, "world_size": world.size, "batch_size": self.batch_size, "tail": self.tail}
        self._loader: Any
        if options.data is None:
            self._loader = open_python(options, order, **of_rank)
            return
        if options.talks:
            connect_ranks(options.talks, world, place)
        if options.has_map:
            self._loader = open_mapped(options, **order, **of_rank)
        else:
            self._loader = native.Loader(
                options.data._source, options.data._decoder, **options.native(), **order, **of_rank,
                thread_count=options.thread_count, prefetch_batches=options.workers.prefetch,
                pins_for_gpu=options.workers.gpu, shared_memory=None, marks_waits=True)
        if options.talks:
            close_at_exit(self._loader)
        self._warn_of_skew(place)

    def _warn_of_skew(self, place: int) -> None:
        # Only one rank warns: if one shard is sorted by class, all are.
        is_sharded = self.shuffle in ("local", "partial") and self.world.size > 1
        data = self._options.data
        if is_sharded and place == 0 and data is not None and data.has_labels:
            warning = self._loader.skew_warning(data._source, place)
            if warning is not None:
                warnings.warn(warning, stacklevel=3)

    def _warn_of_no_batch(self) -> None:
        if self._loader.batch_count == 0:
            warnings.warn(f"every epoch is empty: {len(self.dataset)} samples do not fill a batch of "
                          f"{self.batch_size} on {self.world.size} rank(s), and tail='drop' (drop_last) leaves them "
                          "out. Give a smaller batch_size, or tail='pad'", stacklevel=3)

    def _warn_of_restaging(self, advice: str = "") -> None:
        warning = self._loader.restaged() if self._options.holds_shard and self.world.rank == 0 else None
        if warning is not None:
            warnings.warn(warning + advice, stacklevel=3)

    def _advice_on_epoch(self) -> str:
        """What to call if a pass starts at another epoch than the storage, and no epoch was given."""
        held = None if self._is_epoch_given else self.storage_epoch
        if held is None or held == self._epoch:
            return ""
        return (f". No state was loaded, so the loader started with epoch {self._epoch}. To continue "
                f"with the storage's epoch, call loader.set_epoch({held}) (the value of "
                "loader.storage_epoch) or loader.load_state_dict(state) before the first pass")

    def __iter__(self) -> "_Iterator":
        self._follow()
        before = self._pass
        is_under_way = before is not None and not before.is_over
        # If the previous pass has not returned a batch, continue it. Otherwise start the next
        # epoch.
        if not self._is_resumed and not (before is not None and is_under_way and before.is_fresh):
            self._epoch = before.epoch + 1 if before is not None and is_under_way else self._epoch
            self._start_epoch()
        self._is_resumed = False
        self._end_pass()
        self._pass = _Pass(self._epoch)
        self._warn_of_no_batch()
        return _Iterator(self, self._pass)

    def _start_epoch(self) -> None:
        advice = self._advice_on_epoch()
        self._know_list(self._epoch)
        self._loader.start_epoch(self._epoch)
        self._know_next_list(self._epoch)
        self._is_epoch_given = True
        self._warn_of_restaging(advice)

    def _follow(self) -> None:
        self._follow_ranks()
        # Scripts call set_epoch() of the sampler that they made.
        epoch = self._options.given_epochs.take()
        if epoch is not None:
            self.set_epoch(epoch)

    def _follow_ranks(self) -> None:
        """Takes the rank of torch.distributed, if that was initialized after the loader was made. Until the
        first batch, this is exact: no order depends on what the loader has done."""
        group = None if self._options.asked.world is not None else World.of_torch()
        if group is None or group == (self.world.rank, self.world.size):
            return
        differs = (f"the loader is rank {self.world.rank} of {self.world.size}, but in torch.distributed this "
                   f"process is rank {group[0]} of {group[1]}")
        if self._began is not None:
            raise RuntimeError(f"{differs}, which was initialized after the first batch: ranks would load the same "
                               "samples. Make the DataLoader after init_process_group, or give "
                               "world=millrace.World(rank, size)")
        if self._options.talks:
            raise RuntimeError(f"{self._options.talks}: {differs}. Samples are exchanged over MPI: start one process "
                               "per rank with mpirun or srun --mpi=pmix, or remove the option")
        is_under_way = self._pass is not None and not self._pass.is_over  # and has returned nothing
        state = self._loader.state() if self._is_resumed or is_under_way else None
        self._loader.close()
        self._open(World.find())
        if state is not None and (self._is_resumed or json.loads(state)["done"] != 0):
            self._loader.restore(state)
        elif is_under_way:
            self._loader.start_epoch(self.epoch)
        self.batch_sampler._visits.follow(self)  # libraries may have it
        self.sampler, self.batch_sampler = _torch_view.samplers_of(self, self._given_sampler)

    def _is_at_start_of(self, epoch: int) -> bool:
        """Whether the next pass is this whole epoch."""
        return (self._pass is None or self._pass.is_over) and not self._is_resumed and self._epoch == epoch

    def _end_pass(self) -> None:
        if self._pass is not None:
            self._pass.is_over = True
            _accelerate.end(self)

    def _know_list(self, epoch: int) -> None:
        if self._options.lists is not None:
            self._options.lists.know(epoch)

    def _know_next_list(self, epoch: int) -> None:
        # While the first batches are read.
        is_last = self._options.epoch_count != 0 and epoch + 1 >= self._options.epoch_count
        if self._options.lists is not None and not is_last:
            self._options.lists.try_to_know(epoch + 1)

    def __len__(self) -> int:
        """The number of batches of this rank in a whole epoch."""
        if self._began is None:
            self._follow_ranks()
        return self._loader.batch_count

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass, or of one that has not returned a batch yet. Keeps the position of a
        loaded state of the same epoch."""
        fresh = self._pass if self._pass is not None and not self._pass.is_over and self._pass.is_fresh else None
        if epoch == self._epoch and (self._is_resumed or fresh is not None):
            return
        self._epoch = natural("epoch", epoch)
        self._is_epoch_given = True
        self._is_resumed = False
        if fresh is None:
            self._end_pass()
        else:  # Lightning sets the epoch after it has made the iterator
            fresh.epoch = self._epoch
            self._start_epoch()

    def set_batch_size(self, batch_size: int) -> None:
        """Changes the batch size from the next batch on, also in the middle of a pass: every sample
        still comes once in the epoch. With several ranks, every rank must change it after the same
        batch. Batches that were prefetched are made again; `loader.batch.index` counts batches of the
        new size. A state does not contain the size."""
        batch_size = positive("batch_size", batch_size)
        if batch_size == self.batch_size:
            return
        is_between = self._pass is None or self._pass.is_over
        state = None if is_between and not self._is_resumed else self._loader.state()
        self._loader.set_batch_size(batch_size)
        self.batch_size = self.batch_sampler.batch_size = batch_size
        if state is not None:
            self._loader.restore(state)

    @property
    def remainder(self) -> int:
        """For Accelerate: 0, unless there may be padding, which is not at the end of the gathered batches."""
        return -1 if self.tail == "pad" else 0

    @property
    def drop_last(self) -> bool:
        return self.tail == "drop"

    @property
    def epoch(self) -> int:
        """The epoch of the current pass, or of the next one."""
        if self._pass is not None and not self._pass.is_over:
            return self._pass.epoch
        return self._epoch

    @property
    def storage_epoch(self) -> Optional[int]:
        """The epoch whose samples the shard storage of the ranks holds, the same on all ranks. None if
        it is empty, and without Partial.dir. A job that restarts without a state continues there with
        `loader.set_epoch(loader.storage_epoch)`."""
        return self._loader.storage_epoch if self._options.holds_shard else None

    def state_dict(self) -> dict:
        """The position of the job after the batches returned so far: a few numbers, the same on all
        ranks. A job that loads it continues exactly there, even with another number of threads,
        another batch_size or (without Partial.dir) another number of ranks."""
        is_between = self._pass is None or self._pass.is_over
        if is_between and not self._is_resumed:
            return json.loads(self._loader.state_at(self._epoch, 0))
        return json.loads(self._loader.state())

    def load_state_dict(self, state: dict) -> None:
        """Makes the next pass continue at `state`. Refuses a state of another dataset, seed or shuffle.
        With Partial.dir, every rank must make this call. If a rank holds the samples of another epoch,
        it reads the missing ones from the dataset and warns."""
        text = json.dumps(state)
        if self._options.lists is not None:
            native.check_state(text)  # raises with a reason if it is not a state
            self._know_list(state["epoch"])
        self._loader.restore(text)
        self._warn_of_restaging()
        self._epoch = self._loader.epoch
        self._know_next_list(self._epoch)
        self._is_epoch_given = True
        self._is_resumed = True
        self._end_pass()

    def stats(self) -> Stats:
        """Where the loader spent its time since it was made. Printable."""
        seconds = self._last - self._began if self._began is not None else 0.0
        return Stats(self._loader.stats(), seconds=seconds)

    def close(self) -> None:
        """Stops the threads. Batches that the program still holds stay valid."""
        self._end_pass()
        self._loader.close()

    def __repr__(self) -> str:
        of = f"{type(self.dataset).__name__} of {len(self.dataset)} samples"
        ranks = f", rank {self.world.rank} of {self.world.size}" if self.world.size > 1 else ""
        return (f"DataLoader({of}, batch_size={self.batch_size}, shuffle={self.shuffle!r}{ranks}, "
                f"epoch {self.epoch})")

    def __reduce__(self) -> Any:
        raise TypeError("a DataLoader has threads and a position, and cannot be pickled or copied. Send "
                        "the dataset and make the DataLoader where it is used; to save the "
                        "position, use state_dict()")

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
        while batch is not None and batch.row_count == 0:  # all its samples were skipped
            batch = self._loader.next()
        self._last = time.monotonic()
        if batch is None:
            return None
        self.batch = batch
        data, transform = self._options.data, self._options.transform
        result = batch.data if data is None or self._options.has_map else self._deliver(batch, data)
        return result if transform is None else transform(result)

    def _deliver(self, batch: Any, data: Dataset) -> Any:
        values = {name: _shapes.present(data._shapes, name, array, self._convert,
                                        lambda row: data.name(batch.samples.tolist()[row]))
                  for name, array in batch.fields().items()}
        if data.has_labels:
            values.setdefault("label", self._convert(batch.labels))
        if self._options.is_dict:
            values["sample"] = self._convert(batch.samples)
            values["is_real"] = self._convert(batch.is_real)
            return values
        return tuple(values.values()) if len(values) > 1 else next(iter(values.values()))


@dataclass
class _Pass:
    epoch: int
    is_over: bool = False
    is_fresh: bool = True  # has not returned a batch yet


class _Iterator(Iterator):
    """One pass. `len` is the number of batches left, for progress bars."""

    def __init__(self, loader: DataLoader, its_pass: _Pass) -> None:
        self._loader = loader
        self._pass = its_pass

    def __iter__(self) -> "_Iterator":
        return self

    def __next__(self) -> Any:
        loader, its_pass = self._loader, self._pass
        if its_pass.is_over:
            if loader._pass is not its_pass:
                raise RuntimeError("this pass ended when another one began: a DataLoader has only one "
                                   "position. Make a second DataLoader for a concurrent pass")
            raise StopIteration
        if its_pass.is_fresh:
            loader._follow_ranks()
            _accelerate.begin(loader)
        its_pass.is_fresh = False
        _trace._device_end_step()
        if _window.current is not None:
            _window.current.begin_step(_trains())
        if not trace.enabled():
            batch = loader._next()
        else:
            _trace._follow(its_pass.epoch, None)
            batch = loader._next()
            _trace._follow(its_pass.epoch, loader.batch.index if batch is not None else None)
        if batch is None:
            loader._end_pass()
            loader._epoch = its_pass.epoch + 1
            raise StopIteration
        if _window.current is not None:
            _window.current.end_wait()
        loader.end_of_dataloader = loader._loader.batches_left == 0
        return batch

    def __len__(self) -> int:
        return 0 if self._pass.is_over else self._loader._loader.batches_left

    __length_hint__ = __len__


def _trains() -> bool:
    """Whether a batch is for training: PyTorch evaluates without gradients."""
    torch = sys.modules.get("torch")
    return torch is None or torch.is_grad_enabled()
