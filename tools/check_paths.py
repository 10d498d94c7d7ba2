#!/usr/bin/env python3
"""Checks paths: no file may contain a path of the machine on which it was written or built.

Such a path works only for its author, and a binary that contains one differs between builds. System
paths (/proc, /usr, /tmp and so on) are the same everywhere and are allowed. A line that needs such a
path ends with the comment `path-check: allow` and a reason.
"""

import os
import re
import sys
from pathlib import Path

from source_tree import Finding, argument_parser, conclude, line_at, list_files

# Assembled from names, so that this file passes its own check. Without "data", which examples use for datasets.
MACHINE_FOLDERS = ("home", "root", "work", "Users", "mnt", "scratch", "opt", "srv", "build")
MACHINE_PATH = re.compile(rf"/(?:{'|'.join(MACHINE_FOLDERS)})/[^\s\"'`,;:)>\]]*")
# What may precede a path directly: a compiler flag, or an escape.
JOINED_START = re.compile(r"""(?:(?:^|[\s"'=(,;])-(?:I|L|B|isystem)|\\[nrt0])$""")
# What precedes a slash in the middle of a path: a name, a variable, a <name>, a shell's "$x".
CONTINUED = re.compile(r"""(?:[\w./})\]~*@%$?+-]|<[\w -]+>|\$\{?\w+\}?["'])$""")
ALLOWED = "path-check: allow"
# In these files, a leading slash means the root of the repository.
PATTERN_FILES = {".gitignore", ".gitattributes", ".dockerignore", "CODEOWNERS"}
BINARY_PROBE_BYTES = 8192


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--binary", nargs="+", default=[], metavar="FILE",
                        help="built files, which must not contain the repository's own path")
    arguments = parser.parse_args()
    root: Path = arguments.root
    findings: list[Finding] = []
    file_count = 0
    for path in list_files(root, with_links=True):
        text = text_of(root / path)
        if text is not None and Path(path).name not in PATTERN_FILES:
            file_count += 1
            findings += check_text(path, text)
    for binary in arguments.binary:
        findings += check_binary(root, binary)
    return conclude(findings, file_count, f"paths: {file_count} text files and "
                    f"{len(arguments.binary)} binaries, none with a path of one machine")


def text_of(path: Path) -> str | None:
    """None for a binary file. The text of a link is its target, as in git."""
    if path.is_symlink():
        return os.readlink(path)
    contents = path.read_bytes()
    if b"\0" in contents[:BINARY_PROBE_BYTES]:
        return None
    return contents.decode("utf-8", errors="replace")


def check_text(path: str, text: str) -> list[Finding]:
    # Search the whole text first, because nearly all files have no match.
    suspects = sorted({line_at(text, match.start()) for match in MACHINE_PATH.finditer(text)})
    lines = text.split("\n")
    return [finding for number in suspects
            for finding in check_line(path, number, lines[number - 1])]


def check_line(path: str, number: int, line: str) -> list[Finding]:
    found = [match.group() for match in MACHINE_PATH.finditer(line)
             if starts_whole_path(line[:match.start()])]
    if not found:
        return []
    _, allowed, reason = line.partition(ALLOWED)
    if not allowed:
        return [Finding(path, number, f"{machine_path} is a path of one machine",
                        "Write it relative to the repository or take it from the user, or end the "
                        f"line with `{ALLOWED}` and the reason") for machine_path in found]
    if not re.search(r"\w", reason):
        return [Finding(path, number, f"`{ALLOWED}` gives no reason", "Say why on the same line")]
    return []


def starts_whole_path(before: str) -> bool:
    """Whether a slash after `before` begins a path, rather than continuing a path or URL."""
    return bool(JOINED_START.search(before)) or not CONTINUED.search(before)


def check_binary(root: Path, binary: str) -> list[Finding]:
    path = Path(binary)
    if not path.is_file():
        return [Finding(binary, 0, "there is no such file", "Build it first, or correct --binary")]
    match = root_pattern(root).search(path.read_bytes())
    if match is None:
        return []
    return [Finding(binary, 0, f"byte {match.start()} has {root}, the path of the sources on this "
                    "machine", "Compile with -ffile-prefix-map, and let no definition or generated "
                    "file carry the path")]


def root_pattern(root: Path) -> re.Pattern[bytes]:
    # A root of one folder, such as /src in a container, is also the end of many relative paths. A
    # longer one is not, so it may follow any byte: debug information can put any byte there.
    before = b"" if len(root.parts) > 2 else rb"(?<![\w.])"
    return re.compile(before + re.escape(os.fsencode(root)) + rb"(?![\w.-])")


if __name__ == "__main__":
    sys.exit(main())
