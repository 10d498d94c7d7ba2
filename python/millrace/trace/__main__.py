"""python -m millrace.trace: runs a Python program under the tracer, with PyTorch marked."""

import sys

from millrace.trace._launch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
