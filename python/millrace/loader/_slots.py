"""Slots: memory shared with worker processes, in which they leave batches.

All slots lie in one memory file without a name: nothing is left behind however the processes end,
and the size of /dev/shm does not matter, unless the kernel refuses memfd_create: then it is in /dev/shm. The file is sparse. Slot n begins at n * STRIDE_BYTES; a
process maps as much of it as it uses, and the pages stay mapped for the next batch. Each worker has
SLOTS_PER_WORKER slots of its own, and uses the first that is free.
"""

import errno
import math
import mmap
import os
import pickle
import resource
import sys
from contextlib import suppress
from io import BytesIO
from typing import Any, Optional

import numpy

from millrace.loader._native import native

STRIDE_BYTES = 1 << 36
WORKERS_MAX = 4096
SLOTS_PER_WORKER = 1024
FIRST_TASK_SLOT = WORKERS_MAX * SLOTS_PER_WORKER  # slots for the indices of tasks follow
_STATUS_SLOT = FIRST_TASK_SLOT + 4096
_STATUS_BYTES = (16 + SLOTS_PER_WORKER) * WORKERS_MAX
_PAGE = mmap.PAGESIZE
_MADV_POPULATE_WRITE = 23


def create_file() -> int:
    file = native.shared_file("millrace-batches")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        # The limit on file sizes counts for memory files too, but only when they are made longer.
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        os.ftruncate(file, STRIDE_BYTES * (_STATUS_SLOT + 1))
        native.reserve_room(file, _STATUS_SLOT * STRIDE_BYTES, _STATUS_BYTES)
    except RuntimeError:
        os.close(file)
        raise
    except OSError as error:
        os.close(file)
        if error.errno != errno.EFBIG:
            raise
        raise OSError(errno.EFBIG, f"worker processes share memory in a file, and files are limited to {hard} bytes; "
                      "raise the limit (ulimit -f unlimited), or load with threads (worker=\"thread\")") from None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    return file


class Status:
    """What each worker does, and which of its slots hold a batch that somebody may still use."""

    def __init__(self, file: int) -> None:
        words = 16 * WORKERS_MAX
        area = Slot(file, _STATUS_SLOT).map(_STATUS_BYTES)
        # Two words for each worker: the ticket of its task (0: it waits for one), and the sample.
        self._words = area[:words].view(numpy.int64)
        # Workers set a byte when they leave a batch in the slot, the consumer clears it.
        self._is_used = area[words:]

    def begin(self, worker: int, ticket: int) -> None:
        self._words[2 * worker] = ticket

    def fetch(self, worker: int, sample: int) -> None:
        self._words[2 * worker + 1] = sample

    def ticket(self, worker: int) -> int:
        return int(self._words[2 * worker])

    def sample(self, worker: int) -> int:
        return int(self._words[2 * worker + 1])

    def is_used(self, slot: int) -> bool:
        return bool(self._is_used[slot])

    def use(self, slot: int) -> None:
        self._is_used[slot] = 1

    def release(self, slot: int) -> None:
        self._is_used[slot] = 0


class NoRoom(BaseException):
    """There is no room for a batch. No Exception: it is not the fault of the sample that was fetched."""


