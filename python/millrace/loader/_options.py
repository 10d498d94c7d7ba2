"""What DataLoader was given, checked and in the words of C++."""

import os
from typing import Any, Optional, Union

from millrace.loader._native import native
from millrace.loader._ranks import connect
from millrace.loader._world import World

SHUFFLES = ("off", "global", "local", "partial", "file")


def shuffle_name(shuffle: Union[bool, str, None]) -> str:
    name = {False: "off", None: "off", True: "global"}.get(shuffle, shuffle)  # type: ignore[arg-type]
    if name not in SHUFFLES:
        raise ValueError(f"shuffle={shuffle!r}: there are False, True, "
                         + ", ".join(repr(known) for known in SHUFFLES))
    return name


def shards(world: World, shard: str) -> tuple:
    """How many hold samples of their own (0: every rank), and the place of this rank."""
    if shard == "rank":
        return 0, world.rank
    if shard not in ("node", "both"):
        raise ValueError(f"shard={shard!r}: there are 'rank', 'node' and 'both'")
    if world.node_count == 0:
        raise ValueError(f"shard={shard!r} needs as many ranks on every node, and there are {world.size} "
                         f"ranks, {world.local_size} of them here. Take shard='rank'")
    # Shard s has the positions s, s + nodes, ...; ranks are numbered so that those of a node have
    # only such positions, whatever the launcher's numbering is within its blocks of a node each.
    node = world.rank // world.local_size
    if shard == "both":
        return 0, node * world.local_size + world.local_rank
    return world.node_count, world.local_rank * world.node_count + node


def positive(name: str, value: Any) -> int:
    if not _is_number(value) or not 1 <= int(value) < 2**63:
        raise ValueError(f"{name}={value!r} is not a number of at least 1")
    return int(value)


def natural(name: str, value: Any, most: int = 2**64 - 1) -> int:
    if not _is_number(value) or not 0 <= int(value) <= most:
        raise ValueError(f"{name}={value!r} is not a number from 0 to {most}")
    return int(value)


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def deadline(timeout: Optional[float]) -> float:
    """In seconds; none, as torch has 0, is thirty years: what a clock of nanoseconds can hold."""
    forever = 1e9
    if timeout is None or timeout == 0:
        return forever
    if not timeout > 0:
        raise ValueError(f"timeout={timeout!r} is not a number of seconds; 0 waits for ever")
    return min(float(timeout), forever)


def size_of(memory: Union[int, str], name: str = "memory") -> int:
    return native.parse_size(memory) if isinstance(memory, str) else positive(name, memory)


def cache_of(memory: Union[int, str, None], directory: Any, disk: Union[int, str, None],
             peers: bool) -> dict:
    """What is kept near, for the loader of C++."""
    if (directory is None) != (disk is None):
        raise ValueError("give cache_dir, a directory on this node's disk, and cache_disk, how much of "
                         "it may be taken, or neither")
    if peers and memory is None and disk is None:
        raise ValueError("cache_peers=True lets ranks ask each other for what they keep: give "
                         "cache_memory, or cache_dir and cache_disk, to keep it in")
    return {"cache_memory_bytes": 0 if memory is None else size_of(memory, "cache_memory"),
            "cache_disk_bytes": 0 if disk is None else size_of(disk, "cache_disk"),
            "cache_directory": b"" if directory is None else os.fsencode(directory),
            "cache_peers": bool(peers)}


def refuse_cache(dataset: Any, cache: dict, local_dir: Any) -> None:
    if cache["cache_memory_bytes"] or cache["cache_disk_bytes"] or local_dir is not None:
        given = "cache_memory and cache_dir keep" if local_dir is None else "local_dir holds"
        raise ValueError(f"{given} encoded samples of files that C++ reads "
                         f"(ImageFolder, Files, RawFolder, ArrayFolder), and a {type(dataset).__name__} "
                         "makes its samples in Python. Leave them out")


def local_of(directory: Any, shuffle: str, cache: dict) -> dict:
    """Where the rank holds its samples, for the loader of C++."""
    if directory is None:
        return {"local_directory": b""}
    if not os.fspath(directory):
        raise ValueError("local_dir is empty: give a directory on this node's own disk")
    if shuffle != "partial":
        raise ValueError(f"local_dir is for shuffle='partial', and this is {shuffle!r}: only there does "
                         "each rank have samples of its own that move. Give cache_dir to keep samples "
                         "near for other orders")
    if cache["cache_memory_bytes"] or cache["cache_disk_bytes"]:
        raise ValueError("local_dir holds all samples of this rank on its own disk already: leave "
                         "cache_memory, cache_dir and cache_peers out")
    return {"local_directory": os.fsencode(directory)}


def connect_ranks(option: str, world: World, place: int) -> None:
    """For an option by which ranks talk. Collective."""
    try:
        rank, size = connect()
    except RuntimeError as error:
        raise RuntimeError(f"{option}: {error}, or leave it out: the batches are the same, read from "
                           "the dataset") from None
    if (rank, size) != (world.rank, world.size):
        raise ValueError(f"{option}: the loader is rank {world.rank} of {world.size}, and MPI "
                         f"has this process as rank {rank} of {size}. Leave rank and world_size out")
    if place != rank:
        raise ValueError(f"{option} does not go with shard='node'; take shard='rank'")
