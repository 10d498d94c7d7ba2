"""The import hook: patches modules of PyTorch right after they are imported.

It runs in every Python that a traced program starts, so it costs little until then.
"""

import os
import sys

PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))

# The modules that millrace.trace._torch has a patch for.
WATCHED = frozenset((
    "accelerate.data_loader",
    "ray.data.iterator",
    "ray.train.torch.train_loop_utils",
    "safetensors.torch",
    "torch._tensor",
    "torch.autograd",
    "torch.cuda",
    "torch.cuda.graphs",
    "torch.distributed._shard.checkpoint.state_dict_loader",
    "torch.distributed._shard.checkpoint.state_dict_saver",
    "torch.distributed.checkpoint.state_dict_loader",
    "torch.distributed.checkpoint.state_dict_saver",
    "torch.distributed.distributed_c10d",
    "torch.nn.modules.module",
    "torch.optim.optimizer",
    "torch.serialization",
    "torch.utils.data._utils.fetch",
    "torch.utils.data.dataloader",
    "torchdata.nodes.loader",
    "torchdata.stateful_dataloader.stateful_dataloader",
    "torchvision.transforms.transforms",
    "transformers.trainer",
))
# Those of millrace.trace._codecs. They are marked only in programs with a DataLoader, whose import
# marks those that were imported before.
CODECS = frozenset((
    "PIL.ImageFile",
    "PIL.TiffImagePlugin",
    "PIL.WebPImagePlugin",
    "bz2",
    "cv2",
    "gzip",
    "json",
    "librosa",
    "lz4.block",
    "lz4.frame",
    "lzma",
    "numpy",
    "orjson",
    "pandas",
    "simplejson",
    "soundfile",
    "tifffile",
    "torchaudio",
    "torchvision.io.image",
    "torchvision.io.video",
    "ujson",
    "xml.etree.ElementTree",
    "yaml",
    "zipfile",
))
NEEDED = "torch.utils.data._utils.fetch"


def install():
    sys.meta_path.insert(0, Finder())
    if "MILLRACE_STEPS" in os.environ:
        import_ours("millrace.trace._window")  # pauses, before the program begins


class Finder:
    """Lets the other finders search, and wraps the loader that they found."""

    def find_spec(self, name, path=None, target=None):
        if name not in WATCHED and not (name in CODECS and NEEDED in sys.modules):
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = Loader(spec.loader)
                return spec
        return None


class Loader:
    """Runs the real loader, then patches the module. The module sees only the real loader."""

    def __init__(self, real):
        self.real = real

    def create_module(self, spec):
        return self.real.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = self.real
        module.__loader__ = self.real
        self.real.exec_module(module)
        patch(module)


def patch(module):
    """Never raises: tracing must not break the program. Records a failure in the trace instead."""
    try:
        import_ours("millrace.trace._torch").patch(module)
    except Exception as error:
        trace = sys.modules.get("millrace._trace")
        if trace is not None:
            trace.mark("not_marked", module=module.__name__, error=repr(error))


def import_ours(name):
    import importlib
    try:
        return importlib.import_module(name)
    except ImportError:
        # millrace may be installed for another interpreter than this one, which may still be able
        # to load it.
        sys.path.append(PACKAGE_ROOT)
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(PACKAGE_ROOT)
