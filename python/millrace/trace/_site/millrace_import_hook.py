"""The import hook: marks modules of PyTorch right after they were imported, whoever imports them.

Cheap until then: it runs in every Python that a traced program starts.
"""

import os
import sys

PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))

# What millrace.trace._torch has a function for.
WATCHED = frozenset((
    "torch.autograd",
    "torch.distributed.distributed_c10d",
    "torch.nn.modules.module",
    "torch.optim.optimizer",
    "torch.serialization",
    "torch.utils.data._utils.fetch",
    "torch.utils.data.dataloader",
    "torchvision.transforms.transforms",
))


def install():
    sys.meta_path.insert(0, Finder())


class Finder:
    """Finds nothing itself: lets the others find, and puts a Loader around what they found."""

    def find_spec(self, name, path=None, target=None):
        if name not in WATCHED:
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
    """The real loader, and afterwards the patch. The module knows only the real one."""

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
    """A program must not fail because it is traced; what failed is told in the trace."""
    try:
        from_here = import_patches()
        from_here.patch(module)
    except Exception as error:
        trace = sys.modules.get("millrace._trace")
        if trace is not None:
            trace.mark("not_marked", module=module.__name__, error=repr(error))


def import_patches():
    try:
        import millrace.trace._torch as patches
    except ImportError:
        # Another interpreter than the one that millrace was installed for may still load it.
        sys.path.append(PACKAGE_ROOT)
        try:
            import millrace.trace._torch as patches
        finally:
            sys.path.remove(PACKAGE_ROOT)
    return patches
