#!/usr/bin/env python3
"""The check of the report's page: what is committed as built was built from the sources as they are.

src/report/page/dist/index.html is committed, so that building Millrace needs no npm. It carries a
hash of the sources it was made from; a change of those without tools/build_page.sh is found here,
and so is an edit of the built page by hand, because the page also says which script it may run.

--stamp writes both into a page that was just built; tools/build_page.sh does that.
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
REBUILD = "Run tools/build_page.sh, and commit the outcome"
SOURCES_META = re.compile(r'<meta name="millrace-sources" content="([0-9a-f]{64})">')
SCRIPT = re.compile(r"<script type=\"module\"[^>]*>(.*?)</script>", re.DOTALL)
SCRIPT_HASH = re.compile(r"script-src 'sha256-([^']+)'")


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--stamp", action="store_true", help="mark a page that was just built")
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
                    f"page: {BUILT} is built from the {len(sources)} sources as they are")


def page_sources(root: Path) -> list[str]:
    # Where there is no git, nothing else tells that these are not sources.
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
    """As a browser computes it for the policy: of the text between the tags."""
    scripts = SCRIPT.findall(page)
    if len(scripts) != 1:
        return ""
    return base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()


def check(page: str, expected: str) -> list[Finding]:
    findings = []
    stamped = SOURCES_META.search(page)
    if stamped is None or stamped[1] != expected:
        findings.append(Finding(BUILT, 0, "it was not built from the present sources of the page", REBUILD))
    allowed = SCRIPT_HASH.search(page)
    if allowed is None or allowed[1] != script_hash(page):
        findings.append(Finding(BUILT, 0, "its script is not the one it allows itself to run", REBUILD))
    if page.count(DATA) != 1:
        findings.append(Finding(BUILT, 0, f"it has {page.count(DATA)} places for data ({DATA}), not one",
                                f"Mend {PAGE}/index.html, and run tools/build_page.sh"))
    return findings


def stamp(root: Path, sources: list[str]) -> None:
    page = (root / BUILT).read_text(encoding="utf-8")
    notice = (root / PAGE / "node_modules/uplot/LICENSE").read_text(encoding="utf-8").strip()
    # Nothing is loaded, nothing is sent, and no other script runs, whatever a file is called.
    policy = (f"default-src 'none'; script-src 'sha256-{script_hash(page)}'; style-src 'unsafe-inline'; "
              "img-src data:; base-uri 'none'; form-action 'none'")
    head = (f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            f'<meta name="millrace-sources" content="{hash_of(root, sources)}">\n'
            f"<!-- The charts are drawn by uPlot:\n{notice}\n-->")
    (root / BUILT).write_text(page.replace(HEAD, head, 1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
