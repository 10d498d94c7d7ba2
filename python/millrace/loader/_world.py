"""World: the rank of this process and the number of ranks, in the job and on this host."""

import os
import sys
from dataclasses import dataclass
from typing import Mapping, Optional

from millrace._trace import _place_variables


@dataclass(frozen=True)
class World:
    """The ranks of a job. `local_rank` and `local_size` count only the ranks on this host."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    def __post_init__(self) -> None:
        if self.size < 1 or not 0 <= self.rank < self.size:
            raise ValueError(f"rank {self.rank} of {self.size} ranks: a rank must be from 0 to the "
                             "number of ranks minus 1")
        if self.local_size < 1 or not 0 <= self.local_rank < self.local_size:
            raise ValueError(f"local rank {self.local_rank} of {self.local_size} ranks on this host: it "
                             "must be from 0 to the number of ranks on the host minus 1")

    @property
    def node_count(self) -> int:
        """0 if not all hosts have the same number of ranks."""
        return self.size // self.local_size if self.size % self.local_size == 0 else 0

    @classmethod
    def find(cls, rank: Optional[int] = None, size: Optional[int] = None) -> "World":
        """The given numbers; else those of torch.distributed, if it is initialized; else those of the
        launcher's environment; else a single rank."""
        launched = cls.of_environment(os.environ)
        if rank is None or size is None:
            group = cls.of_torch()
            if group is None:
                return launched
            rank, size = group
        if (rank, size) == (launched.rank, launched.size):
            return launched
        return cls(rank, size)

    @staticmethod
    def of_torch() -> Optional[tuple[int, int]]:
        """Rank and size according to torch.distributed; None unless it is initialized."""
        torch = sys.modules.get("torch")  # if it is not imported, it is not initialized
        distributed = getattr(torch, "distributed", None)
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return None
        return distributed.get_rank(), distributed.get_world_size()

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> "World":
        """From the variables of src/wire/launchers.h; a single rank unless they give rank and size."""
        rank_name, size_name, local_rank_name, local_size_name = _place_variables(environment)
        if rank_name is None or size_name is None:
            return cls()
        rank, size = _number(environment, rank_name), _number(environment, size_name)
        local_rank = _number(environment, local_rank_name, 0)
        local_size = _number(environment, local_size_name, 1)
        if not 0 <= local_rank < local_size:
            local_rank, local_size = 0, 1
        return cls(rank, size, local_rank, local_size)


def _number(environment: Mapping[str, str], name: Optional[str],
            or_else: Optional[int] = None) -> int:
    text = "" if name is None else environment.get(name, "")
    # Slurm writes "2(x3),1" for three hosts of two tasks and one of one: that is not one number for
    # all hosts.
    text = text[:text.index("(x")] if text.endswith(")") and text.count("(x") == 1 else text
    if text.isdecimal():
        return int(text)
    if or_else is not None:
        return or_else
    raise ValueError(f"{name}={text!r} in the environment is not a number; unset it, or give world=")
