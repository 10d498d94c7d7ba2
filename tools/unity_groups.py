#!/usr/bin/env python3
"""Groups sources that can be compiled as one: `unity_groups.py LINES FILE...` prints a group number per file.

LINES is the maximum size of a group: an edit of one file recompiles its group, and compiling takes up to 0.5 MB of
memory per line.

Presets compile groups because most of the compile time goes into headers and templates (docs/design/tests.md). The
private names of a file are then visible in its whole group, so they must not mean anything else there. Two files are
separated if a name in an anonymous namespace, a `static`, a macro or an imported name (`using a::b`) of one of them
occurs as a word in the other. This separates more files than necessary, but it needs no compiler and no rules for the
authors of the files.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from source_tree import mask_cpp, read_text

DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
NAMESPACE = re.compile(r"\bnamespace\b\s*(?P<name>[\w:]*)\s*$")
TYPE = re.compile(r"^\s*(?:template\s*<.*>\s*)?(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?P<name>\w+)\s*"
                  r"(?:final\s*)?(?::[^:]|$)", re.DOTALL)
ALIAS = re.compile(r"^\s*(?:template\s*<.*>\s*)?using\s+(?P<name>\w+)\s*=", re.DOTALL)
# All files import the same names from testing and std. Imports in a function body are indented, and do not count.
TAKEN = re.compile(r"^using\s+(?!(?:::)?(?:testing|std)\b)(?P<scope>[\w:]*)::(?P<name>\w+)\s*;", re.MULTILINE)
# A word by itself: neither a member (x.name, x->name) nor one of a named scope (std::name).
FREE_WORD = re.compile(r"(?<![\w.:>])[A-Za-z_]\w*|(?<=[^-]>)[A-Za-z_]\w*|(?<=[^:]:)[A-Za-z_]\w*")


@dataclass
class Source:
    """A file: its length, its private names, and all words in it."""

    line_count: int
    own: set[str]
    taken: dict[str, str]  # `using a::b`: from b to a
    words: set[str]

    def clashes_with(self, other: "Source") -> bool:
        return self.disturbs(other) or other.disturbs(self)

    def disturbs(self, other: "Source") -> bool:
        taken = {name for name, scope in self.taken.items() if other.taken.get(name) != scope}
        return bool((self.own | taken) & other.words)


def main() -> int:
    lines_max = int(sys.argv[1])
    groups: list[list[Source]] = []
    for name in sys.argv[2:]:
        print(place(read_source(Path(name)), groups, lines_max))
    return 0


def place(source: Source, groups: list[list[Source]], lines_max: int) -> int:
    """Adds the source to the first group that it fits into. Returns the number of the group."""
    for number, group in enumerate(groups):
        room = lines_max - sum(member.line_count for member in group)
        if source.line_count <= room and not any(source.clashes_with(member) for member in group):
            group.append(source)
            return number
    groups.append([source])
    return len(groups) - 1


def read_source(path: Path) -> Source:
    masked = mask_cpp(read_text(path))
    text = DIRECTIVE.sub("", masked)
    own = set(DEFINE.findall(masked)) | own_names(text)
    taken = {name: scope for scope, name in TAKEN.findall(text)}
    return Source(masked.count("\n"), own, taken, set(FREE_WORD.findall(text)) | own | set(taken))


def own_names(text: str) -> set[str]:
    """The private names declared at namespace scope."""
    names: set[str] = set()
    hidden: list[bool] = []  # for each enclosing namespace: whether it or one around it is anonymous
    start = position = 0
    while match := re.compile(r"[{};]").search(text, position):
        head, position = text[start:match.start()], match.end()
        start = position
        if match.group() == "}":
            if hidden:
                hidden.pop()
            continue
        opened = NAMESPACE.search(head) if match.group() == "{" else None
        if opened or (match.group() == "{" and head.strip() == 'extern " "'):
            hidden.append(bool(hidden and hidden[-1]) or bool(opened and not opened["name"]))
            continue
        if (hidden and hidden[-1]) or re.search(r"\bstatic\b", head):
            names |= declared(head)
        if match.group() == "{":
            position = start = end_of_block(text, position)
    return names


def declared(head: str) -> set[str]:
    """The name that a declaration introduces, from its text before `{` or `;`."""
    if alias := ALIAS.search(head):
        return {alias["name"]}
    if re.match(r"\s*(?:using|friend|static_assert)\b", head):
        return set()
    head = re.sub(r"\[\[.*?\]\]", "", head)
    if type_ := TYPE.search(head):
        return {type_["name"]}
    words = re.findall(r"(?:::\s*)?[A-Za-z_]\w*", re.split(r"[(=\[]", head, maxsplit=1)[0])
    # A member definition (Type::name) declares nothing, and TEST(Suite, Name) does not declare TEST.
    return {words[-1]} if words and not words[-1].startswith("::") and not words[-1].isupper() else set()


def end_of_block(text: str, position: int) -> int:
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.end()
    return len(text)


if __name__ == "__main__":
    sys.exit(main())
