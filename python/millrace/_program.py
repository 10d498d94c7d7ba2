"""The command `millrace` of an environment: becomes the program that came with the package.

pip makes a script of main(). The program lies in the package and not in the environment's bin: there
its libraries are at a place that it knows, wherever pip puts scripts.
"""

import os
import signal
import sys

from millrace import _trace

# Beside the extension, which in an editable install lies elsewhere than the sources.
# No pathlib: it takes longer to import than the program to start.
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(_trace.__file__)), "bin", "millrace")


def main() -> None:
    # What Python changed in this process is put back, since a command that is traced inherits it:
    # the signals that Python ignores, and LC_CTYPE, which Python sets in the C locale.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(PROGRAM, sys.argv, first_environment())
    except OSError as error:
        sys.exit(f"millrace: cannot run {PROGRAM}: {error.strerror}; install the package again")


def first_environment() -> dict:
    """The environment that this process was started with."""
    with open("/proc/self/environ", "rb") as file:
        entries = file.read().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
