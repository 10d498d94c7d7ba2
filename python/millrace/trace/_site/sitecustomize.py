"""Python runs this at start, through PYTHONPATH, in every process under `python -m millrace.trace`.

It installs the import hook for PyTorch, removes its own folder from sys.path, and runs the machine's
own sitecustomize, if there is one. The program sees only PYTHONPATH.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run_own_sitecustomize():
    import importlib.machinery
    import importlib.util
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        # The error of a failed import; the module `site` expects exactly this.
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
run_own_sitecustomize()
