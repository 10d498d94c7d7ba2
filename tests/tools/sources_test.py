#!/usr/bin/env python3
"""Tests of tools/check_functions.py, check_changes.py, check_headers.py and check_format.py."""

import shutil
import unittest

from check_case import CheckTest


LONG_BODY = "  step();\n" * 70


class FunctionsTest(CheckTest):
    script = "check_functions.py"

    def test_long_functions_are_found(self) -> None:
        forms = {
            f"int f(int a) {{\n{LONG_BODY}}}\n": 1,
            f"namespace a {{\nS::S(int a,\n     int b)\n    : a_(a) {{\n{LONG_BODY}}}\n}}  // namespace a\n": 2,
            "struct S {\n  void f() {\n" + "    step();\n" * 70 + "  }\n};\n": 2,
            f"void g() {{\n}}\n\nvoid f() {{\n#if A\n  auto s = R\"(\n}}\n)\";\n#endif\n{LONG_BODY}}}\n": 4,
        }
        for source, line in forms.items():
            with self.subTest(source):
                self.write("src/base/a.cc", source)
                self.assert_finds(f"src/base/a.cc:{line}: a function of 7")

    def test_every_tree_and_python_are_read(self) -> None:
        for path in ("benchmarks/a.cc", "python/a.cc", "src/base/a.h", "tests/fuzz/a.cc"):
            self.write(path, f"void f() {{\n{LONG_BODY}}}\n")
        self.write("tools/a.py", "class A:\n    async def f(self):\n" + "        pass\n" * 70)
        self.assert_finds("benchmarks/a.cc:1: ", "python/a.cc:1: ", "src/base/a.h:1: ", "tests/fuzz/a.cc:1: ",
                          "tools/a.py:2: a function of 71 lines; the limit is 70")

    def test_other_long_blocks_and_excused_functions_pass(self) -> None:
        self.write("src/base/a.cc", f"namespace a {{\nstruct S {{\n{LONG_BODY}}};\nint a[] = {{\n{LONG_BODY}}};\n"
                   f"}}  // namespace a\n// long-function: it is a table\nvoid f() {{\n{LONG_BODY}}}\n")
        self.write("tools/a.py", "def f():\n" + "    pass\n" * 69)
        self.assert_passes("functions: 2 files, no function above 70 lines")

    def test_a_file_that_is_not_python(self) -> None:
        self.write("tools/a.py", "x = 1\ndef f(:\n")
        self.assert_finds("tools/a.py:2: cannot read it: ")


class ChangesTest(CheckTest):
    script = "check_changes.py"

    def test_only_the_folder_of_a_replay_opens_and_changes_files(self) -> None:
        calls = ("::unlink(a);", "return openat(a, b);", "x = File::open(a);", "std::filesystem::rename(a, b);",
                 "fs::remove_all(a);", "std::ofstream out(a);", "if (mkdir (a) != 0) f();", "std::ofstream{a};",
                 "f(fchmod(a));")
        self.write("src/replay/run.cc", "".join(f"{call}\n" for call in calls))
        self.assert_finds(*(f"src/replay/run.cc:{line}: calls {name}, which only src/replay/folder.cc may do. A trace is "
                            for line, name in enumerate(("unlink", "openat", "open", "rename", "remove_all", "ofstream",
                                                         "mkdir", "ofstream", "fchmod"), 1)))

    def test_others_and_the_folder_itself_pass(self) -> None:
        for path in ("src/replay/folder.cc", "src/replay/folder.h", "src/replay/run_test.cc", "src/replay/testing/a.h",
                     "src/base/io/file.cc"):
            self.write(path, "int fd = open(a);\n")
        self.write("src/replay/run.cc", "Folder::open(a); folder.rename(a); folder->remove(b); reopen(c); // unlink(a)\n"
                   "is_open(); const char* open = \"unlink(\"; kRename(a);\n")
        self.assert_passes("changes: 1 files, which open, remove and rename nothing")


