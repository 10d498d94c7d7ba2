#!/usr/bin/env python3
"""Checks the words: unusual words and constructions that a reader must read twice.

It reads the comments and string literals of C++, Python and TypeScript, the comments of CMake, shell and YAML, and the text of
the Markdown pages, across line ends. Code in Markdown and names in backquotes are not text. Each rule is a word without a proper
use, or a construction that is exact enough to have none; the rest of English needs a reader.
"""

import io
import re
import sys
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from source_tree import (CPP_PART, Finding, argument_parser, conclude, line_at, list_files, mask_cpp,
                         read_text)


@dataclass(frozen=True)
class Rule:
    """What a text must not contain, and what to write instead."""

    pattern: re.Pattern[str]
    next_step: str


def rule(pattern: str, next_step: str) -> Rule:
    return Rule(re.compile(pattern), next_step)


RULES = [
    rule(r"\b[Bb]rought\b(?! (?:[\w']+ ){1,3}(?:about|down|up)\b)", "Write fetched, read, loaded or gave"),
    rule(r"(?<![\w-])[Tt]old(?![\w-])(?! (?:apart|to)\b)", "Write called, reported, known or distinguished"),
    rule(r"\bthan (?:it|they) (?:is|are|was|were) told\b", "Say who asks, and for what"),
    rule(r"\b[Hh]idden behind\b", "Write overlapped with"),
    rule(r"\b[Dd]ear(?:er|est)?\b", "Write expensive"),
    rule(r"\b[Uu]pon\b", "Write on"),
    rule(r"\b[Ss]hall\b", "Write must, will or should"),
    rule(r"\b(?:[Ww]hereby|[Ww]herein|[Tt]hereof|[Tt]herein|[Tt]hence|[Tt]hither|[Hh]ereof)\b", "Use a plain word"),
    rule(r"\b(?:[Aa]fter|[Aa]s|[Ee]very|[Hh]as|[Oo]n|[Oo]nly|[Ss]tarts?|[Tt]hat of|[Ww]ith) so many\b"
         r"(?![^.;:]{0,80}\bthat\b)|\b[Ss]o many (?:of|since|samples of)\b", "Write N, this many or this number of"),
    rule(r"\b[Ww]hose way\b|^Whose\b", "Name the subject, and write a sentence"),
    rule(r"\b[Oo]f this (?:job|machine|node|program|trace) Millrace\b|^What of\b", "Put the subject first"),
    rule(r"(?<![Tt]here )\b(?:[Ii]s|[Aa]re) none\b(?! of\b|\.\w)", "Say what does not exist, or what is ignored"),
    rule(r"\b[Ww]here there (?:is|are) no(?:ne)?\b", "Write if there is no"),
    rule(r"\b(?:[Ii]s|[Aa]re) nowhere\b", "Say what happens to it"),
    rule(r"\b[Hh]as nobody\b|\b[Ll]ets nothing\b", "Say what it does"),
    rule(r"\b[Ee]nds? alike\b", "Write has the same suffix"),
    rule(r"^Of (?!course\b)[^,.;:]+(?:[.;:]|$)", "Begin with the thing that this is of"),
]

# Most passages match none of them, which one search finds out.
ANY_RULE = re.compile("|".join(f"(?:{each.pattern.pattern})" for each in RULES))

# Type names that say nothing about the type.
EMPTY_NAME = re.compile(r"\b(?:class|enum class|enum|interface|struct|using)\s+(\w*(?:Handler|Helper|Manager|Util)s?)\b")
# The words of POSIX.
FOREIGN_NAMES = {"SignalHandler"}

CODE_SUFFIXES = (".cc", ".h", ".c", ".ts")
SCRIPT_SUFFIXES = (".cmake", ".sh", ".sbatch", ".yaml", ".yml", "CMakeLists.txt")
# Written by others, made from other files, or made of what this check looks for.
SKIPPED = ("LICENSE", "src/report/page/dist/", "tools/check_words.py", "tests/tools/words_test.py")


@dataclass
class Passage:
    """A text without the marks around it, and the line of each of its parts."""

    text: str = ""
    starts: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def add(self, part: str, line: int) -> None:
        part = part.strip()
        if not part:
            return
        if self.text:
            self.text += " "
        self.starts.append(len(self.text))
        self.lines.append(line)
        self.text += part

    def line_of(self, position: int) -> int:
        return self.lines[bisect_right(self.starts, position) - 1]


