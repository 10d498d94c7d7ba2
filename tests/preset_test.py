#!/usr/bin/env python3
"""A preset, configured, built and tested. Of what fails only that is printed, first: the whole is kept beside the
build, and a reader of a long log sees the first lines of it at best."""

import os
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(os.environ["MILLRACE_SOURCE"])
# What says that all is well: a file compiled, a test begun or passed, a fact that CMake found.
QUIET = re.compile(r"\[\d+/\d+\] |\s*Start +\d+: |\s*\d+/\d+ Test +#\d+: .* Passed +|-- |\s*$|Preset CMake|  \w+=\"")


def main() -> int:
    preset = sys.argv[1]
    ran = subprocess.run(["cmake", "--workflow", "--preset", preset], cwd=SOURCE, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    log = SOURCE / "build" / f"{preset}-workflow.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text(ran.stdout, encoding="utf-8")
    if ran.returncode == 0:
        print("\n".join(ran.stdout.splitlines()[-3:]))
        return 0
    print(f"preset {preset} failed with {ran.returncode}; all that it printed: {log.relative_to(SOURCE)}")
    print("\n".join(line for line in ran.stdout.splitlines() if not QUIET.match(line)))
    return 1


if __name__ == "__main__":
    sys.exit(main())
