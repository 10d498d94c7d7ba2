"""What the loader raises that Python has no word for."""


class SampleError(RuntimeError):
    """A sample cannot be read or decoded. The message names it as a user finds it: the file, and
    the place in it. `skip_bad_samples=True` counts such samples and leaves them out."""
