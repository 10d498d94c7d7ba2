#!/usr/bin/env python3
"""The ratchet on long functions: none above 70 lines that tools/long_functions.txt does not list.

A listed function may shrink and never grow, so the list only gets shorter by itself; a new entry
is a decision that a person makes in an editor. --update lowers and removes entries, no more.

C++ is read by a tokenizer and not by a compiler: the check must also see the branches of #if that
this machine does not build, and must run where no compiler is. Lines count from the start of the
signature (its template line included) to the closing brace.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from source_tree import (Finding, argument_parser, conclude, list_files, mask_cpp, read_text,
                         select)

LINES_MAX = 70
LIST_FILE = "tools/long_functions.txt"
CPP_TREES = ("src", "bench", "tests", "python")
PYTHON_TREES = ("tools", "tests", "python", "bench")


class Function(NamedTuple):
    name: str
    first_line: int
    last_line: int

    @property
    def line_count(self) -> int:
        return self.last_line - self.first_line + 1


class Entry(NamedTuple):
    """A line of the list."""

    path: str
    name: str
    line_count: int
    number: int


Key = tuple[str, str]  # path and name. Overloads share one; their lengths are matched in order.


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--update", action="store_true",
                        help=f"lower and remove entries of {LIST_FILE}; never adds or raises")
    arguments = parser.parse_args()
    root: Path = arguments.root
    long, function_count, file_count, findings = measure(root)
    entries, bad_lines = read_list(root)
    findings += bad_lines
    if arguments.update:
        update_list(root, entries, long)
        entries, _ = read_list(root)
    findings += compare(entries, long)
    return conclude(findings, file_count, f"functions: {function_count} in {file_count} files, "
                    f"{len(entries)} above {LINES_MAX} lines, all of them listed")


def measure(root: Path) -> tuple[dict[Key, list[Function]], int, int, list[Finding]]:
    """The long functions, the count of all functions and files, and what could not be read."""
    names = list_files(root)
    files = [(path, cpp_functions) for path in select(names, CPP_TREES, (".h", ".cc"))]
    files += [(path, python_functions) for path in select(names, PYTHON_TREES, (".py",))]
    long: dict[Key, list[Function]] = defaultdict(list)
    findings: list[Finding] = []
    function_count = 0
    for path, read_functions in files:
        try:
            functions = read_functions(read_text(root / path))
        except SyntaxError as error:
            findings.append(Finding(path, error.lineno or 0, f"cannot read it: {error.msg}",
                                    "Correct it; braces must balance without expanding macros"))
            continue
        function_count += len(functions)
        for function in functions:
            if function.line_count > LINES_MAX:
                long[path, function.name].append(function)
    return long, function_count, len(files), findings


def read_list(root: Path) -> tuple[list[Entry], list[Finding]]:
    path = root / LIST_FILE
    entries: list[Entry] = []
    findings: list[Finding] = []
    for number, line in enumerate(read_text(path).split("\n") if path.is_file() else [], start=1):
        words = line.split("#")[0].split()
        if len(words) >= 3 and words[-1].isdecimal():
            # A name may have a space: operator bool.
            entries.append(Entry(words[0], " ".join(words[1:-1]), int(words[-1]), number))
        elif words:
            findings.append(Finding(LIST_FILE, number, f"cannot read '{line.strip()}'",
                                    "Write `path function lines`"))
    return entries, findings


def pair(entries: Sequence[Entry], long: dict[Key, list[Function]]
         ) -> Iterator[tuple[Key, Entry | None, Function | None]]:
    """Every entry with the function it permits, and every function or entry left over."""
    listed: dict[Key, list[Entry]] = defaultdict(list)
    for entry in entries:
        listed[entry.path, entry.name].append(entry)
    for key in sorted(listed.keys() | long.keys()):
        permits = sorted(listed.get(key, []), key=lambda entry: -entry.line_count)
        functions = sorted(long.get(key, []), key=lambda function: -function.line_count)
        for index in range(max(len(permits), len(functions))):
            yield (key, permits[index] if index < len(permits) else None,
                   functions[index] if index < len(functions) else None)


def compare(entries: Sequence[Entry], long: dict[Key, list[Function]]) -> list[Finding]:
    findings = []
    for (path, name), entry, function in pair(entries, long):
        if entry is None and function is not None:
            findings.append(Finding(
                path, function.first_line, f"{name} has {function.line_count} lines, and the limit "
                f"is {LINES_MAX}", "Split it at a seam; a flat table, a parser or a straight "
                f"script may be listed in {LIST_FILE} by hand"))
        elif entry is not None and function is None:
            findings.append(Finding(
                LIST_FILE, entry.number, f"{path} has no {name} above {LINES_MAX} lines any more",
                "Run tools/check_functions.py --update"))
        elif entry is not None and function is not None:
            findings += compare_lengths(entry, function)
    return findings


def compare_lengths(entry: Entry, function: Function) -> list[Finding]:
    if function.line_count > entry.line_count:
        return [Finding(entry.path, function.first_line, f"{entry.name} grew to "
                        f"{function.line_count} lines, and {LIST_FILE} permits {entry.line_count}",
                        "Shorten it: the list only shrinks")]
    if function.line_count < entry.line_count:
        return [Finding(LIST_FILE, entry.number, f"{entry.path} {entry.name} has only "
                        f"{function.line_count} lines, not {entry.line_count}",
                        "Run tools/check_functions.py --update")]
    return []


def update_list(root: Path, entries: Sequence[Entry], long: dict[Key, list[Function]]) -> None:
    """Rewrites only the lines of entries that have become too generous."""
    path = root / LIST_FILE
    if not entries:
        return
    old_lines = read_text(path).split("\n")
    lines: list[str | None] = list(old_lines)
    for (file, name), entry, function in pair(entries, long):
        if entry is None:
            continue
        read_line = old_lines[entry.number - 1]
        if function is None:
            lines[entry.number - 1] = None
        elif function.line_count < entry.line_count:
            permit, hash_sign, comment = read_line.partition("#")
            space = permit[len(permit.rstrip()):]
            lines[entry.number - 1] = (f"{file} {name} {function.line_count}{space}"
                                       f"{hash_sign}{comment}")
    path.write_text("\n".join(line for line in lines if line is not None), encoding="utf-8")


def python_functions(text: str) -> list[Function]:
    found: list[Function] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = f"{prefix}{child.name}."
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(Function(inner[:-1], child.lineno, child.end_lineno or child.lineno))
            visit(child, inner)

    visit(ast.parse(text), "")
    return found


def cpp_functions(text: str) -> list[Function]:
    """The functions of a C++ file; SyntaxError where the braces do not balance."""
    return CppReader().read(text)


class Token(NamedTuple):
    text: str
    line: int


class Item(NamedTuple):
    """A token of a declaration's head, or a bracketed group as one: `()`, `[]`, `<>`."""

    text: str
    inside: str = ""  # of a `()`: its words, joined by points


