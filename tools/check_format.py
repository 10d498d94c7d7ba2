#!/usr/bin/env python3
"""Checks the format: every C++ file must be formatted with clang-format 19.

Everybody uses one version, because the output differs between versions. With --fix, it rewrites the
files.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from source_tree import Finding, argument_parser, conclude, list_files, select

VERSION = "19"
PACKAGE = f"clang-format-{VERSION}"
TREES = ("src", "benchmarks", "tests", "python")
SUFFIXES = (".h", ".cc")
# clang-format reads its style from the nearest such file. Without one, it would check another
# style.
STYLE_FILE = ".clang-format"
BATCH_FILES = 200
VIOLATION = re.compile(r"^(.+?):\d+:\d+: error: code should be clang-formatted", re.MULTILINE)


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--fix", action="store_true", help="rewrite the unformatted files")
    arguments = parser.parse_args()
    root: Path = arguments.root
    tool = find_tool()
    if tool is None:
        print(f"clang-format {VERSION} was not found. Install the package {PACKAGE}",
              file=sys.stderr)
        return 1
    if not (root / STYLE_FILE).is_file():
        missing = Finding(STYLE_FILE, 0, "the file is missing", "Restore it: it defines the style")
        return conclude([missing], 0, "")
    files = select(list_files(root), TREES, SUFFIXES)
    try:
        unformatted = find_unformatted(tool, root, files)
        if arguments.fix:
            rewrite(tool, root, unformatted)
            print(f"format: rewrote {len(unformatted)} of {len(files)} files")
            return 0
    except ToolFailure as failure:
        print(f"{tool} failed with {failure}. Fix the problem, and run this again",
              file=sys.stderr)
        return 1
    if unformatted:
        print(*unformatted, sep="\n", file=sys.stderr)
        print("these files are not formatted. Run: tools/check_format.py --fix", file=sys.stderr)
        return 1
    return conclude([], len(files), f"format: {len(files)} files, all formatted with "
                    f"clang-format {VERSION}")


class ToolFailure(Exception):
    """clang-format failed for another reason than an unformatted file."""


def find_tool() -> str | None:
    if shutil.which(PACKAGE):
        return PACKAGE
    plain = shutil.which("clang-format")
    if plain:
        printed = subprocess.run([plain, "--version"], capture_output=True, text=True, check=False)
        if re.search(rf"\bversion {VERSION}\.", printed.stdout):
            return plain
    return None


def find_unformatted(tool: str, root: Path, files: Sequence[str]) -> list[str]:
    unformatted: set[str] = set()
    for batch in batches(files):
        unformatted |= run_tool([tool, "--dry-run", "-Werror", *batch], root)
    return sorted(unformatted)


def rewrite(tool: str, root: Path, files: Sequence[str]) -> None:
    for batch in batches(files):
        run_tool([tool, "-i", *batch], root)


def run_tool(command: Sequence[str], root: Path) -> set[str]:
    """The files that the tool reports as unformatted. Any other error is a ToolFailure."""
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    named = set(VIOLATION.findall(done.stderr))
    if done.returncode != 0 and not named:
        raise ToolFailure(f"exit status {done.returncode}: {done.stderr.strip()}")
    return named


def batches(files: Sequence[str]) -> Iterator[Sequence[str]]:
    """Batches that fit into a command line."""
    for start in range(0, len(files), BATCH_FILES):
        yield files[start:start + BATCH_FILES]


if __name__ == "__main__":
    sys.exit(main())
