"""The command `millrace` of a Python environment. It executes the program inside the package.

pip generates a script that calls main(). The program itself is in the package and not in the
environment's bin, because there it finds its libraries wherever pip puts scripts.
"""

import os
import signal
import sys

from millrace import _trace

# Next to the extension: in an editable install, the sources are elsewhere. No pathlib: importing it
# takes longer than starting the program.
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(_trace.__file__)), "bin", "millrace")


def main() -> None:
    # Undo what Python changed in this process, because a traced command inherits it: the signals
    # that Python ignores, and LC_CTYPE, which Python sets in the C locale.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(PROGRAM, sys.argv, first_environment())
    except OSError as error:
        sys.exit(f"millrace: cannot run {PROGRAM}: {error.strerror}; reinstall the package")


def first_environment() -> dict:
    """The environment that this process was started with."""
    with open("/proc/self/environ", "rb") as file:
        entries = file.read().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