CPP_TOKEN = re.compile(
    r"""
      (?P<directive> ^[ \t]*\#(?:\\\n|[^\n])* )
    | "[^"]*" | '[^']*' | [A-Za-z_]\w* | \.?\d[\w.']*
    | :: | ->\*? | \.\.\. | <=> | [<>=!+\-*/%&|^]= | && | \|\| | \S
    """, re.MULTILINE | re.VERBOSE)
WORD = re.compile(r"[A-Za-z_]\w*")
MACRO = re.compile(r"[A-Z][A-Z0-9_]+")
CLOSING = {")": "(", "]": "["}
# Words whose own `()` may be followed by a symbol, as a parameter list is.
TAKES_PARENTHESES = {"decltype", "requires"}
AFTER_PARAMETERS = {"const", "final", "noexcept", "override", "requires", "try", "volatile"}
AFTER_LAMBDA_PARAMETERS = {"mutable", "noexcept", "constexpr", "consteval", "->", "requires"}


class Frame(NamedTuple):
    """An open brace: what it opened, and the declaration it interrupts, if any."""

    kind: str  # scope, class, function, nested (inside a function), data
    name: str
    line: int
    interrupted: list[Token] | None = None


class CppReader:
    """Walks the tokens, and decides at each opening brace what the tokens before it declare."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.head: list[Token] = []  # the declaration so far, since the last `;`, `{` or `}`
        self.branches: list[tuple[list[Frame], list[Token]]] = []  # the state at each open #if
        self.found: list[Function] = []

    def read(self, text: str) -> list[Function]:
        for token in tokens_of(mask_cpp(text)):
            if token.text.startswith("#"):
                self.follow_branch(token.text)
            elif token.text == "{":
                self.open(token)
            elif token.text == "}":
                self.close(token)
            elif self.kind() not in ("function", "nested"):
                self.extend_head(token)
        if self.frames:
            raise unbalanced("this brace is never closed", self.frames[-1].line)
        # A function that both branches of an #if close is found twice.
        longest = {(function.name, function.first_line): function
                   for function in sorted(self.found, key=lambda function: function.last_line)}
        return list(longest.values())

    def kind(self) -> str:
        return self.frames[-1].kind if self.frames else "scope"

    def follow_branch(self, directive: str) -> None:
        """Begins each branch of an #if in the same state, so that each may open the same brace."""
        word = directive.lstrip("# \t")
        if word.startswith("if"):
            self.branches.append((list(self.frames), list(self.head)))
        elif word.startswith("el") and self.branches:
            frames, head = self.branches[-1]
            self.frames, self.head = list(frames), list(head)
        elif word.startswith("endif") and self.branches:
            self.branches.pop()

    def open(self, brace: Token) -> None:
        if self.kind() in ("function", "nested"):
            self.frames.append(Frame("nested", "", brace.line))
            return
        self.frames.append(self.classify(signature_line(self.head, brace)))
        self.head = []

    def classify(self, line: int) -> Frame:
        owner = self.frames[-1].name if self.kind() in ("class", "data") else ""
        inner, is_inside_brackets = innermost(self.head)
        items = items_of(inner)
        whole = items_of(self.head) if is_inside_brackets else items
        if is_lambda(items):
            name = owner if self.kind() == "data" else qualified(owner, declared_name(whole))
            return Frame("function", f"{name}.lambda", lambda_line(inner), self.head)
        data = Frame("data", qualified(owner, declared_name(whole)), line, self.head)
        if is_inside_brackets or self.kind() == "data":
            return data
        texts = [item.text for item in items]
        if "namespace" in texts or texts[-2:-1] == ["extern"]:  # extern "C" {
            return Frame("scope", "", line)
        if texts[:1] == ["catch"] and self.found:
            body = self.found.pop()  # of a function that is one try block
            return Frame("function", body.name, body.first_line)
        if "=" in texts:
            return data
        key = type_key(texts)
        if key is not None:
            name = qualified(owner, type_name(texts[key + 1:]))
            return data if texts[key] == "enum" else Frame("class", name, line)
        if "()" not in texts or awaits_body(texts):
            return data
        return Frame("function", qualified(owner, function_name(items, owner)), line)

    def close(self, brace: Token) -> None:
        if not self.frames:
            raise unbalanced("this brace closes nothing", brace.line)
        frame = self.frames.pop()
        if frame.kind == "function":
            self.found.append(Function(frame.name, frame.line, brace.line))
        if frame.kind != "nested":
            self.head = [] if frame.interrupted is None else [*frame.interrupted, brace]

    def extend_head(self, token: Token) -> None:
        texts = [before.text for before in self.head[-2:]]
        is_label = token.text == ":" and texts in (["public"], ["protected"], ["private"])
        # The values before a comma are forgotten, or a long table would be read over and over.
        is_next_value = (token.text == "," and self.kind() == "data"
                         and not innermost(self.head)[1])
        if token.text == ";" or is_label or is_next_value:
            self.head = []
        else:
            self.head.append(token)