class HeadersTest(CheckTest):
    script = "check_headers.py"

    def setUp(self) -> None:
        super().setUp()
        self.write("src/CMakeLists.txt", "")
        self.write("src/base/base.h", "// base: what every module stands on.\n//\n"
                   "// It knows no word of the domain.\n// It never prints.\n#pragma once\n")
        self.write("src/base/a.cc", '#include "base/a.h"\nint a;\n')

    def header(self, *lines: str) -> None:
        self.write("src/base/a.h", "\n".join(lines) + "\n")

    def test_clean_headers_pass(self) -> None:
        for first in ("// Clock: how time is read.", "// A sentence of five words.",
                      "// Date: how a day is written.", "// Table: aligned columns."):
            with self.subTest(first):
                self.header(first, "#pragma once")
                self.assert_passes("headers: 2 headers of 1 modules, each with its opening comment")

    def test_a_header_that_does_not_begin_with_a_comment(self) -> None:
        for first in ("#include <string>", "", "/* Clock: how time is read. */"):
            with self.subTest(first):
                self.header(first, "// Clock: how time is read.", "#pragma once")
                self.assert_finds("src/base/a.h:1: the header does not begin with a // comment. ")

    def test_a_first_line_that_says_nothing(self) -> None:
        for first in ("// Clock", "// Clock:", "// Clock: time.", "// This is a clock",
                      "// -------------- a - b - c"):
            with self.subTest(first):
                self.header(first, "#pragma once")
                self.assert_finds(f"src/base/a.h:1: the first line, '{first[3:]}', does not say ")

    def test_a_header_without_pragma_once(self) -> None:
        self.header("// Clock: how time is read.", "// #pragma once")
        self.assert_finds("src/base/a.h:1: the header lacks #pragma once. Put it ")

    def test_a_source_that_includes_another_header_before_its_own(self) -> None:
        self.header("// Clock: how time is read.", "#pragma once")
        for text, line in (('// a\n#include <string>\n#include "base/a.h"\n', 2), ("int a;\n", 1)):
            with self.subTest(text):
                self.write("src/base/a.cc", text)
                self.assert_finds(f"src/base/a.cc:{line}: the source does not include its own header "
                                  "first. Begin with #include \"base/a.h\"")

    def test_tags_in_comments(self) -> None:
        for tag, found in (("// @param a the a", "@param"), ("// Author: Ann", "// Author:"),
                           ("/* x\n * Author: Ann */", "* Author:"),
                           ("// \\author Ann", "\\author"),
                           ("// Date: 2024-01-02", "// Date: 2024-01-02"),
                           ("// Copyright 2024 Ann", "Copyright 2024"),
                           ("// copyright (c) Ann", "copyright (c)"), ("// © Ann", "©"),
                           ("// Created by: Ann", "// Created by:")):
            for path in ("src/base/a.cc", "src/base/a.h"):
                with self.subTest(tag=tag, path=path):
                    self.header("// Clock: how time is read.", "#pragma once")
                    before = self.read(path)
                    self.write(path, f"{before}{tag}\n")
                    line = before.count("\n") + 1 + tag.count("\n")
                    self.assert_finds(f"{path}:{line}: the comment has the tag '{found}'. Remove ")
                    self.write(path, before)

    def test_strings_and_words_that_resemble_tags_pass(self) -> None:
        self.write("src/base/a.cc", 'auto s = "Date: 1 @param Author: x";  // the author wrote it\n'
                   "// The date: it is not known. Copyright is a right.\n")
        self.assert_passes("headers: 1 headers of 1 modules, each with its opening comment")

    def test_links_are_skipped(self) -> None:
        (self.root / "src/base/link.h").symlink_to("nowhere.h")
        (self.root / "src/base/other.h").symlink_to("a.cc")
        self.assert_passes("headers: 1 headers of 1 modules, each with its opening comment")

    def test_a_module_without_its_header(self) -> None:
        self.write("src/io/io.cc", "")
        self.assert_finds("src/io/io.h: the module io has no header of the same name. Write it, ")

    def test_a_module_header_that_does_not_name_the_module(self) -> None:
        self.write("src/base/base.h", "// Base: what every module stands on.\n// It is\n// small.\n"
                   "#pragma once\n")
        self.assert_finds("src/base/base.h:1: the module's header does not begin with `// base: `")

    def test_a_module_header_that_says_too_little(self) -> None:
        self.write("src/base/base.h", "// base: what every module stands on.\n//\n// It is small.\n"
                   "#pragma once\n// Far below.\n")
        self.assert_finds("src/base/base.h:1: the module's opening comment has 2 lines of text, "
                          "fewer than 3. Say why ")

    def test_a_tree_without_headers_fails(self) -> None:
        shutil.rmtree(self.root / "src/base")
        self.assert_finds("there are no files to check. Give the repository with --root")


