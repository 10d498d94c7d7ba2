"""Runs at the start of every Python below `python -m millrace.trace`, by way of PYTHONPATH.

It watches for the import of PyTorch, takes its own folder out of sys.path again, and gives way to
the sitecustomize that the machine may have. The program sees nothing of it but PYTHONPATH.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def give_way():
    import importlib.machinery
    import importlib.util
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        # What the import says where there is none; module `site` expects exactly this.
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if sys.version_info >= (3, 10):
    import millrace_import_hook
    millrace_import_hook.install()
    del sys.modules["millrace_import_hook"]
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
sys.path_importer_cache.pop(HERE, None)
give_way()
