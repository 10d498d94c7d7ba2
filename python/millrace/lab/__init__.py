"""How much shuffling a model needs: trains it under global, local and partial shuffling, and compares.

    python -m millrace.lab --dataset fashion-mnist --workers 16,64,256 --fractions 0,0.1,0.3,1

The samples of every worker and epoch come from the loader's own order, so what the lab measures is what
`millrace.DataLoader(..., shuffle=millrace.Partial(...))` does. The workers are virtual (all in this
process) or real ranks. See docs/guide/lab.md.

A dataset of your own is a `millrace.lab.Dataset`; `mlp`, `convnet` and `resnet9` make models of one.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from millrace.lab.datasets import Dataset
    from millrace.lab.models import convnet, mlp, resnet9

__all__ = ["Dataset", "convnet", "mlp", "resnet9"]


if not TYPE_CHECKING:  # on first use: the command can then say that PyTorch is missing
    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'millrace.lab' has no attribute '{name}'")
        import importlib
        return getattr(importlib.import_module(f"millrace.lab.{'datasets' if name == 'Dataset' else 'models'}"), name)
