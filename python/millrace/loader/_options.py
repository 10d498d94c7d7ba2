"""What DataLoader was given, checked and in the words of C++."""

from typing import Any, Union

from millrace.loader._native import native
from millrace.loader._world import World

SHUFFLES = ("off", "global", "local", "partial", "file")


def of_sampler(sampler: Any, shuffle: Union[bool, str, None]) -> tuple:
    if shuffle:
        raise ValueError("give a sampler or shuffle, not both")
    wanted = ("num_replicas", "rank", "shuffle", "seed", "drop_last")
    if not all(hasattr(sampler, name) for name in wanted):
        raise ValueError(f"sampler={type(sampler).__name__}: only a DistributedSampler can be taken "
                         "over. Leave it out, and give shuffle= and seed=; the loader shards by rank "
                         "itself")
    return sampler.shuffle, sampler.seed, sampler.drop_last, sampler.rank, sampler.num_replicas


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
    if shard != "node":
        raise ValueError(f"shard={shard!r}: there are 'rank' and 'node'")
    if world.node_count == 0:
        raise ValueError(f"shard='node' needs as many ranks on every node, and there are {world.size} "
                         f"ranks, {world.local_size} of them here. Take shard='rank'")
    # Shard s has the positions s, s + nodes, ...; ranks are numbered so that those of a node have
    # only such positions, whatever the launcher's numbering is within its blocks of a node each.
    node = world.rank // world.local_size
    return world.node_count, world.local_rank * world.node_count + node


def positive(name: str, value: Any, or_zero: bool = False) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < (not or_zero):
        raise ValueError(f"{name}={value!r} is not a number of at least 1")
    return int(value)


def natural(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 0:
        raise ValueError(f"{name}={value!r} is not a number from 0 on")
    return int(value)


def size_of(memory: Union[int, str]) -> int:
    return native.parse_size(memory) if isinstance(memory, str) else positive("memory", memory)
