#!/usr/bin/env python3
"""Finds functions of more than 70 lines, which should probably be split.

It finds C++ functions by indentation, which clang-format guarantees: a function ends at a `}` alone on its line, and
begins at the next line above that is not indented further. Types and namespaces end differently (`};`,
`}  // namespace`). A flat table, a parser or a straight script may be longer if a comment above it says so:
`long-function: why`.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from source_tree import Finding, argument_parser, conclude, list_files, mask_cpp, read_text, select

LINES_MAX = 70
TREES = ("src", "benchmarks", "tests", "python", "tools")
CPP_END = re.compile(r"(?P<indent> *)\}$")
EXCUSE = re.compile(r"long-function: \w")


def main() -> int:
    root: Path = argument_parser(__doc__).parse_args().root
    names = list_files(root)
    files = [(path, cpp_bodies) for path in select(names, TREES, (".h", ".cc"))]
    files += [(path, python_bodies) for path in select(names, TREES, (".py",))]
    findings = []
    for path, bodies in files:
        text = read_text(root / path)
        try:
            for first, last in bodies(text):
                if last - first < LINES_MAX or EXCUSE.search(text.split("\n")[max(first - 2, 0)]):
                    continue
                findings.append(Finding(path, first, f"a function of {last - first + 1} lines; the limit is {LINES_MAX}",
                                        "Split it, or give a reason in a comment above it: `long-function: it is a table`"))
        except SyntaxError as error:
            findings.append(Finding(path, error.lineno or 0, f"cannot read it: {error.msg}", "Correct it"))
    return conclude(findings, len(files), f"functions: {len(files)} files, no function above {LINES_MAX} lines")


def cpp_bodies(text: str) -> Iterator[tuple[int, int]]:
    """The first and last line of each outermost body, so that a long block in a long function is not reported twice."""
    lines = mask_cpp(text).split("\n")
    written = text.split("\n")
    first_of_last = len(lines)
    for last in range(len(lines) - 1, -1, -1):
        match = CPP_END.match(written[last]) if last < first_of_last else None
        if match is None:
            continue
        inside = re.compile(rf"#|$|{match['indent']} ")
        first = last - 1
        while first > 0 and inside.match(lines[first]):
            first -= 1
        first_of_last = first
        yield first + 1, last + 1


def python_bodies(text: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.end_lineno or node.lineno


if __name__ == "__main__":
    sys.exit(main())
