"""The options of DataLoader that torch does not have, and how they are validated."""

import numbers
import os
from dataclasses import dataclass
from typing import Any, Optional, Union

from millrace.loader._native import native
from millrace.loader._ranks import connect
from millrace.loader._world import World

PathLike = Union[str, "os.PathLike[str]"]
Size = Union[int, str]  # bytes, or a text such as "4GiB"
SHUFFLES = ("off", "global", "local", "partial", "file")
SHARDS = ("rank", "node", "both")


@dataclass(frozen=True)
class Prefetch:
    """How far ahead the loader reads.

    batches: the number of batches to prefetch. By default tuned to the time that training waits.
    memory: the most memory for batches ("1GiB", or bytes), if `batches` is tuned. By default 1 GiB; in a container or
        batch job that allows little memory, a quarter of it, shared by the ranks on this host.
    io_depth: the most reads that a thread has in flight, if that is faster than one at a time
        (`engine=` of the dataset; `stats()["reads"]` says which is used). 1: one at a time.
    """

    batches: Optional[int] = None
    memory: Optional[Size] = None
    io_depth: int = 32

    def __post_init__(self) -> None:
        natural("Prefetch.batches", self.batches or 0, 2**32 - 1)
        budget_of(self)
        positive("Prefetch.io_depth", self.io_depth)


@dataclass(frozen=True)
class Cache:
    """Where encoded samples are kept. The order is known, so those that are needed soonest are kept.

    memory: how much memory of this process may be used ("4GiB", or bytes).
    dir, disk: a directory on this host's disk, and how much of it this rank may use.
    peers: ranks started by mpirun or srun read from each other's caches before they read the files.
        Every rank must make the loader, and several such loaders in the same order.
    """

    memory: Optional[Size] = None
    dir: Optional[PathLike] = None
    disk: Optional[Size] = None
    peers: bool = False

    def __post_init__(self) -> None:
        if (self.dir is None) != (self.disk is None):
            raise ValueError("Cache: give both dir (a directory on this host's disk) and disk (how much "
                             "of it may be used), or neither")
        if self.memory is None and self.disk is None:
            raise ValueError("Cache keeps nothing: give memory, or dir and disk")
        for name, size in (("memory", self.memory), ("disk", self.disk)):
            if size is not None:
                size_of(f"Cache.{name}", size)


@dataclass(frozen=True)
class Local:
    """shuffle="local", with options: each rank shuffles its own samples.

    shard: who has its own samples: every "rank"; or every "node", whose ranks share them; "both":
        every rank, out of its node's samples.
    """

    shard: str = "rank"

    def __post_init__(self) -> None:
        _check_shard("Local", self.shard)


@dataclass(frozen=True)
class Partial:
    """shuffle="partial", with options: local, and after every epoch samples move between ranks.

    fraction: how many of each rank's samples move to other ranks, from 0 to 1.
    dir: a directory on the host's own disk. Each rank copies its samples into it once and reads them
        from there. Samples for other ranks move while the epoch trains. The batches are the same as
        without it. Start several ranks with mpirun or srun; every rank must make the loader and run
        the same epochs.
    shard: as in Local.
    """

    fraction: float = 0.1
    dir: Optional[PathLike] = None
    shard: str = "rank"

    def __post_init__(self) -> None:
        if not isinstance(self.fraction, numbers.Real) or not 0 <= self.fraction <= 1:
            raise ValueError(f"Partial.fraction={self.fraction!r} is not a number from 0 to 1")
        if self.dir is not None and not os.fspath(self.dir):
            raise ValueError("Partial.dir is empty: give a directory on this host's own disk")
        _check_shard("Partial", self.shard)


Shuffle = Union[bool, str, Local, Partial, None]  # and those of _orders.py


def shuffle_of(shuffle: Shuffle) -> tuple[str, Partial]:
    """The name of the shuffle, and its options. Those that a shuffle does not have are the defaults."""
    if isinstance(shuffle, Partial):
        return "partial", shuffle
    if isinstance(shuffle, Local):
        return "local", Partial(shard=shuffle.shard)
    name = {False: "off", None: "off", True: "global"}.get(shuffle, shuffle)  # type: ignore[arg-type]
    if name not in SHUFFLES:
        raise ValueError(f"shuffle={shuffle!r}: expected False, True, "
                         + ", ".join(repr(known) for known in SHUFFLES)
                         + ", millrace.Local(...), millrace.Partial(...), millrace.Weighted(...), "
                         "millrace.Balanced(...), millrace.Mixture(...) or millrace.Listed(...)")
    return name, Partial()


