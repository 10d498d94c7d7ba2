"""Marks the waiting of a loop for its loaders, and counts its epochs and steps.

A DataLoader and the loaders of other libraries around it are the same to a loop: each request for a
batch begins a step, and the time until it is there is waiting. The n-th iteration over a loader is
its epoch n, both counted from 0, unless the program calls trace.set_epoch or trace.set_step. An
iteration without gradients (torch.no_grad) is an evaluation: it belongs to the epoch of the training
around it. _torch.py applies these patches, and marks what loaders do to fetch.
"""

import contextlib
import functools
import multiprocessing.process
import sys
import weakref

from millrace import _trace
from millrace.trace import _codecs, _window, names

follow = _trace._follow
region = _trace.region
thread = _codecs.thread


# ---- loaders, in the process that trains ----------------------------------------------------------

epochs = weakref.WeakKeyDictionary()  # the last epoch of each loader
ended = {}  # the last epoch that came to its end, by loop; a script may make a loader for each epoch
training = {"epoch": None}  # the last one
wait = region(names.BATCH_WAIT)


def patch_dataloader(module):
    loader, iterator = module.DataLoader, module._BaseDataLoaderIter
    real_next = iterator.__next__

    @functools.wraps(real_next)
    def __next__(self):
        if is_inside():
            return wait_for(real_next, self)
        epoch = getattr(self, "_millrace_epoch", None)
        begin_step(epoch, getattr(self, "_num_yielded", None))
        try:
            batch = wait_for(real_next, self)
        except StopIteration:
            end_epoch(epoch, getattr(self, "_millrace_loop", None))
            raise
        end_wait()
        return batch

    loader.__iter__, iterator.__next__ = traced_iter(loader.__iter__), __next__
    pass_epoch_to_workers()


def patch_stateful_dataloader(module):
    """It has an __iter__ of its own; its iterators are those of DataLoader."""
    module.StatefulDataLoader.__iter__ = traced_iter(module.StatefulDataLoader.__iter__)


def traced_iter(real_iter):
    setup = region(names.SETUP, what="DataLoader")

    @functools.wraps(real_iter)
    def __iter__(self):
        loop, place = loop_of(sys._getframe(1), self), _trace.current()
        epoch = begin_epoch(self, loop)
        try:
            with setup:
                made = real_iter(self)
        finally:
            thread.epoch_of_workers, thread.evaluates = None, False
            if is_inside():
                follow(*place)
        with contextlib.suppress(AttributeError):  # a custom iterator may not accept attributes
            made._millrace_epoch, made._millrace_loop = epoch, loop
        return made

    return __iter__


def begin_epoch(loader, loop):
    """Returns its number. A loader inside another one has the epoch of that one."""
    thread.evaluates = is_without_gradients()
    if is_inside():
        epoch = _trace.current()[0]
    elif thread.evaluates and training["epoch"] is not None:
        epoch = training["epoch"]
    else:
        epoch = training["epoch"] = count_epoch(epochs, loader, ended.get(loop, -1))
    if _window.current is not None and not thread.evaluates and not is_inside():
        _window.current.begin_epoch()
    follow(epoch, None)
    thread.epoch_of_workers = _trace.current()[0]  # the program's own number, if it set one
    return epoch


def begin_step(epoch, step):
    _trace._device_end_step()
    if _window.current is not None:
        _window.current.begin_step(not is_without_gradients())
    follow(epoch, step)


def wait_for(real_next, iterator):
    span = wait.begin()
    try:
        batch = real_next(iterator)
    except StopIteration:
        raise  # the span is not ended, so not recorded: there was no batch to wait for
    except BaseException:
        span.__exit__(*sys.exc_info())
        raise
    span.end()
    return batch


def end_wait():
    if _window.current is not None:
        _window.current.end_wait()


def end_epoch(epoch, loop):
    if epoch is not None:
        ended[loop] = epoch
    follow(epoch, None)


def is_without_gradients():
    torch = sys.modules.get("torch")
    return torch is not None and not torch.is_grad_enabled()


def is_inside():
    """Whether this thread is inside a loader that calls others."""
    return getattr(thread, "is_inside", False)


