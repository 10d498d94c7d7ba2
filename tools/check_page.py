#!/usr/bin/env python3
"""Checks the report's page: the committed build must be up to date with its sources.

src/report/page/dist/index.html is committed, so that building Millrace needs no npm. It contains a
hash of its sources, so this finds changes of sources without tools/build_page.sh. It also contains a
hash of the script that it may run, so this finds edits of the built page by hand.

--stamp writes both hashes into a page that was just built; tools/build_page.sh uses it.
"""

import base64
import hashlib
import re
import sys
from pathlib import Path

from source_tree import Finding, argument_parser, conclude, list_files

PAGE = "src/report/page"
BUILT = f"{PAGE}/dist/index.html"
HEAD = "<!--millrace:head-->"
DATA = "<!--millrace:data-->"
REBUILD = "Run tools/build_page.sh, and commit the result"
SOURCES_META = re.compile(r'<meta name="millrace-sources" content="([0-9a-f]{64})">')
SCRIPT = re.compile(r"<script type=\"module\"[^>]*>(.*?)</script>", re.DOTALL)
SCRIPT_HASH = re.compile(r"script-src 'sha256-([^']+)'")


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--stamp", action="store_true", help="write the hashes into a page that was just built")
    arguments = parser.parse_args()
    root: Path = arguments.root
    sources = page_sources(root)
    if arguments.stamp:
        stamp(root, sources)
    built = root / BUILT
    if not built.is_file():
        return conclude([Finding(BUILT, 0, "the file is missing", REBUILD)], 0, "")
    page = built.read_text(encoding="utf-8")
    return conclude(check(page, hash_of(root, sources)), len(sources),
                    f"page: {BUILT} is up to date with its {len(sources)} sources")


def page_sources(root: Path) -> list[str]:
    # Without git, only this list says that these are not sources.
    outputs = (f"{PAGE}/dist/", f"{PAGE}/node_modules/")
    return [name for name in list_files(root) if name.startswith(f"{PAGE}/") and not name.startswith(outputs)]


def hash_of(root: Path, sources: list[str]) -> str:
    digest = hashlib.sha256()
    for name in sources:
        contents = (root / name).read_bytes()
        digest.update(f"{name}\0{len(contents)}\0".encode())
        digest.update(contents)
    return digest.hexdigest()


def script_hash(page: str) -> str:
    """The hash that a browser computes for the policy: of the text between the tags."""
    scripts = SCRIPT.findall(page)
    if len(scripts) != 1:
        return ""
    return base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()


def check(page: str, expected: str) -> list[Finding]:
    findings = []
    stamped = SOURCES_META.search(page)
    if stamped is None or stamped[1] != expected:
        findings.append(Finding(BUILT, 0, "it was not built from the current sources of the page", REBUILD))
    allowed = SCRIPT_HASH.search(page)
    if allowed is None or allowed[1] != script_hash(page):
        findings.append(Finding(BUILT, 0, "its script does not match the hash in its security policy", REBUILD))
    if page.count(DATA) != 1:
        findings.append(Finding(BUILT, 0, f"it has {page.count(DATA)} placeholders for data ({DATA}) instead of one",
                                f"Fix {PAGE}/index.html, and run tools/build_page.sh"))
    return findings


def stamp(root: Path, sources: list[str]) -> None:
    page = (root / BUILT).read_text(encoding="utf-8")
    notice = (root / PAGE / "node_modules/uplot/LICENSE").read_text(encoding="utf-8").strip()
    # The page loads nothing, sends nothing and runs no other script, whatever the name of a file
    # contains.
    policy = (f"default-src 'none'; script-src 'sha256-{script_hash(page)}'; style-src 'unsafe-inline'; "
              "img-src data:; base-uri 'none'; form-action 'none'")
    head = (f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            f'<meta name="millrace-sources" content="{hash_of(root, sources)}">\n'
            f"<!-- The charts are drawn by uPlot:\n{notice}\n-->")
    (root / BUILT).write_text(page.replace(HEAD, head, 1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