def unbalanced(message: str, line: int) -> SyntaxError:
    return SyntaxError(message, ("", line, 0, ""))


def tokens_of(masked: str) -> Iterator[Token]:
    line = 1
    position = 0
    for match in CPP_TOKEN.finditer(masked):
        line += masked.count("\n", position, match.start())
        position = match.start()
        yield Token(match.group().strip(), line)


def signature_line(head: Sequence[Token], brace: Token) -> int:
    """Where the declaration before the brace starts.

    A macro may end its line without a semicolon, `BENCHMARK(x)`; it is no part of what follows.
    """
    start = 0
    while start < len(head) and MACRO.fullmatch(head[start].text):
        after = start + 1
        depth = 0
        while after < len(head) and (depth > 0 or head[after].text == "("):
            depth += (head[after].text in CLOSING.values()) - (head[after].text in CLOSING)
            after += 1
        if after == len(head):
            break
        start = after
    return head[start].line if head else brace.line


def innermost(head: list[Token]) -> tuple[list[Token], bool]:
    """What follows the last bracket that is still open, or the whole; and whether one is."""
    depth = 0
    for index in range(len(head) - 1, -1, -1):
        if head[index].text in CLOSING:
            depth += 1
        elif head[index].text in CLOSING.values():
            depth -= 1
        if depth < 0:
            return head[index + 1:], True
    return head, False


