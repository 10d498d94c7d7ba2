"""The only place that imports the extension. If it is missing, the error says how to get it."""

try:
    from millrace import _loader as native
except ImportError as error:
    raise ImportError(
        "this build of the package does not include millrace's loader "
        f"({error}). Install it with `pip install .`, or, for the build tree, install pybind11 "
        "(Debian: pybind11-dev) and run cmake again; `millrace.trace` works without it"
    ) from error

__all__ = ["native"]
