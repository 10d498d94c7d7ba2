#!/usr/bin/env python3
"""The source tree, for the checks in tools/: its files, their C++ text, and findings.

The checks share this so that they agree on which files count: those that git tracks or would track.
So a file is checked before its first commit, and build outputs are never checked.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# What a walk skips if there is no git: an unpacked archive may contain a build.
UNTRACKED_FOLDERS = {".git", "__pycache__"}
BUILD_FOLDER = "build"


@dataclass(frozen=True)
class Finding:
    """One violation. `line` is 0 if it concerns the whole file."""

    path: str
    line: int
    message: str
    next_step: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.message}. {self.next_step}"


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every check has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=existing_directory, metavar="DIR",
                        default=Path(__file__).resolve().parent.parent,
                        help="the repository to check (default: the one this script is in)")
    return parser


def existing_directory(text: str) -> Path:
    path = Path(text).resolve()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a directory")
    return path


def conclude(findings: Iterable[Finding], checked_count: int, success: str) -> int:
    """Prints the findings, or `success`; returns the exit status.

    A check that read nothing fails: a wrong --root must not look like a clean tree.
    """
    ordered = sorted(findings, key=lambda finding: (finding.path, finding.line))
    for finding in ordered:
        print(finding, file=sys.stderr)
    if ordered:
        return 1
    if checked_count == 0:
        print("there are no files to check. Give the repository with --root", file=sys.stderr)
        return 1
    print(success)
    return 0


def list_files(root: Path, with_links: bool = False) -> list[str]:
    """The files of the tree, relative to the root, with slashes, sorted.

    Links are skipped by default: their targets are in the tree themselves, or not part of it.
    """
    names = git_files(root)
    if names is None:
        names = walked_files(root)
    return sorted(name for name in names if (root / name).is_symlink() and with_links
                  or (root / name).is_file() and not (root / name).is_symlink())


def git_files(root: Path) -> list[str] | None:
    """What git tracks or would add; None if the root is not the top of a checkout."""
    top = run_git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top.rstrip("\n")).resolve() != root.resolve():
        return None
    listing = run_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return None if listing is None else sorted(set(listing.split("\0")) - {""})


def run_git(root: Path, *arguments: str) -> str | None:
    # In a git hook, these name the repository of the hook, which may be another one.
    hook_variables = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}
    environment = {key: value for key, value in os.environ.items() if key not in hook_variables}
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], env=environment,
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def walked_files(root: Path) -> list[str]:
    names = []
    for folder, folders, files in os.walk(root):
        skipped = UNTRACKED_FOLDERS | ({BUILD_FOLDER} if Path(folder) == root else set())
        folders[:] = [name for name in folders if name not in skipped]
        names += [(Path(folder) / name).relative_to(root).as_posix() for name in files]
    return names


def select(names: Iterable[str], trees: Sequence[str], suffixes: tuple[str, ...]) -> list[str]:
    """The files below one of the trees whose name ends in one of the suffixes."""
    starts = tuple(tree + "/" for tree in trees)
    return [name for name in names if name.startswith(starts) and name.endswith(suffixes)]


def cycles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """A cycle for each name that closes one, in a walk from the first name down. It ends with the name it begins with."""
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> None:
        if name in trail:
            found.append([*trail[trail.index(name):], name])
        elif name not in done:
            for other in sorted(edges.get(name, ())):
                visit(other, [*trail, name])
            done.add(name)

    for name in edges:
        visit(name, [])
    return found


def module_folders(names: Iterable[str]) -> list[str]:
    """The modules: folders of src/ with at least one file. Git does not know empty folders."""
    parts = [name.split("/") for name in names]
    return sorted({part[1] for part in parts if len(part) > 2 and part[0] == "src"})


def read_text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")


def line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


# The parts of C++ in which braces, quotes and directives mean nothing; and two parts that must be
# matched so that they are not mistaken for one: numbers (1'000) and words (a name that ends in R).
CPP_PART = re.compile(
    r"""
      (?P<comment> //(?:\\\n|[^\n])* | /\*.*?(?:\*/|\Z) )
    | (?P<raw>     (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)" )
    | (?P<literal> (?:u8|[uUL])?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*') )
    | \.?\d(?:[eEpP][+-]|'?\w|\.)*
    | [A-Za-z_]\w*
    """, re.DOTALL | re.VERBOSE)


def mask_cpp(text: str) -> str:
    """The text with comments and the contents of literals blanked; positions do not change.

    A literal keeps its first and last quote, so that it is still a token.
    """

    def blank(match: re.Match[str]) -> str:
        part = match.group()
        if match["comment"]:
            return re.sub(r"[^\n]", " ", part)
        if match["raw"] or match["literal"]:
            quote = part[-1]
            prefix_size = part.index(quote)
            inside = re.sub(r"[^\n]", " ", part[prefix_size + 1:-1])
            return " " * prefix_size + quote + inside + quote
        return part

    return CPP_PART.sub(blank, text)


def comment_lines(text: str) -> Iterator[tuple[int, str]]:
    """Every line of every comment, with its number."""
    for match in CPP_PART.finditer(text):
        if match["comment"]:
            first = line_at(text, match.start())
            for offset, line in enumerate(match.group().split("\n")):
                yield first + offset, line
