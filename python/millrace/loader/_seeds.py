"""Seeds of the random generators that Python datasets use: Python's, NumPy's and torch's."""

import contextlib
import random
import sys
from collections.abc import Iterator


def seed_all(seed: int, epoch: int, sample: int) -> None:
    """Seeds the generators that datasets use, so that a sample is the same whoever makes it: after a
    resume, and with any number of workers."""
    value = _mixed(_mixed(_mixed(seed) + epoch) + sample)
    random.seed(value)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(value & 0xFFFFFFFF)
    if (torch := sys.modules.get("torch")) is not None:
        torch.random.default_generator.manual_seed(value >> 1)


def _mixed(value: int) -> int:
    """splitmix64."""
    value = (value + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 31)


@contextlib.contextmanager
def kept_generators() -> Iterator[None]:
    """The training's own random numbers continue afterwards as if nothing had been seeded."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    python_state = random.getstate()
    numpy_state = numpy.random.get_state() if numpy is not None else None
    torch_state = torch.random.get_rng_state() if torch is not None else None
    try:
        yield
    finally:
        random.setstate(python_state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)
        if torch is not None:
            torch.random.set_rng_state(torch_state)
