"""Checkpoints that a thread writes while training goes on.

The caller's thread only copies the state to memory of its own. A file appears complete or not at all: it is
written under a temporary name, flushed to the disk, and renamed.
"""

import os
import pathlib
import threading
from typing import Any, Optional

import torch

from millrace import trace


class CheckpointWriter:
    """Writes one checkpoint at a time. Used by one thread."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._thread: Optional[threading.Thread] = None
        self._error: Optional[BaseException] = None

    def save(self, state: Any) -> None:
        """Returns when the state is copied. Raises if the one before could not be written."""
        self.wait()
        with trace.region("checkpoint_copy"):
            copied = to_host(state)
        self._thread = threading.Thread(target=self._write, args=(copied,), name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Returns when everything is on the disk. Raises if it is not."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise RuntimeError(f"the checkpoint {self.path} could not be written: {error}") from error

    def _write(self, state: Any) -> None:
        unfinished = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with open(unfinished, "xb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, self.path)
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)  # the new name, too, is on the disk
            finally:
                os.close(directory)
        except Exception as error:  # the training thread raises it
            self._error = error


def to_host(state: Any) -> Any:
    """A copy that training does not change any more."""
    if isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: to_host(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(to_host(value) for value in state)
    return state
