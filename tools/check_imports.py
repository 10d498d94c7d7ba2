#!/usr/bin/env python3
"""Checks that no modules of the Python package import each other in a cycle.

An import inside a function counts: it hides a cycle and does not remove it. One under `if TYPE_CHECKING` does not:
it is never executed.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from source_tree import Finding, argument_parser, conclude, cycles, list_files, read_text, select

PACKAGE = "python/millrace"


def main() -> int:
    root: Path = argument_parser(__doc__).parse_args().root
    files = {module_of(path): path for path in select(list_files(root), (PACKAGE,), (".py",))}
    # By module: the line of the first import of each other one.
    imports = {module: imports_of(read_text(root / path), module if path.endswith("/__init__.py") else parent(module),
                                  files.keys() - {module}) for module, path in files.items()}
    findings = [Finding(files[cycle[0]], imports[cycle[0]][cycle[1]], f"an import cycle: {' -> '.join(cycle)}",
                        "Move what several of them need into a module that imports none of them")
                for cycle in cycles(imports)]
    return conclude(findings, len(files), f"imports: {len(files)} modules, no cycle")


def module_of(path: str) -> str:
    return path.removeprefix("python/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def parent(module: str) -> str:
    return module.rpartition(".")[0]


def imports_of(text: str, package: str, modules: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in executed(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package.split(".")[:len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            # A name may be a module, or what a module defines.
            names = [name if name in modules else source for name in (f"{source}.{each.name}" for each in node.names)]
        else:
            continue
        for name in names:
            if name in modules:
                found.setdefault(name, node.lineno)
    return found


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, without those that are only for type checkers."""
    yield node
    is_for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    for child in node.orelse if is_for_types else ast.iter_child_nodes(node):
        yield from executed(child)


if __name__ == "__main__":
    sys.exit(main())
