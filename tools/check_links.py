#!/usr/bin/env python3
"""Checks the links of the Markdown files: the file must exist, and have the heading that the link names.

Links to other sites are not followed.
"""

import re
import sys
from pathlib import Path

from source_tree import Finding, argument_parser, conclude, line_at, list_files, read_text

# Not `[](auto)` of C++: a link has a dot, a slash or a heading.
LINK = re.compile(r"\]\((?P<file>(?=[^)\s]*[./#])[^)\s#]*)(?:#(?P<heading>[^)\s]*))?\)")
HEADING = re.compile(r"^#{1,6} +(?P<text>.+)$", re.MULTILINE)


def main() -> int:
    root: Path = argument_parser(__doc__).parse_args().root
    pages = [name for name in list_files(root) if name.endswith(".md")]
    findings: list[Finding] = []
    link_count = 0
    for page in pages:
        text = read_text(root / page)
        for link in LINK.finditer(text):
            if "://" in link["file"]:
                continue
            link_count += 1
            findings += check_link(root, page, line_at(text, link.start()), link["file"], link["heading"])
    return conclude(findings, len(pages), f"links: {link_count} links of {len(pages)} pages, all lead somewhere")


def check_link(root: Path, page: str, line: int, file: str, heading: str | None) -> list[Finding]:
    target = (root / page).parent / file if file else root / page
    if not target.exists():
        return [Finding(page, line, f"the link leads to {file}, which does not exist",
                        "Write the path relative to this page")]
    if heading is None or target.suffix != ".md" or heading in headings(target):
        return []
    return [Finding(page, line, f"{file or 'this page'} has no heading #{heading}",
                    "Name a heading in lower case, with - for spaces and without punctuation")]


def headings(page: Path) -> set[str]:
    """The names that a link can give, as GitHub makes them."""
    texts = (match["text"].strip().lower() for match in HEADING.finditer(read_text(page)))
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in texts}


if __name__ == "__main__":
    sys.exit(main())