def items_of(head: Sequence[Token]) -> list[Item]:
    """The head with its groups folded, and without attributes and template lines."""
    return drop_decoration(fold_angles(join_operators(fold_brackets(head))))


def fold_brackets(head: Sequence[Token]) -> list[Item]:
    items: list[Item] = []
    opened: list[int] = []
    for index, token in enumerate(head):
        if token.text in CLOSING.values():
            opened.append(index)
        elif token.text in CLOSING and opened:
            start = opened.pop()
            if not opened:
                inside = [inner.text for inner in head[start + 1:index]]
                is_attribute = token.text == "]" and inside[:1] == ["["]
                words = [text for text in inside if WORD.fullmatch(text)]
                if not is_attribute:
                    items.append(Item(CLOSING[token.text] + token.text, ".".join(words)))
        elif not opened:
            items.append(Item(token.text))
    return items


def join_operators(items: Sequence[Item]) -> list[Item]:
    """`operator` with what it defines as one word, so that no symbol of it misleads."""
    joined: list[Item] = []
    index = 0
    while index < len(items):
        name = items[index].text
        index += 1
        if name == "operator":
            own = [item.text for item in items[index:index + 1]]
            index += 1
            while index < len(items) and items[index].text != "()":
                own.append(items[index].text)
                index += 1
            name += (" " if own and WORD.fullmatch(own[0]) else "") + "".join(own)
            joined.append(Item(name))
        else:
            joined.append(items[index - 1])
    return joined


def fold_angles(items: Sequence[Item]) -> list[Item]:
    """`<...>` as one item. In the head of a declaration a bare `<` is hardly ever a comparison."""
    folded: list[Item] = []
    opened: list[int] = []
    for item in items:
        if item.text == "<":
            opened.append(len(folded))
        if item.text == ">" and opened:
            del folded[opened.pop():]
            folded.append(Item("<>"))
        else:
            folded.append(item)
    return folded


def drop_decoration(items: Sequence[Item]) -> list[Item]:
    """Without `template <...>`, and without words that only decorate, with their `()`."""
    kept: list[Item] = []
    for item in items:
        before = kept[-1].text if kept else ""
        if item.text == "<>" and before == "template":
            kept.pop()
        elif item.text == "()" and before in {"alignas", "__attribute__"}:
            kept.pop()
        else:
            kept.append(item)
    return kept