@contextlib.contextmanager
def inside():
    before = is_inside()
    thread.is_inside = True
    try:
        yield
    finally:
        thread.is_inside = before


# ---- loaders of other libraries -------------------------------------------------------------------

class Batches:
    """The batches of a loader that is not a DataLoader. Each step begins with the request for its batch.

    Some of these loaders fetch a batch ahead of the one that they return: a DataLoader inside waits
    for batch 3 when the loop asks for batch 2. The step is that of the loop.
    """

    def __init__(self, loader, real_iter, get, loop):
        self._get = get
        self._loop = loop
        self._epoch = begin_epoch(loader, loop)
        self._step = getattr(loader, "skip_batches", 0)  # Accelerate's name
        thread.epoch_of_workers, thread.evaluates = None, False
        follow(self._epoch, self._step)
        with inside():  # some fetch the first batch here
            self._real = real_iter(loader)

    def __iter__(self):
        return self

    def __next__(self):
        begin_step(self._epoch, self._step)
        try:
            with inside():
                batch = self._get(self._real)
        except StopIteration:
            end_epoch(self._epoch, self._loop)
            raise
        thread.last_step = self._step
        self._step += 1
        end_wait()
        return batch

    def __getattr__(self, name):
        return getattr(self.__dict__["_real"], name)


def patch_loader(owner, get):
    """`get` is next for a loader around a DataLoader, which marks the waiting."""
    real_iter = owner.__iter__

    @functools.wraps(real_iter)
    def __iter__(self):
        if is_inside():
            return real_iter(self)
        return Batches(self, real_iter, get, loop_of(sys._getframe(1), self))

    owner.__iter__ = __iter__


def wait_for_next(iterator):
    return wait_for(next, iterator)


def patch_accelerate(module):
    for name in ("DataLoaderShard", "DataLoaderDispatcher"):
        patch_loader(getattr(module, name), next)


def patch_ray_train(module):
    patch_loader(module._WrappedDataLoader, next)


def patch_ray_data(module):
    patch_loader(module._IterableFromIterator, wait_for_next)


def patch_torchdata_nodes(module):
    patch_loader(module.Loader, wait_for_next)


def patch_trainer(module):
    """The Trainer of Transformers takes the batches of several steps, if it accumulates gradients."""
    trainer = module.Trainer
    real_get, real_step = trainer.get_batch_samples, trainer.training_step

    @functools.wraps(real_get)
    def get_batch_samples(self, *arguments, **keywords):
        thread.last_step = None
        result = real_get(self, *arguments, **keywords)
        thread.next_step = None if thread.last_step is None else thread.last_step + 1 - len(result[0])
        return result

    @functools.wraps(real_step)
    def training_step(self, *arguments, **keywords):
        step = getattr(thread, "next_step", None)
        if step is not None:
            follow(_trace.current()[0], step)
            thread.next_step = step + 1
        return real_step(self, *arguments, **keywords)

    trainer.get_batch_samples, trainer.training_step = get_batch_samples, training_step


# ---- the number of the epoch ----------------------------------------------------------------------

def pass_epoch_to_workers():
    """Passes the current epoch to workers in their Process object.

    This works for workers that are forked or spawned, and for those of a fork server, whose
    environment is that of the first epoch.
    """
    base = multiprocessing.process.BaseProcess
    real_start = base.start

    @functools.wraps(real_start)
    def start(self):
        if getattr(thread, "epoch_of_workers", None) is not None:
            self._millrace_epoch = thread.epoch_of_workers
            self._millrace_evaluates = thread.evaluates
            if _window.current is not None:
                self._millrace_window = _window.current.shared
        real_start(self)

    base.start = start


def loop_of(frame, loader):
    """What tells loops over loaders apart: the line, and the dataset."""
    dataset = getattr(loader, "dataset", None)
    try:
        samples = len(dataset)
    except TypeError:
        samples = None
    return frame.f_code.co_filename, frame.f_lineno, type(dataset), samples


def count_epoch(epochs, loader, before):
    """`before` is the last epoch of the loop that a new loader goes on with; -1 if there is none."""
    try:
        epochs[loader] = epochs.get(loader, before) + 1
    except TypeError:  # the loader is not hashable
        return None
    return epochs[loader]
