"""The one connection of this process to the other ranks, over MPI: begun when it is first needed."""

import atexit
import weakref
from typing import Any

from millrace.loader._native import native
from millrace.loader._world import World

_users: "weakref.WeakSet[Any]" = weakref.WeakSet()


def connect() -> tuple:
    """(rank, size), as the launcher of MPI has it; (0, 1) without one. Collective."""
    rank, size = native.connect()
    world = World.find()
    if world.size > 1 and (world.rank, world.size) != (rank, size):
        raise RuntimeError(f"this is rank {world.rank} of {world.size}, but MPI knows {size} rank(s). "
                           "Samples are exchanged over MPI: start one process a rank by mpirun or "
                           "srun --mpi=pmix, without torchrun")
    return rank, size


def close_at_exit(user: Any) -> None:
    """`user` talks to other ranks, and is closed before the connection is."""
    _users.add(user)


@atexit.register
def _disconnect() -> None:
    for user in list(_users):
        user.close()
    native.disconnect()
