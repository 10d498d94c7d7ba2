"""Exceptions of the loader that have no equivalent in Python."""


class SampleError(RuntimeError):
    """A sample cannot be read or decoded. The message names the file and the position in it.
    `skip_bad_samples=True` counts such samples and skips them."""
