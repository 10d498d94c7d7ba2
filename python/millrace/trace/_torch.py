"""Patches that mark what PyTorch does, applied to each of its modules on import.

Functions are replaced by wrappers that mark a region. Results, exceptions, names and signatures stay
the same. Steps and epochs come from the loaders (_loaders.py).
"""

import functools
import multiprocessing
import operator
import os
import sys

from millrace import _trace
from millrace.trace import _codecs, _device, _loaders, _window, names

DONE = "_millrace_marked"

follow = _trace._follow
region = _trace.region
thread = _codecs.thread
is_grad_enabled = None  # torch's, when it is there


def patch(module):
    if module.__name__ not in PATCHES:
        _codecs.patch(module)
    elif _trace._preloaded() and not getattr(module, DONE, False):
        if "torch" in sys.modules:  # not a part of every program with these loaders
            import torch.version
            _device.find(torch.version)
        PATCHES[module.__name__](module)
        setattr(module, DONE, True)


# ---- fetching, in workers or in the process that trains -------------------------------------------

def patch_fetch(module):
    _codecs.patch_loaded()
    for fetcher in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
        fetcher.__init__ = traced_fetcher_init(fetcher.__init__)
        fetcher.fetch = traced_fetch(fetcher.fetch)


def traced_fetcher_init(real_init):
    @functools.wraps(real_init)
    def __init__(self, *arguments, **keywords):
        real_init(self, *arguments, **keywords)
        if worker_info() is not None:
            follow(next_worker_epoch(), None, True)
        if not _trace.enabled() and _window.current is None:  # a window may open after this
            return
        if hasattr(self, "dataset_iter"):
            self.dataset_iter = ReadIterator(self.dataset_iter, is_evaluation())
        else:
            self.dataset = ReadDataset(self.dataset, is_evaluation())
        self.collate_fn = region(names.COLLATE)(self.collate_fn)

    return __init__


def traced_fetch(real_fetch):
    @functools.wraps(real_fetch)
    def fetch(self, indexes):
        # The last batch of an iterable dataset may have fewer samples than requested.
        is_exact = hasattr(indexes, "__len__") and not hasattr(self, "dataset_iter")
        tags = {"samples": len(indexes)} if is_exact else {}
        info = worker_info()
        if info is not None:
            tags["worker"] = info.id
            step = step_of(sys._getframe(1))
            if _window.current is not None:
                _window.current.follow_worker(step, is_evaluation())
            follow(worker_epoch(), step, True)
        thread.is_fetching = True
        span = region(names.FETCH, **tags).begin()
        try:
            batch = real_fetch(self, indexes)
        except StopIteration:
            raise  # the end of an iterable dataset, not a batch
        except BaseException:
            span.__exit__(*sys.exc_info())
            raise
        finally:
            thread.is_fetching = False
        span.end()
        return batch

    return fetch


def worker_info():
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker.get_worker_info() if worker is not None else None


def is_evaluation():
    process = multiprocessing.current_process()
    return getattr(thread, "evaluates", False) or getattr(process, "_millrace_evaluates", False)


def next_worker_epoch():
    """A worker makes a fetcher when it starts and, if it is persistent, in each epoch."""
    known = worker_epoch()
    if known is None:
        thread.epoch = getattr(multiprocessing.current_process(), "_millrace_epoch", None)
    else:
        thread.epoch = known + 1
    return thread.epoch


def worker_epoch():
    # Check the process: if the parent is itself a worker, fork copied its thread-local variables.
    if getattr(thread, "epoch_of", None) != os.getpid():
        thread.epoch_of, thread.epoch = os.getpid(), None
    return thread.epoch


def step_of(frame):
    """The number of the batch: a local variable of the worker's loop, which does not pass it on."""
    if frame.f_code.co_name == "_worker_loop":
        step = frame.f_locals.get("idx")
        if isinstance(step, int):
            return step
    return None


