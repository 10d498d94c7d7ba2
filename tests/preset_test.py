#!/usr/bin/env python3
"""Configures, builds and tests a preset. If that fails, it prints only the lines about failures: a reader of a long log
sees only its first lines at best. The full log is kept next to the build."""

import os
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(os.environ["MILLRACE_SOURCE"])
# Lines without a problem: a file compiled, a test started or passed, a result of CMake.
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
    print(f"preset {preset} failed with {ran.returncode}; the full log is {log.relative_to(SOURCE)}")
    print("\n".join(line for line in ran.stdout.splitlines() if not QUIET.match(line)))
    return 1


if __name__ == "__main__":
    sys.exit(main())
