"""python -m millrace.trace: traces a Python program, and marks what PyTorch does."""

import sys

from millrace.trace._launch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