class ReadDataset:
    """Wraps a dataset for the fetcher: reading a sample is a region.

    It has the index of the sample, unless this is an evaluation, whose order does not matter. The
    index of a subset is that in its dataset: a program may make another subset for each epoch.
    """

    def __init__(self, real, is_evaluation=False):
        self.__dict__["_real"] = real
        self.__dict__["_is_indexed"] = not is_evaluation
        self.__dict__["_indices"] = real.indices if type(real).__name__ == "Subset" else None

    def __getitem__(self, index):
        with region(names.READ, **self._tags(index)):
            return self._real[index]

    def _tags(self, index):
        if type(index) is list:  # a batch, of a dataset that a batch sampler asks
            return {"samples": len(index)}
        if not self._is_indexed or type(index) is not int:
            return {}
        if self._indices is not None and 0 <= index < len(self._indices):
            return {"index": int(self._indices[index])}
        return {"index": index}

    def __len__(self):
        return len(self._real)

    def __getattr__(self, name):
        found = getattr(self._real, name)
        if name != "__getitems__" or found is None:
            return found
        # A subset reads sample by sample, unless its dataset reads several at once.
        if self._indices is not None and not hasattr(self._real.dataset, "__getitems__"):
            return None

        def read_all(indexes):
            with region(names.READ, samples=len(indexes)):
                return found(indexes)

        return read_all


class ReadIterator:
    """The same for the iterator of an iterable dataset. Its samples have no index."""

    def __init__(self, real, is_evaluation=False):
        self._real = real
        self._read = region(names.READ) if is_evaluation else region(names.READ, stream=1)

    def __iter__(self):
        return self

    def __next__(self):
        span = self._read.begin()
        sample = next(self._real)
        span.end()
        return sample


# ---- models and transforms ------------------------------------------------------------------------

def patch_module(module):
    global is_grad_enabled
    is_grad_enabled = sys.modules["torch"].is_grad_enabled
    module.Module.__call__ = outermost(module.Module.__call__)


def patch_transforms(module):
    base = sys.modules["torch.nn.modules.module"].Module
    for transform in vars(module).values():
        if isinstance(transform, type) and transform.__module__ == module.__name__ \
                and not issubclass(transform, base) and "__call__" in vars(transform):
            transform.__call__ = outermost(transform.__call__)


def outermost(function):
    return functools.update_wrapper(_trace._Outermost(function, call_marked), function)


def call_marked(function, self, *arguments, **keywords):
    kind = type(self)
    is_transform = getattr(thread, "is_fetching", False) \
        or kind.__module__.startswith("torchvision.transforms")
    if is_transform:
        marked = region(names.TRANSFORM, what=kind.__name__)
    else:
        marked = region(names.FORWARD, module=kind.__name__,
                        training=bool(getattr(self, "training", False)))
    with marked:
        is_timed = not is_transform and _trace._device_enter(False)
        try:
            return function(self, *arguments, **keywords)
        finally:
            if is_timed:  # the backward pass follows, unless there are no gradients
                _trace._device_leave(is_grad_enabled())


# ---- the rest of a step, and checkpoints ----------------------------------------------------------

def patch_autograd(module):
    module.backward = region(names.BACKWARD)(module.backward)
    module.backward._is_timed = True


def patch_optimizer(module):
    real_init = module.Optimizer.__init__

    @functools.wraps(real_init)
    def __init__(self, *arguments, **keywords):
        real_init(self, *arguments, **keywords)
        for owner in type(self).__mro__:
            if "step" in vars(owner) and owner is not module.Optimizer:
                step = vars(owner)["step"]
                if not isinstance(step, _trace.RegionFunction):
                    owner.step = region(names.OPTIMIZER, what=owner.__name__)(step)
                    owner.step._is_timed = owner.step._is_last = True
                break

    module.Optimizer.__init__ = __init__


def patch_serialization(module):
    module.save = traced_file_function(names.CHECKPOINT, module.save, position=1)
    module.load = traced_file_function(names.RESTORE, module.load, position=0)


def patch_safetensors(module):
    module.save_file = traced_file_function(names.CHECKPOINT, module.save_file, 1, "filename")
    module.load_file = traced_file_function(names.RESTORE, module.load_file, 0, "filename")


