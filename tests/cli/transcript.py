#!/usr/bin/env python3
"""Runs a transcript: commands, and what they must print.

    # a comment
    $ a shell command
    > a line of its standard output
    ! a line of its standard error
    ? its exit code, if it is not 0

`...` inside an expected line stands for any text; a line of `...` alone stands for any number of
lines. The commands run one after another in one empty directory, with the `millrace` under test in
PATH, without a terminal, and without the caller's settings.
"""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Step:
    """One command and its expected results."""

    line: int
    command: str
    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)
    exit_code: int = 0


def parse(text: str) -> list[Step]:
    steps: list[Step] = []
    for number, line in enumerate(text.splitlines(), start=1):
        mark, rest = line[:1], line[2:]
        if not line.strip() or mark == "#":
            continue
        if mark == "$":
            steps.append(Step(number, rest))
        elif not steps:
            raise SystemExit(f"line {number}: there is no command before it")
        elif mark == ">":
            steps[-1].stdout.append(rest)
        elif mark == "!":
            steps[-1].stderr.append(rest)
        elif mark == "?":
            steps[-1].exit_code = int(rest)
        else:
            raise SystemExit(f"line {number}: must begin with one of # $ > ! ?")
    return steps


def pattern_of(expected: list[str]) -> re.Pattern[str]:
    parts = []
    for line in expected:
        if line == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(piece) for piece in line.split("...")) + r"\n")
    return re.compile("".join(parts))


def differences(step: Step, stdout: str, stderr: str, exit_code: int) -> list[str]:
    found = []
    for name, expected, actual in (("output", step.stdout, stdout), ("error", step.stderr, stderr)):
        if not pattern_of(expected).fullmatch(actual):
            found.append(f"standard {name} was:\n{actual}expected:\n" + "\n".join(expected))
    if exit_code != step.exit_code:
        found.append(f"exit code was {exit_code}, expected {step.exit_code}")
    return found


def environment() -> dict[str, str]:
    program = Path(os.environ["MILLRACE"]).resolve()
    kept = {name: value for name, value in os.environ.items() if "SAN_OPTIONS" in name}
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "LC_ALL": "C.UTF-8", "HOME": os.environ.get("HOME", "."),
                   "SOURCE": os.environ.get("MILLRACE_SOURCE", ".")}


def run(steps: list[Step]) -> list[str]:
    failures = []
    with tempfile.TemporaryDirectory() as directory:
        for step in steps:
            done = subprocess.run(["bash", "-c", step.command], cwd=directory, env=environment(),
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=100,
                                  check=False)
            found = differences(step, done.stdout.decode(errors="replace"),
                                done.stderr.decode(errors="replace"), done.returncode)
            failures += [f"line {step.line}: $ {step.command}\n{text}" for text in found]
    return failures


def main() -> int:
    path = Path(sys.argv[1])
    steps = parse(path.read_text())
    failures = run(steps)
    for failure in failures:
        print(f"{path.name}: {failure}\n")
    print(f"{path.name}: {len(steps)} commands, {len(failures)} differences")
    return 1 if failures or not steps else 0


if __name__ == "__main__":
    sys.exit(main())
