#!/usr/bin/env python3
"""Writes what follows from the schema of the profile, src/analyze/profile/profile.schema.

Output: the C++ structs, the TypeScript types of the page, and the tables of docs/formats/report.md.
The files are committed, so the build needs no Python. With --check nothing is written: a file that
differs from what the schema says is a finding.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from source_tree import Finding, argument_parser, conclude, read_text

SCHEMA = "src/analyze/profile/profile.schema"
CPP = "src/analyze/profile/profile_structs.h"
TYPESCRIPT = "src/report/page/src/profile.ts"
PAGE = "docs/formats/report.md"
BEGIN, END = "<!-- begin: tools/profile_schema.py -->\n", "<!-- end -->\n"

# The types of the schema: numbers in C++, and the names of enums on the page.
NUMBERS = {"u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "i64": "int64_t", "f64": "double"}
ENUMS = {"Layer": "layer", "Role": "role", "CallKind": "call kind", "FileKind": "file kind",
         "ReadOrder": "string", "WaitBasis": "string", "ComputeBasis": "string"}
UNITS = {"-": "kNone", "inline": "kNone", "count": "kCount", "bytes": "kBytes", "ns": "kNs",
         "share": "kShare"}


@dataclass
class Type:
    name: str
    is_list: bool
    optional: bool
    initial: str  # "": the usual one

    @staticmethod
    def parse(text: str) -> "Type":
        name, _, initial = text.partition("=")
        return Type(name.rstrip("?[]"), name.endswith("[]"), name.endswith("?"), initial)

    def cpp(self) -> str:
        named = {"text": "std::string", "histogram": "LogHistogram", "CallKind": "wire::CallKind"}
        name = NUMBERS.get(self.name) or named.get(self.name, self.name)
        return f"std::vector<{name}>" if self.is_list else name

    def cpp_initial(self) -> str:
        if self.optional:
            return " = kMissing"
        if self.initial:
            return f" = {self.initial}"
        if self.is_list:
            return ""
        if self.name in ENUMS:
            return "{}"
        return " = false" if self.name == "bool" else " = 0" if self.name in NUMBERS else ""

    def typescript(self) -> str:
        if self.name in NUMBERS:
            name = "number"
        elif self.name in ENUMS or self.name == "text":
            name = "string"
        else:
            name = {"bool": "boolean", "histogram": "number[]"}.get(self.name, self.name)
        return name + ("[]" if self.is_list else " | null" if self.optional else "")

    def page(self, unit: str) -> str:
        """The type as the page names it: a number by its unit, if it has one."""
        if self.name in NUMBERS:
            name = unit or "number"
        else:
            name = {"text": "string", "bool": "boolean", "histogram": "histogram", **ENUMS}.get(
                self.name, f"[{self.name}](#{self.name.lower()})")
        if unit and name.startswith("["):
            name += f" of {unit}"
        return f"list of {name}" if self.is_list else name + (" or null" if self.optional else "")


@dataclass
class Member:
    name: str
    type: Type
    unit: str
    meaning: str


@dataclass
class Struct:
    name: str
    one_line: bool
    meaning: list[str] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; report stale files")
    arguments = parser.parse_args()
    root: Path = arguments.root
    structs, findings = read_schema(read_text(root / SCHEMA))
    if findings:
        return conclude(findings, 1, "")
    outputs = {CPP: cpp(structs), TYPESCRIPT: typescript(structs),
               PAGE: page(read_text(root / PAGE), structs)}
    stale = [path for path, text in outputs.items()
             if not (root / path).is_file() or read_text(root / path) != text]
    if arguments.check:
        findings = [Finding(path, 0, f"it differs from {SCHEMA}", "Run tools/profile_schema.py")
                    for path in stale]
        stale = []
    for path in stale:
        (root / path).write_text(outputs[path], encoding="utf-8")
    count = sum(len(struct.members) for struct in structs)
    return conclude(findings, len(outputs), f"profile: {len(structs)} structs, {count} fields, "
                    f"{len(stale)} files written")


def read_schema(text: str) -> tuple[list[Struct], list[Finding]]:
    structs: list[Struct] = []
    findings: list[Finding] = []
    known = {"text", "bool", "histogram", *NUMBERS, *ENUMS}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split(maxsplit=3)
        if not words or line.startswith("#"):
            continue
        if words[0] == "struct":
            structs.append(Struct(words[1], "one-line" in words[2:]))
            known.add(words[1])
        elif words[0] == ">":
            structs[-1].meaning.append(line[1:].strip())
        elif len(words) < 4 or Type.parse(words[1]).name not in known or words[2] not in UNITS:
            findings.append(Finding(SCHEMA, number, f"cannot read '{line}'",
                                    "Write a name, a known type, a unit and an explanation"))
        else:
            structs[-1].members.append(Member(words[0], Type.parse(words[1]), words[2], words[3]))
    return structs, findings


def cpp(structs: list[Struct]) -> str:
    text = f"""\
// The structs of a profile and their fields. Written by tools/profile_schema.py from
// {SCHEMA}: change that.
//
// visit_fields(visit, value...) calls visit(field, member...) for each field of a struct. Writers
// and readers are visitors, so no field can be forgotten or have two names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/profile/field.h"
#include "base/numbers/log_histogram.h"

// clang-format off
namespace millrace::analyze {{
"""
    for struct in structs:
        text += "\n" + "".join(f"// {line}\n" for line in struct.meaning) + f"struct {struct.name} {{\n"
        for member in struct.members:
            kind = member.type
            text += f"  {kind.cpp()} {member.name}{kind.cpp_initial()};  // {member.meaning}\n"
        text += "};\n"
        if struct.one_line:
            text += f"template <> inline constexpr bool kOnOneLine<{struct.name}> = true;\n"
    for struct in structs:
        text += f"\nvoid visit_fields(auto& visit, Of<{struct.name}> auto&... of) {{\n"
        for member in struct.members:
            words = member.type.name == "text" or member.type.name in ENUMS
            unit = "kText" if words else UNITS[member.unit]
            flag = ", .optional = true" if member.type.optional else ""
            flag += ", .inlined = true" if member.unit == "inline" else ""
            meaning = member.meaning.replace('"', '\\"')
            text += (f'  visit(Field{{.name = "{member.name}", .unit = Unit::{unit}{flag}, '
                     f'.meaning = "{meaning}"}}, of.{member.name}...);\n')
        text += "}\n"
    return text + "\n}  // namespace millrace::analyze\n"


def typescript(structs: list[Struct]) -> str:
    text = f"// The types of a profile. Written by tools/profile_schema.py from {SCHEMA}: change that.\n"
    for struct in structs:
        text += f"\n// {' '.join(struct.meaning)}\nexport interface {struct.name} {{\n"
        for member in struct.members:
            text += f"  {member.name}: {member.type.typescript()};  // {member.meaning}\n"
        text += "}\n"
    return text


def page(old: str, structs: list[Struct]) -> str:
    """The page with new tables between the two markers. The profile comes first."""
    text = ""
    for struct in [structs[-1], *structs[:-1]]:
        text += f"\n## {struct.name}\n\n{chr(10).join(struct.meaning)}\n\n"
        text += "| field | type | meaning |\n|---|---|---|\n"
        for member in struct.members:
            unit = "" if member.unit in ("-", "inline") else member.unit
            meaning = re.sub(r'("[^"]*")', r"`\1`", member.meaning)
            text += f"| `{member.name}` | {member.type.page(unit)} | {meaning} |\n"
    before, _, rest = old.partition(BEGIN)
    return before + BEGIN + text + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    sys.exit(main())
