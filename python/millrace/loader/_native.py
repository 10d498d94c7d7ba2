"""The one place that imports the extension, and says how to have it where it is not there."""

try:
    from millrace import _loader as native
except ImportError as error:
    raise ImportError(
        "millrace's loader is not in this build of the package "
        f"({error}). Install it by `pip install .`, or, for the build tree, install pybind11 "
        "(Debian: pybind11-dev) and run cmake again; `millrace.trace` works without it"
    ) from error

__all__ = ["native"]
