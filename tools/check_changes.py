#!/usr/bin/env python3
"""Checks who may change files: in some modules, only one source calls functions that open, remove or rename them.

What such a source promises (docs/guide/replay.md, docs/design/bench-checkpoints.md) then holds for the whole module,
because the rest of it cannot do otherwise. Tests are free.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from source_tree import Finding, argument_parser, conclude, line_at, list_files, mask_cpp, read_text, select

# Functions of C and of Millrace's base, by what they do. A type counts as a function: its constructor opens.
REMOVE = {"remove", "remove_all", "rename", "renameat", "renameat2", "rmdir", "unlink", "unlinkat"}
OPEN = {"AtomicFile", "TemporaryDirectory", "creat", "fopen", "freopen", "fstream", "ifstream", "mkdtemp", "mkostemp",
        "mkstemp", "ofstream", "open", "open_by_handle_at", "open_input", "openat", "openat2", "opendir", "scandir",
        "shm_open", "tmpfile", "write_file_atomically"}
CHANGE = {"chmod", "chown", "copy_file", "create_directories", "create_directory", "create_hard_link", "create_symlink",
          "fchmod", "fchmodat", "fchown", "fchownat", "fremovexattr", "fsetxattr", "futimens", "futimes", "ioctl", "lchown",
          "link", "linkat", "lsetxattr", "make_directories", "make_private_directory", "mkdir", "mkdirat", "mkfifo",
          "mkfifoat", "mknod", "mknodat", "mount", "permissions", "popen", "posix_spawn", "removexattr", "resize_file",
          "run_subprocess", "setxattr", "symlink", "symlinkat", "syscall", "system", "truncate", "utime", "utimensat",
          "utimes"}


@dataclass(frozen=True)
class Rule:
    tree: str
    only: str  # the source, without its suffix
    functions: frozenset[str]
    why: str

    def calls(self, text: str) -> Iterator[re.Match[str]]:
        """A function, also of a namespace or of File, or a variable of a type. Not functions of other classes."""
        names = "|".join(sorted(self.functions))
        return re.finditer(rf"(?<![\w.>:])(?:(?:std|fs|std::filesystem|File)?::)?\b(?P<name>{names})\b(?:\s+\w+)?\s*[({{]",
                           mask_cpp(text))


RULES = [
    Rule("src/replay", "src/replay/folder", frozenset(REMOVE | OPEN | CHANGE),
         "A trace is input from strangers: use Folder (src/replay/folder.h)"),
]

def main() -> int:
    root: Path = argument_parser(__doc__).parse_args().root
    findings = []
    file_count = 0
    for rule in RULES:
        for path in select(list_files(root), (rule.tree,), (".cc", ".h")):
            if path.startswith(f"{rule.only}.") or "_test." in path or "/testing/" in path:
                continue
            file_count += 1
            text = read_text(root / path)
            findings += [Finding(path, line_at(text, match.start()), f"calls {match['name']}, which only {rule.only}.cc may do",
                                 rule.why) for match in rule.calls(text)]
    return conclude(findings, file_count, f"changes: {file_count} files, which open, remove and rename nothing")


if __name__ == "__main__":
    sys.exit(main())
