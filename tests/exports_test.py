#!/usr/bin/env python3
"""exports_test.py LIBRARY SYMBOL: the library shows that symbol and nothing else."""

import subprocess
import sys


def main() -> int:
    library, symbol = sys.argv[1:]
    listed = subprocess.run(["nm", "--dynamic", "--defined-only", "--format=just-symbols", "--demangle", library],
                            stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    shown = {name for name in listed if name}
    if shown == {symbol}:
        return 0
    print(f"{library} is to show {symbol} alone, and shows")
    print("\n".join(sorted(shown)))
    return 1


if __name__ == "__main__":
    sys.exit(main())
