"""LoaderOptions: what a DataLoader was asked for, checked, whatever its rank. Every way to open a loader takes it."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Optional

from millrace.loader import _outputs
from millrace.loader._job import Job, WorkerOptions
from millrace.loader._options import (Cache, Prefetch, budget_of, check_types, deadline, positive, refuse_kept_samples,
                                      tiers_of)
from millrace.loader._orders import ChosenOrder, Lists, chosen_order
from millrace.loader._pinned import gpu_to_pin_for, pin
from millrace.loader._python_workers import kind_of
from millrace.loader._samplers import Asked, GivenEpochs, without_samplers
from millrace.loader._torch_options import pace_of, refuse_empty, refuse_iterable
from millrace.loader.datasets import Dataset, read_by_native


@dataclass(frozen=True)
class LoaderOptions:
    asked: Asked  # without samplers
    given_epochs: GivenEpochs
    order: ChosenOrder
    data: Optional[Dataset]  # None: Python makes the samples
    tail: Optional[str]
    epoch_count: int  # of the whole job; 0: unknown
    prefetch: Prefetch
    cache: Optional[Cache]
    skips_bad_samples: bool
    timeout_seconds: float
    kind: str  # of a batch: "torch", "numpy" or "array"
    is_dict: bool
    transform: Optional[Callable[[Any], Any]]
    collate_fn: Optional[Callable[[list], Any]]
    thread_count: int  # of C++; 0: tuned
    workers: WorkerOptions

    @property
    def lists(self) -> Optional[Lists]:
        return self.order.drawn.lists

    @property
    def has_map(self) -> bool:
        return self.data is not None and self.data._map is not None

    @property
    def holds_shard(self) -> bool:
        return self.order.partial.dir is not None

    @property
    def talks(self) -> str:
        """The option for which ranks communicate, if there is one."""
        return ("Partial.dir" if self.holds_shard else
                "Cache.peers" if self.cache is not None and self.cache.peers else "")

    def native(self) -> dict:
        """Those of native.Loader, apart from the rank's and from how its batches are used."""
        return {"epoch_count": self.epoch_count, "skips_bad_samples": self.skips_bad_samples,
                "timeout_seconds": self.timeout_seconds, "memory_bytes": self.workers.memory_bytes,
                "io_depth": self.prefetch.io_depth, "shard_directory": os.fsencode(self.order.partial.dir or ""),
                **tiers_of(self.cache)}

    def job(self, dataset: Any, size: int, noun: str = "the dataset") -> Job:
        """The job of the workers. Processes make batches in memory that is pinned; others pin each batch."""
        pins = self.workers.gpu is not None and self.workers.kind != "process"
        return Job(dataset, size, self.collate_fn, self.kind, self.skips_bad_samples, pin if pins else None, noun)


def options_of(given: dict) -> LoaderOptions:
    """`given`: the arguments of DataLoader, by name. Refuses what cannot work on any rank."""
    refuse_iterable(given["dataset"])
    check_types(**{name: given[name] for name in ("world", "prefetch", "cache")})
    asked, given_epochs = without_samplers(
        Asked(**{name: given[name] for name in ("dataset", "batch_size", "shuffle", "seed", "drop_last", "world")}),
        given["sampler"], given["batch_sampler"], given["generator"])
    refuse_empty(asked.dataset)
    asked = replace(asked, batch_size=positive("batch_size", asked.batch_size))
    order = chosen_order(asked.shuffle, asked.dataset, asked.seed)
    is_dict = given["output"] == "dict"
    kind = _outputs.choose(None if is_dict else given["output"])
    prefetch = given["prefetch"] or Prefetch()
    thread_count, prefetch_batches = pace_of(given["num_workers"], prefetch.batches, given["prefetch_factor"])
    options = LoaderOptions(
        asked, given_epochs, order, read_by_native(asked.dataset), given["tail"],
        0 if given["epochs"] is None else positive("epochs", given["epochs"]), prefetch, given["cache"],
        bool(given["skip_bad_samples"]), deadline(given["timeout"]), kind, is_dict, given["transform"],
        given["collate_fn"], thread_count,
        WorkerOptions(kind_of(given["worker"], given["num_workers"], kind), thread_count, prefetch_batches,
                      budget_of(prefetch), order.seed, given["multiprocessing_context"], given["worker_init_fn"],
                      given["restart_workers"], given["persistent_workers"],
                      gpu_to_pin_for(kind) if given["pin_memory"] else None))
    _refuse_mismatch(options)
    return options


def _refuse_mismatch(options: LoaderOptions) -> None:
    """Options that do not go together, or not with this dataset."""
    data, dataset, workers = options.data, options.asked.dataset, options.workers
    if data is None:
        refuse_kept_samples(dataset, options.cache, options.order.partial)
        if options.order.drawn.shuffle == "file":
            raise ValueError("shuffle='file' needs a dataset of files (ImageFolder, Files): the files of a "
                             "Python dataset are not known")
    elif options.holds_shard and options.cache is not None:
        raise ValueError("Partial.dir already keeps all samples of this rank on its own disk: remove cache=")
    if data is not None and not options.has_map:
        if options.collate_fn is not None:
            raise ValueError(f"collate_fn is only for Python datasets and datasets with map=; C++ makes the "
                             f"batches of {type(dataset).__name__}. Give transform=, a function of the whole batch")
        return
    if workers.init is not None and workers.kind != "process":
        raise ValueError("worker_init_fn is for worker processes: remove worker='thread' or num_workers=0, "
                         "or call it once yourself")
    if data is None:
        return
    if options.is_dict:
        raise ValueError("output='dict' is for batches that C++ makes; with map=, a batch is made of what "
                         "the function returns. Return a dict from it")
    if workers.kind == "process" and options.kind == "array":
        raise ValueError("output='array': worker processes need NumPy or torch; give output='numpy', or "
                         "worker='thread'")
    if options.kind == "numpy" and any(dtype == "bfloat16" for _, dtype, _ in data.fields):
        raise ValueError("numpy has no bfloat16; use output='torch', or another dtype")