class FormatToolTest(CheckTest):
    """Which clang-format is used. The tools here are fakes that only print a version."""

    script = "check_format.py"

    def setUp(self) -> None:
        super().setUp()
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("src/base/a.cc", "int  a;\n")
        self.tools = self.root.parent / "tools"
        self.tools.mkdir()

    def fake(self, name: str, version: str, answer: str = "exit 0") -> None:
        tool = self.tools / name
        tool.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then\n  echo "clang-format version '
                        f'{version}"\n  exit 0\nfi\n{answer}\n', encoding="utf-8")
        tool.chmod(0o755)

    def test_no_tool_names_the_package(self) -> None:
        status, output = self.run_check(PATH=str(self.tools))
        self.assertEqual((status, output), (1, "clang-format 19 was not found. "
                                               "Install the package clang-format-19\n"))

    def test_another_version_is_refused(self) -> None:
        self.fake("clang-format", "14.0.19")
        status, output = self.run_check(PATH=str(self.tools))
        self.assertEqual(status, 1)
        self.assertIn("Install the package clang-format-19", output)

    def test_the_plain_name_is_used_if_its_version_is_right(self) -> None:
        self.fake("clang-format", "19.1.7")
        status, output = self.run_check(PATH=str(self.tools))
        self.assertEqual((status, output), (0, "format: 1 files, all formatted with "
                                               "clang-format 19\n"))

    def test_a_failing_tool_is_not_mistaken_for_a_clean_tree(self) -> None:
        self.fake("clang-format-19", "19.1.7", "echo 'bad style' >&2; exit 3")
        status, output = self.run_check(PATH=str(self.tools))
        self.assertEqual(status, 1)
        self.assertIn("clang-format-19 failed with exit status 3: bad style. ", output)

    def test_a_tool_that_cannot_rewrite_is_reported(self) -> None:
        complaint = "src/base/a.cc:1:1: error: code should be clang-formatted"
        self.fake("clang-format-19", "19.1.7",
                  f'if [ "$1" = --dry-run ]; then echo "{complaint}" >&2; fi\nexit 1')
        status, output = self.run_check("--fix", PATH=str(self.tools))
        self.assertEqual(status, 1)
        self.assertIn("clang-format-19 failed with exit status 1: . ", output)


class FormatTest(CheckTest):
    script = "check_format.py"

    def setUp(self) -> None:
        super().setUp()
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("src/base/good.cc", "int a;\n")

    def test_a_formatted_tree_passes(self) -> None:
        self.write("src/base/template.cc.in", "int   a;\n")
        self.write("docs/a.cc", "int   a;\n")
        self.assert_passes("format: 1 files, all formatted with clang-format 19")

    def test_unformatted_files_are_listed_with_the_fix(self) -> None:
        paths = ["benchmarks/a.cc", "python/a.cc", "src/base/a.h", "tests/a.cc"]
        for path in paths:
            self.write(path, "int   a;\nint   b;\n")
        self.assert_finds(*paths, "these files are not formatted. Run: "
                          "tools/check_format.py --fix")

    def test_new_files_count_and_ignored_ones_do_not(self) -> None:
        self.git("init", "-q")
        self.git("add", ".")
        self.write(".gitignore", "ignored.cc\n")
        self.write("src/base/ignored.cc", "int   a;\n")
        self.write("src/base/new.cc", "int   a;\n")
        self.assert_finds("src/base/new.cc", "these files are not formatted. ")

    def test_fix_rewrites(self) -> None:
        self.write("src/base/a.h", "int   a;\n")
        self.assert_passes("format: rewrote 1 of 2 files", "--fix")
        self.assertEqual(self.read("src/base/a.h"), "int a;\n")
        self.assert_passes("format: 2 files, all formatted with clang-format 19")

    def test_a_tree_without_a_style(self) -> None:
        (self.root / ".clang-format").unlink()
        self.assert_finds(".clang-format: the file is missing. ")

    def test_a_tree_without_sources_fails(self) -> None:
        (self.root / "src/base/good.cc").unlink()
        self.assert_finds("there are no files to check. Give the repository with --root")


if __name__ == "__main__":
    unittest.main()
