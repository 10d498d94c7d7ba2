"""MapLoader: batches of samples that C++ reads, each given to a Python function (`map=`).

The C++ loader reads and decodes as without a function, but its batches are the input of workers. They
lie in memory that worker processes map too: a worker gets the place of a batch, makes views of its
rows, and calls the function with each. next() of the training hands a batch to the workers as soon as
it is ready; no thread does. The position of a state is behind the batches that next() has returned.
"""

import collections
import mmap
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Optional

from millrace.loader import _outputs
from millrace.loader._errors import SampleError
from millrace.loader._job import Content, Job
from millrace.loader._loader_options import LoaderOptions
from millrace.loader._native import native
from millrace.loader._python_loader import PythonBatch, PythonLoader, Task
from millrace.loader._python_workers import starter_of
from millrace.loader._shapes import Text


class Mapped:
    """The part of a dataset that workers need: the function, and how to make the samples of a batch
    from its arrays. The dataset itself stays where it is read."""

    def __init__(self, function: Callable[[Any], Any], size: int, kind: str, file: Any) -> None:
        self._function = function
        self._size = size
        self._kind = kind
        self._file = file  # a SharedFile with the batches; None: in this process
        self._buffers: dict = {}  # mapped so far, by where they begin

    def __len__(self) -> int:
        return self._size

    def at(self, batch: tuple) -> "_Rows":
        """The samples of one batch, by row: of its arrays (with a file: of their places), and labels."""
        fields, labels = batch
        if self._file is not None:
            fields = [replace(field, values=self._view(*field.values)) if isinstance(field, _Ragged)
                      else self._view(*field) for field in fields]
        return _Rows(self._function, fields, labels)

    def _view(self, begin: int, size: int, offset: int, dtype: str, shape: tuple) -> Any:
        import numpy
        if size == 0:
            return numpy.empty(shape, numpy.uint8 if dtype == "bfloat16" else dtype)
        if begin not in self._buffers:
            self._buffers[begin] = numpy.frombuffer(
                mmap.mmap(self._file.descriptor, size, offset=begin), numpy.uint8)
        element = numpy.dtype("uint16" if dtype == "bfloat16" else dtype)
        count = element.itemsize
        for length in shape:
            count *= length
        array = self._buffers[begin][offset:offset + count].view(element).reshape(shape)
        if self._kind != "torch":
            return array
        import torch
        if dtype == "bfloat16":
            return torch.from_numpy(array.view(numpy.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)


class _Rows:
    """What `dataset[i]` returns for the samples of a batch, by row."""

    def __init__(self, function: Callable[[Any], Any], fields: list, labels: Optional[list]) -> None:
        self._function = function
        self._fields = fields
        self._labels = labels

    def __getitem__(self, row: int) -> Any:
        values = [field.row(row) if isinstance(field, (native.Array, _Ragged)) else field[row, ...]
                  for field in self._fields]
        if self._labels is not None:
            label = self._labels[row]
            values.append(None if label == -1 else label)
        return self._function(tuple(values) if len(values) > 1 else values[0])


@dataclass(frozen=True)
class _Ragged:
    """A ragged field of a batch."""

    name: str
    values: Any  # all items; or padded rows; or where they are in the file
    numbers: list  # where the items of each row begin; or how many each padded row has
    shape: Any  # Ragged, Text or Boxes

    @property
    def is_padded(self) -> bool:
        return getattr(self.shape, "pad", None) is not None

    def row(self, row: int) -> Any:
        values = self.values
        if isinstance(self.shape, Text) and hasattr(values, "numpy"):
            values = values.numpy()
        items = (values[row, :self.numbers[row]] if self.is_padded else
                 values[self.numbers[row]:self.numbers[row + 1]])
        return self.shape.sample(items, lambda array: array, f"field {self.name!r}")

    def overwrite(self, row: int, items: Any) -> None:
        """REQUIRES: values are an Array of the C++ loader; as many items as the row has."""
        if 0 in items.shape:
            return
        content, source = memoryview(self.values).cast("B"), memoryview(items).cast("B")
        if self.is_padded:
            begin = row * (len(content) // len(self.numbers))
        else:
            begin = self.numbers[row] * (len(content) // len(self.values))
        content[begin:begin + len(source)] = source


@dataclass(frozen=True)
class MapOptions:
    """The loader that reads, and what PythonLoader needs."""

    loader: LoaderOptions
    source: Any  # native.Loader
    memory: Any  # native.SharedMemory of its batches; None: workers are in this process
    job: Job
    start_workers: Optional[Callable[[], Any]]


def open_mapped(options: LoaderOptions, **of_rank: Any) -> "MapLoader":
    """`of_rank`: more options of native.Loader. Its threads and prefetched batches are tuned; WorkerOptions are for
    the processes or threads that run the function."""
    data, workers = options.data, options.workers
    memory = native.SharedMemory() if workers.kind == "process" else None
    source = native.Loader(data._source, data._decoder, **options.native(), **of_rank, thread_count=0,
                           prefetch_batches=0, pins_for_gpu=None, shared_memory=memory, marks_waits=False)
    file = None
    if memory is not None:
        from millrace.loader._worker import SharedFile  # needs numpy
        file = SharedFile(memory.file)
    job = options.job(Mapped(data._map, len(data), options.kind, file), len(data), "the function of map=")
    return MapLoader(MapOptions(options, source, memory, job, starter_of(workers, job)))


class MapLoader(PythonLoader):
    _options: MapOptions

    def __init__(self, options: MapOptions) -> None:
        super().__init__(options)
        self._source = options.source
        self.skew_warning = self._source.skew_warning
        self.restaged = self._source.restaged

    def start_epoch(self, epoch: int) -> None:
        self._start_workers()
        self._source.start_epoch(epoch)
        self._run = MapRun(self._options, epoch, self._source.batches_left)

    def restore(self, text: str) -> None:
        self._start_workers()
        self._source.restore(text)
        self._run = MapRun(self._options, self._source.epoch, self._source.batches_left)

    def set_batch_size(self, batch_size: int) -> None:
        self._check()
        self._source.set_batch_size(batch_size)

    def next(self) -> Optional[PythonBatch]:
        run = self._run
        if run.handed == run.batch_count:
            self._check()
            return self._source.next()  # None; with Partial.dir, it waits for the other ranks
        try:
            return super().next()
        except (SampleError, RuntimeError, TimeoutError) as error:
            error.args = (self._with_name(str(error)),)
            raise

    @property
    def batch_count(self) -> int:
        return self._source.batch_count

    def samples_of_epoch(self, epoch: int, number: int) -> tuple:
        return self._source.samples_of_epoch(epoch, number)

    @property
    def storage_epoch(self) -> Optional[int]:
        return self._source.storage_epoch

    def state(self) -> str:
        return self.state_at(self._run.epoch, self._source.done_after(self._run.handed))

    def state_at(self, epoch: int, done: int) -> str:
        return self._source.state_at(epoch, done)

    def stats(self) -> dict:
        stats, own = self._source.stats(), super().stats()
        stats.update({key: own[key] for key in ("batches", "samples", "wait_seconds")})
        return dict(stats, bad_samples=stats["bad_samples"] + own["bad_samples"],
                    first_bad_sample=stats["first_bad_sample"] or self._with_name(own["first_bad_sample"]),
                    workers=own["threads"], map_seconds=own["read_seconds"] + own["decode_seconds"])

    def close(self) -> None:
        self._source.close()
        super().close()

    def _new_run(self, epoch: int, done: int) -> "MapRun":
        return MapRun(self._options, epoch, 0)

    def _start_workers(self) -> None:
        """Before the C++ loader has threads, which a fork would not copy. They stay until the end."""
        self._check()
        if not self._workers and self._options.start_workers is not None:
            self._begin()

    def _with_name(self, text: str) -> str:
        """Workers only know numbers of samples."""
        return re.sub(r"sample (\d+) of the dataset(?! \()",
                      lambda found: f"{found[0]} ({self._options.loader.data.name(int(found[1]))})", text, count=1)

    def _stuck_sentence(self, run: Any) -> str:
        return super()._stuck_sentence(run).replace("__getitem__", "the function of map=")


class MapRun:
    """One pass: like Run, but its batches come from the C++ loader as they become ready."""

    def __init__(self, options: MapOptions, epoch: int, batch_count: int) -> None:
        self.options = options
        self._source = options.source
        self._convert = _outputs.converter(options.job.kind)
        self._pending: collections.deque = collections.deque()  # read, and no worker has begun it
        self.epoch = epoch
        self.batch_count = batch_count
        self.is_begun = False
        self.fed = 0     # batches that came from the C++ loader
        self.handed = 0  # batches that next() has returned
        self.ready: dict = {}  # by index: a PythonBatch or an exception
        self.busy: dict = {}   # by index: a _MapTask
        self.input_file = options.source.ready_file
        self.input_bytes = 0  # of a batch
        self.input_wait_seconds = 0.0
        self._limit = 0  # of `fed`

    def feed(self, prefetch: int, waits: bool) -> None:
        """Takes the batches that are ready. If nothing is in progress, `waits` for one."""
        self._limit = min(self.batch_count, self.handed + prefetch)
        while self.fed < self._limit:
            is_empty = waits and self.fed == self.handed
            if not is_empty and not self._source.is_ready():
                return
            began = time.monotonic()
            self._take_one()
            self.input_wait_seconds += time.monotonic() - began

    def following(self) -> None:
        """The C++ loader reads the next epoch ahead by itself."""

    def lacks_input(self, worker_count: int) -> bool:
        """Whether a worker is idle because no batch has been read."""
        return len(self.busy) < worker_count and self.fed < self._limit

    def count_wait(self, seconds: float) -> None:
        """The C++ loader is tuned by this."""
        self.input_wait_seconds += seconds
        self._source.count_wait(seconds)

    def has_work(self, prefetch: int) -> bool:
        return bool(self._pending)

    def start_batch(self) -> int:
        return self._pending.popleft()

    def start_again(self, index: int) -> None:
        """The function may have changed the arrays: decodes them again."""
        batch = self.busy[index].batch
        fields = batch.fields()
        data = self.options.loader.data
        decoder, source, shapes = data._decoder, data._source, data._shapes
        task = self.busy[index]
        seeds = task.seeds or [self.options.loader.workers.seed] * len(task.samples)
        for row, sample in enumerate(task.samples):
            for name, array in decoder.decode(source, sample, self.epoch, seeds[row]).items():
                if isinstance(fields[name], tuple):
                    values, numbers = fields[name]
                    _Ragged(name, values, numbers.tolist(), shapes[name]).overwrite(row, array)
                else:
                    fields[name].row(row).copy_from(array)

    def finish_batch(self, index: int, content: Content) -> PythonBatch:
        task = self.busy.pop(index)
        return PythonBatch(self.epoch, task.batch.index, [task.samples[row] for row in content.kept],
                           [task.is_real[row] for row in content.kept], content)

    def _take_one(self) -> None:
        index = self.fed
        try:
            batch = self._source.next()
        except SampleError as error:  # raised when the training comes to this batch
            self.ready[index] = error
            self.fed += 1
            return
        self.fed += 1
        if batch.row_count == 0:  # all its samples were skipped
            self.ready[index] = PythonBatch(self.epoch, batch.index, [], [], Content(None, [], [], 0.0, 0.0))
            return
        samples = batch.samples.tolist()
        task = _MapTask(samples, batch.is_real.tolist(), self._seeds_of(index, samples), batch=batch)
        task.input = self._input_of(batch)
        self.busy[index] = task
        self._pending.append(index)

    def _input_of(self, batch: Any) -> tuple:
        data = self.options.loader.data
        fields = [_Ragged(name, self._shared(field[0]), field[1].tolist(), data._shapes[name])
                  if isinstance(field, tuple) else self._shared(field)
                  for name, field in batch.fields().items()]
        return fields, batch.labels.tolist() if data.has_labels else None

    def _seeds_of(self, index: int, samples: list) -> Optional[list]:
        planned, _, seeds = self._source.samples_of_batch(index)
        if seeds is None or len(planned) == len(samples):
            return seeds
        rows = iter(zip(planned, seeds))  # without the bad samples, which were left out
        return [next(seed for planned_sample, seed in rows if planned_sample == sample)
                for sample in samples]

    def _shared(self, array: Any) -> Any:
        """The array, or for worker processes where it is."""
        if self.options.memory is None:
            return self._convert(array)
        if 0 in array.shape:
            return 0, 0, 0, array.dtype, array.shape
        place = self.options.memory.find(array)
        self.input_bytes = max(self.input_bytes, place[1])
        return (*place, array.dtype, array.shape)


@dataclass
class _MapTask(Task):
    batch: Any = None  # of the C++ loader: keeps the arrays
