"""This process's only connection to the other ranks, over MPI. Opened on first use."""

import atexit
import weakref
from typing import Any

from millrace.loader._native import native
from millrace.loader._world import World

_users: "weakref.WeakSet[Any]" = weakref.WeakSet()


def connect() -> tuple:
    """(rank, size) according to MPI; (0, 1) without an MPI launcher. Collective."""
    rank, size = native.connect()
    world = World.find()
    if world.size > 1 and (world.rank, world.size) != (rank, size):
        raise RuntimeError(f"this is rank {world.rank} of {world.size}, but MPI has {size} rank(s). "
                           "Samples are exchanged over MPI: start one process per rank with mpirun "
                           "or srun --mpi=pmix, without torchrun")
    return rank, size


def close_at_exit(user: Any) -> None:
    """At exit, closes `user`, which communicates with other ranks, before the connection."""
    _users.add(user)


@atexit.register
def _disconnect() -> None:
    for user in list(_users):
        user.close()
    native.disconnect()
