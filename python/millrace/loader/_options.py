"""Options of DataLoader, validated and translated for C++."""

import os
from typing import Any, Optional, Union

from millrace.loader._native import native
from millrace.loader._ranks import connect
from millrace.loader._world import World

SHUFFLES = ("off", "global", "local", "partial", "file")


def shuffle_name(shuffle: Union[bool, str, None]) -> str:
    name = {False: "off", None: "off", True: "global"}.get(shuffle, shuffle)  # type: ignore[arg-type]
    if name not in SHUFFLES:
        raise ValueError(f"shuffle={shuffle!r}: expected False, True, "
                         + ", ".join(repr(known) for known in SHUFFLES))
    return name


def shards(world: World, shard: str) -> tuple:
    """The number of shards (0: one per rank), and the position of this rank among the ranks."""
    if shard == "rank":
        return 0, world.rank
    if shard not in ("node", "both"):
        raise ValueError(f"shard={shard!r}: expected 'rank', 'node' or 'both'")
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


def size_of(memory: Union[int, str], name: str = "memory") -> int:
    return native.parse_size(memory) if isinstance(memory, str) else positive(name, memory)


def cache_of(memory: Union[int, str, None], directory: Any, disk: Union[int, str, None],
             peers: bool) -> dict:
    """The cache options of the C++ loader."""
    if (directory is None) != (disk is None):
        raise ValueError("give both cache_dir (a directory on this host's disk) and cache_disk (how "
                         "much of it may be used), or neither")
    if peers and memory is None and disk is None:
        raise ValueError("cache_peers=True lets ranks read from each other's caches, but there is no "
                         "cache: give cache_memory, or cache_dir and cache_disk")
    return {"cache_memory_bytes": 0 if memory is None else size_of(memory, "cache_memory"),
            "cache_disk_bytes": 0 if disk is None else size_of(disk, "cache_disk"),
            "cache_directory": b"" if directory is None else os.fsencode(directory),
            "cache_peers": bool(peers)}


def refuse_cache(dataset: Any, cache: dict, local_dir: Any) -> None:
    if cache["cache_memory_bytes"] or cache["cache_disk_bytes"] or local_dir is not None:
        given = "cache_memory and cache_dir keep" if local_dir is None else "local_dir keeps"
        raise ValueError(f"{given} encoded samples of files that C++ reads "
                         f"(ImageFolder, Files, RawFolder, ArrayFolder), but {type(dataset).__name__} "
                         "makes its samples in Python. Remove these options")


def local_of(directory: Any, shuffle: str, cache: dict) -> dict:
    """The shard storage option of the C++ loader."""
    if directory is None:
        return {"local_directory": b""}
    if not os.fspath(directory):
        raise ValueError("local_dir is empty: give a directory on this host's own disk")
    if shuffle != "partial":
        raise ValueError(f"local_dir needs shuffle='partial', but shuffle is {shuffle!r}. Use "
                         "cache_dir to keep samples on a local disk with other shuffles")
    if cache["cache_memory_bytes"] or cache["cache_disk_bytes"]:
        raise ValueError("local_dir already keeps all samples of this rank on its own disk: remove "
                         "cache_memory, cache_dir and cache_peers")
    return {"local_directory": os.fsencode(directory)}


def connect_ranks(option: str, world: World, place: int) -> None:
    """Connects the ranks, for an option that needs communication. Collective."""
    try:
        rank, size = connect()
    except RuntimeError as error:
        raise RuntimeError(f"{option}: {error}, or remove the option: the batches are the same, "
                           "but read from the dataset") from None
    if (rank, size) != (world.rank, world.size):
        raise ValueError(f"{option}: the loader is rank {world.rank} of {world.size}, but in MPI this "
                         f"process is rank {rank} of {size}. Remove rank and world_size")
    if place != rank:
        raise ValueError(f"{option} does not work with shard='node'; use shard='rank'")