def patch_distributed_saver(module):
    patch_distributed_checkpoint(module, names.CHECKPOINT, ("save", "save_state_dict", "async_save"))


def patch_distributed_loader(module):
    patch_distributed_checkpoint(module, names.RESTORE, ("load", "load_state_dict"))


def patch_distributed_checkpoint(module, name, functions):
    for function in functions:
        if hasattr(module, function):  # each version of PyTorch has some of them
            traced = traced_file_function(name, getattr(module, function), None, "checkpoint_id")
            setattr(module, function, traced)


def traced_file_function(name, function, position, keyword="f"):
    """The file is the argument at `position`, or the one named `keyword`."""
    @functools.wraps(function)
    def traced(*arguments, **keywords):
        file = keywords.get(keyword)
        if position is not None and len(arguments) > position:
            file = arguments[position]
        tags = {"file": os.fspath(file)} if isinstance(file, (str, os.PathLike)) else {}
        if is_saving():
            return function(*arguments, **keywords)  # a part of what is marked already
        thread.is_saving = True
        try:
            with region(name, **tags):
                return function(*arguments, **keywords)
        finally:
            thread.is_saving = False

    return traced


def is_saving():
    return getattr(thread, "is_saving", False)


def patch_distributed(module):
    real_init = module.init_process_group

    @functools.wraps(real_init)
    def init_process_group(*arguments, **keywords):
        real_init(*arguments, **keywords)
        _trace.set_rank(module.get_rank(), module.get_world_size())

    module.init_process_group = init_process_group


# ---- copies to the device and from it, and graphs -------------------------------------------------

# Functions of a tensor that copy it to the host, and return when this is done.
READS = {"item": "item", "tolist": "tolist", "cpu": "cpu", "__float__": "float", "__int__": "int", "__bool__": "bool"}


def patch_tensor(module):
    if _device.kind is None:
        return
    tensor = module.Tensor
    for name, goes, returns in (("to", goes_by_to, returns_by_to), ("cuda", goes_by_cuda, None),
                                ("copy_", goes_by_copy, returns_by_copy)):
        setattr(tensor, name, traced_copy(tensor, name, goes, returns))
    for name, short in READS.items():
        setattr(tensor, name, traced_read(tensor, getattr(tensor, name), short))


def patch_cuda(module):
    if _device.kind is not None:
        module.synchronize = wait_of("synchronize")(module.synchronize)


def wait_of(function):
    """The host waits for the device in this function. A report names the function after the dot."""
    return region(f"{names.DEVICE_WAIT}.{function}")


def traced_read(tensor, function, name):
    waiting = wait_of(name)(function)
    is_there = operator.attrgetter(f"is_{_device.kind}")  # is_cuda: faster than device.type

    def around(real, self, *arguments, **keywords):
        if type(self) is tensor and is_there(self):
            return waiting(self, *arguments, **keywords)
        return real(self, *arguments, **keywords)

    return functools.update_wrapper(_trace._Outermost(function, around), function)


def traced_copy(tensor, name, goes, returns):
    function = getattr(tensor, name)
    waiting = wait_of(name)(function)

    def around(real, self, *arguments, **keywords):
        # A subclass may be a tensor that the compiler only imagines; a parameter moves with its model.
        if type(self) is not tensor:
            return real(self, *arguments, **keywords)
        source = goes(self, arguments, keywords)
        if source is None or not source.is_cpu:
            does_wait = returns is not None and returns(self, arguments, keywords)
            return (waiting if does_wait else real)(self, *arguments, **keywords)
        with region(names.COPY, bytes=source.numel() * source.element_size()):
            is_timed = _trace._device_enter(True)
            try:
                return real(self, *arguments, **keywords)
            finally:
                if is_timed:
                    _trace._device_leave(False)

    if name != "copy_":  # the usual calls, without this function
        targets = known_targets if name == "to" else None
        around = _trace._CopyMark(tensor, sys.modules["torch._C"].device, targets, around)
    return functools.update_wrapper(_trace._Outermost(function, around), function)


def tensor_class():
    return sys.modules["torch"].Tensor


