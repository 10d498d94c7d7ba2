#!/usr/bin/env python3
"""exports_test.py LIBRARY SYMBOL: checks that the library exports only this symbol."""

import subprocess
import sys


def main() -> int:
    library, symbol = sys.argv[1:]
    listed = subprocess.run(["nm", "--dynamic", "--defined-only", "--format=just-symbols", "--demangle", library],
                            stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    exported = {name for name in listed if name}
    if exported == {symbol}:
        return 0
    print(f"{library} must export only {symbol}, but exports")
    print("\n".join(sorted(exported)))
    return 1


if __name__ == "__main__":
    sys.exit(main())