def main() -> int:
    root: Path = argument_parser(__doc__).parse_args().root
    findings: list[Finding] = []
    checked_count = 0
    for name in list_files(root):
        if name.startswith(SKIPPED):
            continue
        passages = passages_of(name, root / name)
        if passages is None:
            continue
        checked_count += 1
        for passage in passages:
            if passage.text:
                findings += check_passage(name, passage)
        if name.endswith((*CODE_SUFFIXES, ".py")):
            findings += check_names(name, read_text(root / name))
    return conclude(findings, checked_count, f"words: {checked_count} files, in plain English")


def check_passage(name: str, passage: Passage) -> Iterator[Finding]:
    if not ANY_RULE.search(passage.text):
        return
    for each in RULES:
        for match in each.pattern.finditer(passage.text):
            shown = match.group() if len(match.group()) <= 40 else match.group()[:37] + "..."
            yield Finding(name, passage.line_of(match.start()), f"the words '{shown}' make a reader stop", each.next_step)


def check_names(name: str, text: str) -> Iterator[Finding]:
    if not EMPTY_NAME.search(text):
        return
    for match in EMPTY_NAME.finditer(text if name.endswith(".py") else mask_cpp(text)):
        if match[1] not in FOREIGN_NAMES:
            yield Finding(name, line_at(text, match.start()), f"the name {match[1]} does not say what it is",
                          "Find the noun")


def passages_of(name: str, path: Path) -> list[Passage] | None:
    """The texts of a file; None if it is not of a checked kind."""
    if name.endswith(".md"):
        return list(markdown_passages(read_text(path)))
    if name.endswith(".py"):
        return list(python_passages(read_text(path)))
    if name.endswith(CODE_SUFFIXES):
        return list(cpp_passages(read_text(path)))
    if name.endswith(SCRIPT_SUFFIXES):
        return list(script_passages(read_text(path)))
    return None


def markdown_passages(text: str) -> Iterator[Passage]:
    """Paragraphs, items of lists and rows of tables, without code."""
    passage = Passage()
    is_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        begins = not line.strip() or is_code or line.startswith("    ") or re.match(r"\s*(?:[-*|#]|\d+\.)\s?", line)
        if begins:
            yield passage
            passage = Passage()
        if not is_code and not line.startswith("    "):
            for cell in re.sub(r"`[^`]*`", "X", line).split("|"):
                passage.add(re.sub(r"^\s*(?:[-*#>]+|\d+\.)\s", "", cell), number)
                if line.startswith("|"):
                    yield passage
                    passage = Passage()
    yield passage


def cpp_passages(text: str) -> Iterator[Passage]:
    """Comments of neighbouring lines are one text, and so are neighbouring literals."""
    passage = Passage()
    is_comment = False
    first = 1
    end = 0
    for match in CPP_PART.finditer(text):
        kind_is_comment = match["comment"] is not None
        if not kind_is_comment and not match["literal"] and not match["raw"]:
            continue
        between = text[end:match.start()]
        if kind_is_comment != is_comment or between.strip() or between.count("\n") > 1:
            yield passage
            passage = Passage()
        is_comment = kind_is_comment
        first += between.count("\n")
        for line in match.group().split("\n"):
            passage.add(re.sub(r"^[\s/*]+|[\s*/]+$", "", line) if is_comment else line.strip().strip('"'), first)
            first += 1
        first -= 1
        end = match.end()
    yield passage


def python_passages(text: str) -> Iterator[Passage]:
    """As for C++. Literals end a text, so that each message is one."""
    passage = Passage()
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_text = token.type in (tokenize.COMMENT, tokenize.STRING) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE"
        if not is_text:
            if passage.text and token.type not in (tokenize.NL, tokenize.NEWLINE):
                yield passage
                passage = Passage()
            continue
        if token.start[0] > last + 1:
            yield passage
            passage = Passage()
        is_format = token.type == tokenize.STRING and "f" in token.string.split("'")[0].split('"')[0].lower()
        content = re.sub(r"\{[^{}]*\}", "X", token.string) if is_format else token.string
        for offset, line in enumerate(content.split("\n")):
            passage.add(re.sub(r'^(?:#+|[rbfRBF]*["\']+)\s*|["\']+$', "", line.strip()), token.start[0] + offset)
        last = token.end[0]
    yield passage


def script_passages(text: str) -> Iterator[Passage]:
    """Comments that begin with #."""
    passage = Passage()
    for number, line in enumerate(text.split("\n"), 1):
        comment = re.search(r"(?:^|\s)#(?!!)\s?(.*)", line)
        if comment is None or line.lstrip()[0] != "#":
            yield passage
            passage = Passage()
        if comment:
            passage.add(comment[1], number)
    yield passage


if __name__ == "__main__":
    sys.exit(main())