def goes_by_to(self, arguments, keywords):
    """The tensor that is copied, if the target is on the device."""
    target = arguments[0] if arguments else keywords.get("device", keywords.get("other"))
    return self if is_device(target) else None


def goes_by_cuda(self, arguments, keywords):
    return self


def goes_by_copy(self, arguments, keywords):
    source = arguments[0] if arguments else keywords.get("src")
    return source if type(source) is tensor_class() and self.device.type == _device.kind else None


def returns_by_to(self, arguments, keywords):
    """Whether the tensor is on the device, and the host waits until it has a copy."""
    target = arguments[0] if arguments else keywords.get("device", keywords.get("other"))
    return self.device.type == _device.kind and is_host(target) and is_waited_for(arguments, keywords)


def returns_by_copy(self, arguments, keywords):
    source = arguments[0] if arguments else keywords.get("src")
    return (self.device.type == "cpu" and type(source) is tensor_class()
            and source.device.type == _device.kind and is_waited_for(arguments, keywords))


def is_waited_for(arguments, keywords):
    """non_blocking is the second or third argument."""
    return not keywords.get("non_blocking", False) and True not in arguments[1:3]


def is_host(target):
    if type(target) is str:
        return target.partition(":")[0] == "cpu"
    return getattr(getattr(target, "device", target), "type", None) == "cpu"


def is_device(target):
    if type(target) not in (str, sys.modules["torch._C"].device):
        return is_of_device(target)
    found = known_targets.get(target)
    if found is None:
        found = known_targets[target] = is_of_device(target)
    return found


known_targets = {}  # devices and their names: `device.type` takes a third of a microsecond


def is_of_device(target):
    kind = _device.kind
    if type(target) is str:
        return target.partition(":")[0] == kind
    if type(target) is int:
        return True
    return getattr(getattr(target, "device", target), "type", None) == kind


def patch_graphs(module):
    graph = module.CUDAGraph
    if _device.kind is None:
        return
    real_begin, real_end = graph.capture_begin, graph.capture_end

    @functools.wraps(real_begin)
    def capture_begin(self, *arguments, **keywords):
        _trace._device_capture(True)
        try:
            return real_begin(self, *arguments, **keywords)
        except BaseException:
            _trace._device_capture(False)  # nobody else will: there is nothing to end
            raise

    @functools.wraps(real_end)
    def capture_end(self, *arguments, **keywords):
        try:
            return real_end(self, *arguments, **keywords)
        finally:
            _trace._device_capture(False)

    graph.capture_begin, graph.capture_end = capture_begin, capture_end


PATCHES = {
    "accelerate.data_loader": _loaders.patch_accelerate,
    "ray.data.iterator": _loaders.patch_ray_data,
    "ray.train.torch.train_loop_utils": _loaders.patch_ray_train,
    "safetensors.torch": patch_safetensors,
    "torch._tensor": patch_tensor,
    "torch.autograd": patch_autograd,
    "torch.cuda": patch_cuda,
    "torch.cuda.graphs": patch_graphs,
    "torch.distributed._shard.checkpoint.state_dict_loader": patch_distributed_loader,
    "torch.distributed._shard.checkpoint.state_dict_saver": patch_distributed_saver,
    "torch.distributed.checkpoint.state_dict_loader": patch_distributed_loader,
    "torch.distributed.checkpoint.state_dict_saver": patch_distributed_saver,
    "torch.distributed.distributed_c10d": patch_distributed,
    "torch.nn.modules.module": patch_module,
    "torch.optim.optimizer": patch_optimizer,
    "torch.serialization": patch_serialization,
    "torch.utils.data._utils.fetch": patch_fetch,
    "torch.utils.data.dataloader": _loaders.patch_dataloader,
    "torchdata.nodes.loader": _loaders.patch_torchdata_nodes,
    "torchdata.stateful_dataloader.stateful_dataloader": _loaders.patch_stateful_dataloader,
    "torchvision.transforms.transforms": patch_transforms,
    "transformers.trainer": _loaders.patch_trainer,
}