class Slot:
    """The pages of one slot, as this process has mapped them. Grows on demand; arrays that were made
    before stay valid."""

    def __init__(self, file: int, number: int, pinning: Any = None,
                 is_filled_here: bool = False) -> None:
        self._file = file
        self._map = pinning.map if pinning else mmap.mmap
        self._is_filled_here = is_filled_here
        self.number = number
        self._mapping: Any = None
        self._bytes = numpy.empty(0, numpy.uint8)
        self._maps: list = []  # all mappings made so far: of the same pages

    def map(self, size_bytes: int) -> numpy.ndarray:
        """The first bytes of the slot, at least `size_bytes` of them."""
        if size_bytes > self._bytes.size:
            # A little more: a batch of objects is not always of the same size.
            size_bytes = min(STRIDE_BYTES, size_bytes + size_bytes // 8)
            size_bytes = -(-size_bytes // _PAGE) * _PAGE
            begin = self.number * STRIDE_BYTES
            if self._is_filled_here:
                native.reserve_room(self._file, begin, size_bytes)
            mapped = self._map(self._file, size_bytes, offset=begin)
            if self._is_filled_here:
                with suppress(OSError):  # before Linux 5.14
                    mapped.madvise(_MADV_POPULATE_WRITE)  # all pages at once, not one fault for each
            self._mapping = mapped
            self._bytes = numpy.frombuffer(mapped, numpy.uint8)
            self._maps.append(self._bytes)
        return self._bytes

    def empty(self) -> None:
        """Returns the pages to the system, for all processes."""
        if self._mapping is not None:
            self._mapping.madvise(mmap.MADV_REMOVE)

    def view(self, size_bytes: int) -> numpy.ndarray:
        """A new array of the first bytes: arrays made from it reference it, and not this slot's own."""
        self.map(size_bytes)
        return numpy.frombuffer(self._mapping, numpy.uint8)

    def write_indices(self, samples: list) -> None:
        self.map(8 * len(samples))[:8 * len(samples)].view(numpy.int64)[:] = samples

    def read_indices(self, count: int) -> list:
        return self.map(8 * count)[:8 * count].view(numpy.int64).tolist()

    def read_seeds(self, begin: int, length: int) -> list:
        return numpy.frombuffer(self.read_bytes(begin, length), numpy.uint64).tolist()

    def write_bytes(self, begin: int, text: bytes) -> None:
        self.map(begin + len(text))[begin:begin + len(text)] = numpy.frombuffer(text, numpy.uint8)

    def read_bytes(self, begin: int, length: int) -> bytes:
        return self.map(begin + length)[begin:begin + length].tobytes()

    def find(self, array: numpy.ndarray) -> Optional[int]:
        """Where the array begins in the slot; None if it is elsewhere, or not contiguous."""
        address = array.ctypes.data
        for mapped in self._maps:
            if array.flags.c_contiguous and 0 <= address - mapped.ctypes.data < mapped.size:
                return address - mapped.ctypes.data
        return None


class SlotWriter:
    """Puts arrays into a slot one after the other, and what is no array as a pickle after them."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._used = 0

    def array(self, shape: tuple, dtype: Any) -> numpy.ndarray:
        size = math.prod(shape) * dtype.itemsize
        align = _PAGE if size >= _PAGE else 64
        begin = -(-self._used // align) * align
        self._used = begin + size
        try:
            mapped = self._slot.map(self._used)
        except RuntimeError as error:
            raise NoRoom(str(error)) from None
        return mapped[begin:self._used].view(dtype).reshape(shape)

    def place(self, array: numpy.ndarray) -> int:
        """Where the array is in the slot. Copies it there if it is elsewhere."""
        found = self._slot.find(array)
        if found is not None:
            return found
        made = self.array(array.shape, array.dtype)
        made[...] = array
        return self._slot.find(made) or 0

    def finish(self, value: Any) -> tuple:
        """Writes the value; returns where its pickle begins and how long it is."""
        file = BytesIO()
        _Pickler(file, self).dump(value)
        text = numpy.frombuffer(file.getvalue(), numpy.uint8)
        return self.place(text), text.size


def load(base: numpy.ndarray, begin: int, length: int) -> Any:
    """The value that SlotWriter.finish() wrote. Its arrays are views of `base`."""
    return _Unpickler(BytesIO(base[begin:begin + length].tobytes()), base).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: BytesIO, writer: SlotWriter) -> None:
        super().__init__(file, 5)
        self._writer = writer

    def persistent_id(self, value: Any) -> Optional[tuple]:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            if type(value) is not torch.Tensor or value.layout != torch.strided or value.is_cuda:
                return None
            value = value.detach()
            bits = value.contiguous().view(torch.uint8) if value.dtype == torch.bfloat16 else value
            array = bits.numpy()
            return ("torch", self._writer.place(array), array.dtype.str, array.shape,
                    str(value.dtype) if bits is not value else "")
        if type(value) is numpy.ndarray and value.dtype.kind in "biufc":
            return "numpy", self._writer.place(value), value.dtype.str, value.shape, ""
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, base: numpy.ndarray) -> None:
        super().__init__(file)
        self._base = base

    def persistent_load(self, place: Any) -> Any:
        kind, begin, dtype, shape, torch_dtype = place
        dtype = numpy.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        array = self._base[begin:begin + size].view(dtype).reshape(shape)
        if kind == "numpy":
            return array
        import torch
        tensor = torch.from_numpy(array)
        return tensor.view(getattr(torch, torch_dtype.removeprefix("torch."))) if torch_dtype else tensor
