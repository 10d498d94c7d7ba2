#!/usr/bin/env python3
"""Checks headers: every header of src/ starts with what it is, and every module has its own header.

A reader who opens a header wants its subject in the first sentence. A module's own header,
`<module>/<module>.h`, describes its purpose and its guarantees. Tags for authors, dates and
parameters are refused: git has the first two, and the signature has the third. A source must include
the header of the same name first, which shows that the header includes what it needs;
cmake/module.cmake compiles only the other headers separately.
"""

import re
import sys
from pathlib import Path

from source_tree import (Finding, argument_parser, comment_lines, conclude, list_files, mask_cpp,
                         module_folders, read_text, select)

SENTENCE_WORDS_MIN = 5
DEFINITION_WORDS_MIN = 2
MODULE_COMMENT_LINES_MIN = 3
DEFINITION = re.compile(r"\w[^:]*: +(?P<sentence>\S.*)")
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]+(?P<what>\S+)", re.MULTILINE)
PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)
# `Date:` counts only before a number: "Date: how a day is written" defines a type.
TAG = re.compile(
    r"""
      [@\\](?:param|author|date|copyright)\b
    | ^[\s/*!<]*(?:authors?|created(?:[ ](?:by|on))?|last[ ]modified)\s*:
    | ^[\s/*!<]*date\s*:.*\d
    | \bcopyright\s+(?:\(c\)|©|\d{4})
    | ©
    | SPDX-FileCopyrightText
    """, re.IGNORECASE | re.VERBOSE)


def main() -> int:
    root: Path = argument_parser(__doc__).parse_args().root
    names = list_files(root)
    headers = select(names, ("src",), (".h",))
    modules = module_folders(names)
    findings: list[Finding] = []
    for path in headers:
        findings += check_header(path, read_text(root / path))
    for path in select(names, ("src",), (".h", ".cc")):
        findings += check_tags(path, read_text(root / path))
    for path in headers:
        source = path.removesuffix(".h") + ".cc"
        if source in names:
            findings += check_first_include(source, read_text(root / source), path)
    for module in modules:
        findings += check_module(root, module)
    return conclude(findings, len(headers), f"headers: {len(headers)} headers of {len(modules)} "
                    "modules, each with its opening comment")


def check_header(path: str, text: str) -> list[Finding]:
    findings = []
    opening = opening_comment(text)
    if not opening:
        findings.append(Finding(path, 1, "the header does not begin with a // comment",
                                "Open it with one sentence that defines its subject"))
    elif not defines(opening[0]):
        findings.append(Finding(path, 1, f"the first line, '{opening[0]}', does not say what this "
                                "is", f"Write `// Name: sentence`, or a sentence of at least "
                                f"{SENTENCE_WORDS_MIN} words"))
    if not PRAGMA_ONCE.search(mask_cpp(text)):
        findings.append(Finding(path, 1, "the header lacks #pragma once",
                                "Put it under the opening comment"))
    return findings


def opening_comment(text: str) -> list[str]:
    """The // lines at the start of the file, without the slashes."""
    lines = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return lines


def defines(first_line: str) -> bool:
    definition = DEFINITION.match(first_line)
    if definition and len(definition["sentence"].split()) >= DEFINITION_WORDS_MIN:
        return True
    return len(re.findall(r"[^\W_][\w'-]*", first_line)) >= SENTENCE_WORDS_MIN


def check_first_include(source: str, text: str, header: str) -> list[Finding]:
    wanted = '"' + header.removeprefix("src/") + '"'
    first = INCLUDE.search(text)
    if first and first["what"] == wanted:
        return []
    line = text.count("\n", 0, first.start()) + 1 if first else 1
    return [Finding(source, line, "the source does not include its own header first",
                    f"Begin with #include {wanted}, to show that it includes what it needs")]


def check_tags(path: str, text: str) -> list[Finding]:
    """Tags in comments only: a string literal may contain "Date: 1"."""
    findings = []
    for line, comment in comment_lines(text):
        tag = TAG.search(comment)
        if tag:
            findings.append(Finding(path, line, f"the comment has the tag '{tag.group().strip()}'",
                                    "Remove it: git keeps authors and dates, the signature has "
                                    "the parameters"))
    return findings


def check_module(root: Path, module: str) -> list[Finding]:
    path = f"src/{module}/{module}.h"
    if not (root / path).is_file():
        return [Finding(path, 0, f"the module {module} has no header of the same name",
                        f"Write it, starting with `// {module}: ` and the purpose of the module")]
    text = read_text(root / path)
    findings = []
    if not text.startswith(f"// {module}: "):
        findings.append(Finding(path, 1, f"the module's header does not begin with `// {module}: `",
                                "Start it with that and the purpose of the module"))
    line_count = sum(1 for line in opening_comment(text) if line)
    if line_count < MODULE_COMMENT_LINES_MIN:
        findings.append(Finding(path, 1, f"the module's opening comment has {line_count} lines of "
                                f"text, fewer than {MODULE_COMMENT_LINES_MIN}",
                                "Say why the module exists, what it guarantees and what it must not do"))
    return findings


if __name__ == "__main__":
    sys.exit(main())
