"""What libraries read from torch's DataLoader: its samplers, its options and how it makes a batch.

Hugging Face's Trainer and Accelerate skip the first batches of an epoch by making a DataLoader of torch with
the rest of `batch_sampler`. Ray and Lightning give `sampler` the epoch, and Ray replaces a loader whose sampler
is no DistributedSampler. So these attributes are real ones (Ray copies `__dict__`), of the classes that
libraries ask for, and say what the loader does.
"""

import inspect
import weakref
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Optional

from millrace.loader import _accelerate, _rows
from millrace.loader._loader_options import LoaderOptions
from millrace.loader._samplers import is_distributed
from millrace.loader._torch_options import torch_data

_SHUFFLED = ("global", "local", "partial", "file")


class Visits:
    """The samples of this rank in an epoch, batch by batch, without reading them. Iterating over them to the
    end is a pass, as iterating over the loader is: the next one is the next epoch."""

    def __init__(self, loader: Any) -> None:
        self.loader = weakref.ref(loader)  # dropping the loader ends its threads, so do not keep it
        self._lists = loader._options.lists
        self._own_epoch = 0  # without the loader
        # Whoever iterates trains with each batch at once: torch's DataLoader does, without workers.
        self._is_in_step = loader.num_workers == 0
        self.end_of_dataloader = False  # for Accelerate
        self.follow(loader)

    def follow(self, loader: Any) -> None:
        """The loader has another rank now."""
        self._reader = loader._loader
        self.remainder = loader.remainder

    @property
    def epoch(self) -> int:
        loader = self.loader()
        return self._own_epoch if loader is None else loader.epoch

    def set_epoch(self, epoch: int) -> None:
        self._own_epoch = epoch
        loader = self.loader()
        if loader is not None:
            loader.set_epoch(epoch)

    def alone(self) -> "Visits":
        """The same samples, for a copy of a sampler: its set_epoch() does not reach the loader."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, loader=lambda: None, _own_epoch=self.epoch)
        return made

    @property
    def batch_count(self) -> int:
        loader = self.loader()
        return self._reader.batch_count if loader is None else len(loader)

    def batch(self, epoch: int, number: int) -> list:
        if self._lists is not None:
            self._lists.know(epoch)
        return self._reader.samples_of_epoch(epoch, number)[0]

    def __iter__(self) -> Iterator[list]:
        loader = self.loader()
        if loader is not None:
            loader._follow()
        epoch = self.epoch
        del loader  # while the program iterates
        last = self.batch_count - 1
        if self._is_in_step:
            _accelerate.begin(self)
        try:
            for number in range(last + 1):
                batch = self.batch(epoch, number)
                self.end_of_dataloader = number == last
                yield batch
        finally:
            if self._is_in_step:
                _accelerate.end(self)
        self._finish(epoch)

    def _finish(self, epoch: int) -> None:
        loader = self.loader()
        if loader is None:
            self._own_epoch = epoch + 1
        elif loader._is_at_start_of(epoch):
            loader.set_epoch(epoch + 1)


def samplers_of(loader: Any, given: Any) -> tuple:
    """The sampler and the batch sampler. `given`: the sampler of the program."""
    visits, data = Visits(loader), torch_data()
    is_own = given is not None and (loader.world.size == 1 or _is_instance(given, data, "DistributedSampler"))
    sampler = given
    if not is_own:
        kind = ("DistributedSampler" if loader.world.size > 1 else
                "SequentialSampler" if loader.shuffle == "off" else
                "RandomSampler" if loader.shuffle in _SHUFFLED else "Sampler")
        sampler = _sampler_class(data, kind)(visits, loader)
    return sampler, _batch_sampler_class(data)(visits, sampler, loader)


_OPTIONS = ("num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
            "prefetch_factor", "persistent_workers", "pin_memory_device", "in_order")


def options_of(given: dict) -> dict:
    """The values that torch's DataLoader has for these options, so that it accepts them. It refuses options of
    worker processes without a number of workers; ours is then tuned."""
    has_workers = bool(given["num_workers"])
    made = {name: given[name] for name in _OPTIONS}
    made.update(num_workers=given["num_workers"] or 0, pin_memory=bool(given["pin_memory"]), persistent_workers=False,
                timeout=0, multiprocessing_context=None, prefetch_factor=_default_prefetch_factor())
    if has_workers:
        wanted = ("persistent_workers", "multiprocessing_context", "prefetch_factor")
        made.update({name: given[name] for name in wanted if given[name] is not None},
                    timeout=given["timeout"] or 0)
    return made


class Collate:
    """Makes a batch of samples, like the loader. Libraries give it to torch's DataLoader, also with worker
    processes."""

    def __init__(self, options: LoaderOptions) -> None:
        self._function = options.collate_fn
        self._kind = options.kind
        self._transform = options.transform
        data = None if options.has_map else options.data
        self._is_native = data is not None
        self._has_labels = data is not None and data.has_labels
        self._unlike = ("output='dict'" if options.is_dict else
                        f"the field {next(iter(data._shapes))!r}" if data is not None and data._shapes else "")

    def __call__(self, samples: list) -> Any:
        if self._unlike:
            raise ValueError(f"only the loader itself makes batches with {self._unlike}. To skip batches, load "
                             "a state: loader.load_state_dict()")
        if self._function is not None:
            batch = self._function(samples)
        elif self._is_native:
            batch = self._of_native(samples)
        else:
            batch = _rows.collate(samples, self._kind)
        return batch if self._transform is None else self._transform(batch)

    def _of_native(self, samples: list) -> Any:
        if self._has_labels:
            samples = [(*values, -1 if label is None else label) for *values, label in samples]
        if self._kind == "numpy":
            samples = [tuple(map(_in_numpy, sample)) if isinstance(sample, tuple) else _in_numpy(sample)
                       for sample in samples]
        batch = _rows.collate(samples, self._kind)
        return tuple(batch) if isinstance(batch, list) else batch


def _in_numpy(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def _is_instance(sampler: Any, data: Any, name: str) -> bool:
    return isinstance(sampler, getattr(data, name)) if data is not None else is_distributed(sampler)


def _default_prefetch_factor() -> Optional[int]:
    # 2 before torch 2, which refuses others without workers; later None.
    data = torch_data()
    if data is None:
        return None
    return inspect.signature(data.DataLoader.__init__).parameters["prefetch_factor"].default


# Classes derived from torch's, which may not be imported. They are not initialized as torch does it: nothing
# is drawn here.


@lru_cache(maxsize=None)
def _sampler_class(data: Any, kind: str) -> Any:
    class LoaderSampler(_base(data, kind)):  # type: ignore[misc]
        """The samples of this rank in the epoch of the loader, in their order."""

        def __init__(self, visits: Visits, loader: Any) -> None:
            self._visits = visits
            self.dataset = self.data_source = loader.dataset
            self.num_replicas, self.rank = loader.world.size, loader.world.rank
            self.shuffle, self.seed = loader.shuffle != "off", loader._options.order.seed
            self.drop_last = loader.tail == "drop"
            self.replacement, self.generator = False, None

        epoch = property(lambda self: self._visits.epoch)
        num_samples = property(len)
        total_size = property(lambda self: len(self) * self.num_replicas)

        def set_epoch(self, epoch: int) -> None:
            self._visits.set_epoch(epoch)

        def __iter__(self) -> Iterator[int]:
            return chain.from_iterable(self._visits)

        def __len__(self) -> int:
            visits = self._visits
            last = visits.batch_count - 1  # only the last batch may be smaller
            if last < 0:
                return 0
            return last * len(visits.batch(visits.epoch, 0)) + len(visits.batch(visits.epoch, last))

        def __copy__(self) -> Any:
            made = object.__new__(type(self))
            made.__dict__.update(self.__dict__, _visits=self._visits.alone())
            return made

    return LoaderSampler


@lru_cache(maxsize=None)
def _batch_sampler_class(data: Any) -> Any:
    class LoaderBatchSampler(_base(data, "BatchSampler")):  # type: ignore[misc]
        """The samples of each batch of this rank, in the epoch of the loader."""

        def __init__(self, visits: Visits, sampler: Any, loader: Any) -> None:
            self._visits = visits
            self.sampler = sampler
            self.batch_size = loader.batch_size
            self.drop_last = loader.tail == "drop"

        def set_epoch(self, epoch: int) -> None:
            self._visits.set_epoch(epoch)

        def __iter__(self) -> Iterator[list]:
            return iter(self._visits)

        def __len__(self) -> int:
            return self._visits.batch_count

    return LoaderBatchSampler


def _base(data: Any, name: str) -> Any:
    return object if data is None else getattr(data, name)
