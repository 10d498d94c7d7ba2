"""python -m millrace.lab: how much shuffling a model needs."""

import sys

from millrace.lab._command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