def check_types(**given: Any) -> None:
    kinds = {"world": World, "prefetch": Prefetch, "cache": Cache}
    for name, value in given.items():
        if value is not None and not isinstance(value, kinds[name]):
            raise TypeError(f"{name}={value!r}: expected {name}=millrace.{kinds[name].__name__}(...)")


def shards(world: World, shard: str) -> tuple:
    """The number of shards (0: one per rank), and the position of this rank among the ranks."""
    if shard == "rank":
        return 0, world.rank
    if world.node_count == 0:
        raise ValueError(f"shard={shard!r} needs the same number of ranks on every node, but there are "
                         f"{world.size} ranks, {world.local_size} of them here. Use shard='rank'")
    # Shard s has the positions s, s + nodes, ... Number the ranks so that those of a node visit
    # only these positions, however the launcher numbers ranks within a node. Assumes that the ranks
    # of a node are consecutive.
    node = world.rank // world.local_size
    if shard == "both":
        return 0, node * world.local_size + world.local_rank
    return world.node_count, world.local_rank * world.node_count + node


def _check_shard(owner: str, shard: str) -> None:
    if shard not in SHARDS:
        raise ValueError(f"{owner}.shard={shard!r}: expected 'rank', 'node' or 'both'")


def positive(name: str, value: Any) -> int:
    if not _is_number(value) or not 1 <= int(value) < 2**63:
        raise ValueError(f"{name}={value!r} is not an integer of at least 1")
    return int(value)


def natural(name: str, value: Any, most: int = 2**64 - 1) -> int:
    if not _is_number(value) or not 0 <= int(value) <= most:
        raise ValueError(f"{name}={value!r} is not an integer from 0 to {most}")
    return int(value)


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def deadline(timeout: Optional[float]) -> float:
    """In seconds. None and 0 (as in torch) mean no timeout: thirty years, which fits into
    nanoseconds."""
    forever = 1e9
    if timeout is None or timeout == 0:
        return forever
    if not timeout > 0:
        raise ValueError(f"timeout={timeout!r} is not a positive number of seconds; 0 waits forever")
    return min(float(timeout), forever)


def size_of(name: str, size: Size) -> int:
    """In bytes."""
    if not isinstance(size, str):
        return positive(name, size)
    try:
        return native.parse_size(size)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def budget_of(prefetch: Prefetch) -> int:
    """The most memory for batches, in bytes."""
    return native.batch_budget() if prefetch.memory is None else size_of("Prefetch.memory", prefetch.memory)


def tiers_of(cache: Optional[Cache]) -> dict:
    """The cache options of the C++ loader."""
    if cache is None:
        return {"cache_memory_bytes": 0, "cache_disk_bytes": 0, "cache_directory": b"",
                "cache_peers": False}
    return {"cache_memory_bytes": 0 if cache.memory is None else size_of("Cache.memory", cache.memory),
            "cache_disk_bytes": 0 if cache.disk is None else size_of("Cache.disk", cache.disk),
            "cache_directory": b"" if cache.dir is None else os.fsencode(cache.dir),
            "cache_peers": bool(cache.peers)}


def refuse_kept_samples(dataset: Any, cache: Optional[Cache], partial: Partial) -> None:
    if cache is not None or partial.dir is not None:
        given = "cache" if cache is not None else "Partial.dir"
        raise ValueError(f"{given} keeps encoded samples of files that C++ reads (ImageFolder, Files, "
                         f"RawFolder, ArrayFolder), but {type(dataset).__name__} makes its samples in "
                         "Python. Remove the option")


def connect_ranks(option: str, world: World, place: int) -> None:
    """Connects the ranks, for an option that needs communication. Collective."""
    try:
        rank, size = connect()
    except RuntimeError as error:
        raise RuntimeError(f"{option}: {error}, or remove the option: the batches are the same, "
                           "but read from the dataset") from None
    if (rank, size) != (world.rank, world.size):
        raise ValueError(f"{option}: the loader is rank {world.rank} of {world.size}, but in MPI this "
                         f"process is rank {rank} of {size}. Remove world=")
    if place != rank:
        raise ValueError(f"{option} does not work with shard='node'; use shard='rank'")
