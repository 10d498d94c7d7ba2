#!/usr/bin/env python3
"""Checks the layers: every include obeys tools/layers.txt.

The layers keep preload libraries free of the C++ runtime, and let a module be read alone. A compiler
cannot check them, because all headers are below the one include path src/. This reads the actual
`#include "x/y.h"` lines, and ignores those in comments and strings. docs/architecture.md must have
the diagram that --diagram prints.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from source_tree import (Finding, argument_parser, conclude, cycles, line_at, list_files, mask_cpp,
                         module_folders, read_text, select)

LAYERS_FILE = "tools/layers.txt"
DIAGRAM_PAGE = "docs/architecture.md"
TREES = ("benchmarks", "tests")
SUFFIXES = (".h", ".cc", ".c", ".h.in", ".cc.in", ".c.in")
# Preload code runs in other people's programs. It must not use anything that needs a C++ runtime,
# whatever else its module may include.
PRELOAD_MAY_INCLUDE = {"wire", "hook"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"', re.MULTILINE)


@dataclass
class Layers:
    """The contents of layers.txt: line numbers, and what each name may include, with `*` expanded."""

    lines: dict[str, int] = field(default_factory=dict)
    allowed: dict[str, set[str]] = field(default_factory=dict)

    def modules(self) -> list[str]:
        return [name for name in self.allowed if not name.endswith("/")]


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--diagram", action="store_true", help=f"print the diagram of {DIAGRAM_PAGE}")
    arguments = parser.parse_args()
    root: Path = arguments.root
    if not (root / LAYERS_FILE).is_file():
        missing = Finding(LAYERS_FILE, 0, "the file is missing", "Write one line per module of src/")
        return conclude([missing], 0, "")
    layers, findings = read_layers(read_text(root / LAYERS_FILE))
    names = list_files(root)
    files = select(names, ("src", *TREES), SUFFIXES)
    findings += find_cycles(layers) + compare_folders(layers, names)
    if not findings:
        if arguments.diagram:
            print(diagram(layers), end="")
            return 0
        findings += check_diagram(root, layers)
    include_count = 0
    for path in files:
        includes = quoted_includes(read_text(root / path))
        include_count += len(includes)
        for line, included in includes:
            findings += check_include(root, layers, path, line, included)
    return conclude(findings, len(files), f"layers: {len(layers.modules())} modules, {len(files)} "
                    f"files, {include_count} includes, all as {LAYERS_FILE} allows")


def read_layers(text: str) -> tuple[Layers, list[Finding]]:
    layers = Layers()
    findings = []
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.split("#")[0].strip()
        if not content:
            continue
        name, colon, allowed = content.partition(":")
        name = name.strip()
        if not colon or not re.fullmatch(r"\w+/?", name):
            findings.append(Finding(LAYERS_FILE, number, f"cannot read '{content}'",
                                    "Write `module: allowed modules...`"))
        elif name in layers.lines:
            findings.append(Finding(LAYERS_FILE, number, f"{name} is already on line "
                                    f"{layers.lines[name]}", "Keep one of the two lines"))
        else:
            layers.lines[name] = number
            layers.allowed[name] = set(allowed.split())
    return layers, findings + expand_names(layers)


def expand_names(layers: Layers) -> list[Finding]:
    """Replaces `*` with all modules, and finds names without a line."""
    findings = []
    for name, allowed in layers.allowed.items():
        if "*" in allowed:
            allowed.remove("*")
            allowed.update(layers.modules())
            allowed.discard(name)
        for unknown in sorted(allowed - layers.allowed.keys()):
            findings.append(Finding(LAYERS_FILE, layers.lines[name], f"{name} may include "
                                    f"{unknown}, which has no line",
                                    f"Add a line `{unknown}: ...`, or remove the name"))
    return findings


def find_cycles(layers: Layers) -> list[Finding]:
    return [Finding(LAYERS_FILE, layers.lines[cycle[0]], f"the layers have a cycle: {' -> '.join(cycle)}",
                    "Remove one of these modules from the line of another") for cycle in cycles(layers.allowed)]


def diagram(layers: Layers) -> str:
    """A line per module, above those it may include. Arrows that follow from others are left out."""
    reach: dict[str, set[str]] = {}
    height: dict[str, int] = {}

    def visit(name: str) -> None:
        if name not in reach:
            for other in layers.allowed[name]:
                visit(other)
            reach[name] = layers.allowed[name].union(*(reach[other] for other in layers.allowed[name]))
            height[name] = 1 + max((height[other] for other in layers.allowed[name]), default=0)

    lines = []
    for name in layers.modules():
        visit(name)
    for name in sorted(layers.modules(), key=lambda module: -height[module]):
        direct = [other for other in layers.modules() if other in layers.allowed[name]
                  and not any(other in reach[between] for between in layers.allowed[name])]
        lines.append(f"    {name:<8} --> {', '.join(direct)}" if direct else f"    {name}")
    return "\n".join(lines) + "\n"


def check_diagram(root: Path, layers: Layers) -> list[Finding]:
    page = root / DIAGRAM_PAGE
    if not page.is_file() or f"\n\n{diagram(layers)}\n" in read_text(page):
        return []
    return [Finding(DIAGRAM_PAGE, 0, f"its diagram is not that of {LAYERS_FILE}",
                    "Replace it by what tools/check_layers.py --diagram prints")]


def compare_folders(layers: Layers, names: list[str]) -> list[Finding]:
    folders = set(module_folders(names))
    trees = {tree + "/" for tree in TREES if select(names, (tree,), SUFFIXES)}
    findings = []
    for name in sorted(folders | trees):
        if name not in layers.lines:
            where = name.rstrip("/") if name.endswith("/") else f"src/{name}"
            findings.append(Finding(where, 0, f"the folder has no line in {LAYERS_FILE}",
                                    f"Add a line `{name}: ...` with what it may include"))
    for path in select(names, ("src",), SUFFIXES):
        if path.count("/") == 1:
            findings.append(Finding(path, 0, "the file is not in a module",
                                    "Move it into a folder of src/"))
    for name in layers.modules():
        if name not in folders:
            findings.append(Finding(LAYERS_FILE, layers.lines[name], f"the module {name} has no "
                                    f"files in src/{name}", "Remove the line, or add the module"))
    return findings


def quoted_includes(text: str) -> list[tuple[int, str]]:
    """The line and the path of every `#include "..."`."""
    masked = mask_cpp(text)
    return [(line_at(text, match.end()), text[match.end():masked.index('"', match.end())])
            for match in INCLUDE.finditer(masked)]


def check_include(root: Path, layers: Layers, path: str, line: int,
                  included: str) -> list[Finding]:
    target = resolve(root, path, included)
    if target is None:
        return [unresolved(root, path, line, included)]
    folder = preload_folder(path)
    if folder:
        return check_preload_include(folder, path, line, included, target)
    if "/testing/" in target and is_product(path):
        return [Finding(path, line, f'the program may not include test code ("{included}")',
                        "Move what it needs out of testing/")]
    owner = owner_of(path)
    # compare_folders reports a folder without a line once, so do not report it again for each
    # include.
    if owner not in layers.allowed or owner_of(target) in {owner, *layers.allowed[owner]}:
        return []
    return [Finding(path, line, f"{owner} may not include {owner_of(target)} (\"{included}\")",
                    f"Move the code to the layer it belongs to; {LAYERS_FILE} line "
                    f"{layers.lines[owner]} lists what {owner} may include")]


def is_product(path: str) -> bool:
    """Whether a file becomes part of the program: it is neither a test nor test code."""
    name = path.rsplit("/", 1)[-1]
    return path.startswith("src/") and "/testing/" not in path and "_test." not in name and "_test_" not in name


def resolve(root: Path, path: str, included: str) -> str | None:
    """The path of an included file, relative to the repository; None if there is no such file.

    An include is relative to src/ or, in files of a tree next to src/, to the repository: tests/fuzz/a.cc
    may include "tests/fuzz/target.h". A `.in` file stands for the file that it generates.
    """
    parts = included.split("/")
    if {"", ".", ".."} & set(parts):
        return None
    tree = path.split("/")[0]
    candidates = [f"src/{included}"]
    if tree in TREES and parts[0] in TREES:
        candidates.append(included)
    for candidate in candidates:
        if (root / candidate).is_file() or (root / f"{candidate}.in").is_file():
            return candidate
    return None


def unresolved(root: Path, path: str, line: int, included: str) -> Finding:
    reach = root / "src" if path.startswith("src/") else root
    for start in (Path(path).parent, "src", "."):
        meant = (root / start / included).resolve()
        if meant.is_file() and meant.is_relative_to(reach):
            rooted = meant.relative_to(root).as_posix().removeprefix("src/")
            return Finding(path, line, f'"{included}" is not rooted at src/',
                           f'Write #include "{rooted}"')
    return Finding(path, line, f'there is no src/{included} for #include "{included}"',
                   "Correct the path; put headers of libraries in angle brackets")


def owner_of(path: str) -> str:
    """The module of a file in src/, or the tree of any other file, with a slash."""
    parts = path.split("/")
    return parts[1] if parts[0] == "src" else parts[0] + "/"


def preload_folder(path: str) -> str | None:
    """`src/store/preload/` for a file anywhere below it."""
    match = re.match(r"src/[^/]+/(?:[^/]+/)*?preload/", path)
    return match.group() if match else None


def check_preload_include(folder: str, path: str, line: int, included: str,
                          target: str) -> list[Finding]:
    if target.startswith(folder) or owner_of(target) in PRELOAD_MAY_INCLUDE:
        return []
    return [Finding(path, line, f'preload code may include only wire, hook and {folder}, not '
                    f'"{included}"', "It runs in other people's programs: do without it, or "
                    "move the code out of preload")]


if __name__ == "__main__":
    sys.exit(main())