def is_lambda(items: Sequence[Item]) -> bool:
    """Whether the head ends in a lambda's introducer and parameters, so that its body follows."""
    texts = [item.text for item in items]
    if "[]" not in texts:
        return False
    start = len(texts) - 1 - texts[::-1].index("[]")
    before = texts[start - 1] if start > 0 else ""
    is_subscript = WORD.fullmatch(before) or before == "[]"
    rest = texts[start + 1:]
    if rest[:1] == ["<>"]:
        rest = rest[1:]
    if rest[:1] == ["()"]:
        rest = rest[1:]
    return not is_subscript and (not rest or rest[0] in AFTER_LAMBDA_PARAMETERS)


def lambda_line(tokens: Sequence[Token]) -> int:
    """Where the lambda at the end of the tokens begins: at its last unnested `[`."""
    line = tokens[-1].line
    depth = 0
    for token in tokens:
        if token.text == "[" and depth == 0:
            line = token.line
        depth += (token.text in CLOSING.values()) - (token.text in CLOSING)
    return line


def declared_name(items: Sequence[Item]) -> str:
    """The name of a variable: the last word before `=`, or else before the brace."""
    texts = [item.text for item in items]
    before = texts[:texts.index("=")] if "=" in texts else texts
    return next((text for text in reversed(before) if WORD.fullmatch(text)), "")


def type_key(texts: Sequence[str]) -> int | None:
    """Where `class X`, `struct X`, `union X` or `enum X` begins that the brace would define."""
    for index, text in enumerate(texts):
        if text in {"class", "struct", "union", "enum"} and texts[index - 1:index] != ["->"]:
            tail = texts[index + 1:]
            bases = tail.index(":") if ":" in tail else len(tail)
            # `struct stat f() {` is a function.
            return None if "()" in tail[:bases] else index
    return None


def type_name(tail: Sequence[str]) -> str:
    before_bases = tail[:tail.index(":")] if ":" in tail else tail
    words = [text for text in before_bases if WORD.fullmatch(text) and text != "final"]
    return words[-1] if words else ""


def awaits_body(texts: Sequence[str]) -> bool:
    """Whether a function's body is still to come, and the brace belongs to its head.

    It then opens a member's initializer, `Foo() : a_{1} {`, or a requires-expression.
    """
    for index, text in enumerate(texts):
        is_expression = text == "requires" and (
            texts[index - 1:index] in (["requires"], ["||"], ["!"])
            or (texts[index - 1:index] == ["&&"] and "requires" in texts[:index]))
        if is_expression and texts[index + 1:] in ([], ["()"]):
            return True
    parameters = texts.index("()")
    return ":" in texts[parameters:] and texts[-1] not in {"()", "}", "..."}


def function_name(items: Sequence[Item], owner: str) -> str:
    """The name before the parameters; `Suite.Name` for TEST(Suite, Name)."""
    texts = [item.text for item in items]
    candidates = [index for index, text in enumerate(texts)
                  if text == "()" and index > 0 and texts[index - 1] not in TAKES_PARENTHESES]
    parameters = next((index for index in candidates if ends_signature(texts, index)),
                      candidates[0] if candidates else 0)
    if parameters == 1 and not owner:  # without a type before its name it is a macro
        return items[1].inside or texts[0]
    before = [text for text in texts[:parameters] if text != "<>"]  # Foo<T>::bar is Foo::bar
    name = before.pop() if before else ""
    if before[-1:] == ["~"]:
        name = before.pop() + name
    while before[-1:] == ["::"] and len(before) > 1:
        before.pop()
        name = f"{before.pop()}::{name}"
    return name


def ends_signature(texts: Sequence[str], parameters: int) -> bool:
    """Whether what follows a `()` may follow a parameter list; a type or a name may not."""
    after = texts[parameters + 1] if parameters + 1 < len(texts) else ""
    is_annotation = MACRO.fullmatch(after) and not MACRO.fullmatch(texts[parameters - 1])
    return not WORD.fullmatch(after) or after in AFTER_PARAMETERS or bool(is_annotation)


def qualified(owner: str, name: str) -> str:
    return f"{owner}::{name}" if owner and name else owner or name


if __name__ == "__main__":
    sys.exit(main())
