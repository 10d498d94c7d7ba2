#!/usr/bin/env python3
"""Tests of the source checks in tools/: each rule is broken once, in a small tree.

Every check runs as a program with --root, as users run it; the tests look at its exit status and its
output. Run with `python3 tests/tools/checks_test.py`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
sys.dont_write_bytecode = True

import check_paths  # noqa: E402  (it is in tools/, on the path above)


class CheckTest(unittest.TestCase):
    """A temporary tree, and the check `script` run on it."""

    script = ""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve() / "tree"
        self.root.mkdir()

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", str(self.root), *arguments], check=True, capture_output=True)

    def run_check(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """The exit status and the output, in an environment with these variables."""
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
        command = [sys.executable, str(TOOLS / self.script), "--root", str(self.root), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stdout + done.stderr

    def assert_passes(self, expected: str, *arguments: str) -> None:
        self.assertEqual(self.run_check(*arguments), (0, expected + "\n"))

    def assert_finds(self, *expected: str, arguments: tuple[str, ...] = ()) -> None:
        """Expects exit status 1 and exactly these lines, each given by its beginning."""
        status, output = self.run_check(*arguments)
        lines = output.splitlines()
        self.assertEqual((status, len(lines)), (1, len(expected)), output)
        for line, beginning in zip(lines, expected, strict=True):
            self.assertEqual(line[:len(beginning)], beginning)


class LayersTest(CheckTest):
    script = "check_layers.py"

    def setUp(self) -> None:
        super().setUp()
        self.write("tools/layers.txt",
                   "# comment\nwire:\nbase: wire  # why\nbench/: *\ntests/: *\n")
        self.write("src/wire/wire.h", "#pragma once\n")
        self.write("src/base/base.h", '#include <string>\n#include "wire/wire.h"\n')
        self.write("src/base/base.cc", '#include "base/base.h"\n')

    def layers(self, *lines: str) -> None:
        self.write("tools/layers.txt", "\n".join(lines) + "\nbench/: *\ntests/: *\n")

    def test_a_clean_tree_passes_and_is_counted(self) -> None:
        self.assert_passes("layers: 2 modules, 3 files, 2 includes, all as tools/layers.txt allows")

    def test_an_include_that_is_not_allowed(self) -> None:
        self.write("src/wire/bad.h", '#pragma once\n\n#include "base/base.h"\n')
        self.assert_finds('src/wire/bad.h:3: wire may not include base ("base/base.h"). Move ')

    def test_only_tests_include_test_code(self) -> None:
        self.write("src/base/testing/fake.h", "#pragma once\n")
        for path in ("src/base/base_test.cc", "src/base/testing/fake.cc", "src/base/user.cc"):
            self.write(path, '#include "base/testing/fake.h"\n')
        self.assert_finds('src/base/user.cc:1: the program may not include test code '
                          '("base/testing/fake.h"). Move ')

    def test_nothing_is_inherited(self) -> None:
        self.layers("wire:", "base: wire", "cli: base")
        self.write("src/cli/main.c", '#include "base/base.h"\n#include "wire/wire.h"\n')
        self.assert_finds("src/cli/main.c:2: cli may not include wire ")

    def test_templates_are_checked_too(self) -> None:
        for template in ("a.c.in", "a.cc.in", "a.h.in"):
            self.write(f"src/wire/{template}", '#include "base/base.h"\n')
        self.assert_finds("src/wire/a.c.in:1: wire may not include base ",
                          "src/wire/a.cc.in:1: wire may not include base ",
                          "src/wire/a.h.in:1: wire may not include base ")

    def test_only_real_include_lines_count(self) -> None:
        self.write("src/wire/quiet.cc",
                   '// #include "base/base.h"\n/*\n#include "base/base.h"\n*/\n'
                   'const char* text = R"x(\n#include "base/base.h"\n)x";\n'
                   '#  include "wire/wire.h"  // this one does\n')
        self.assert_passes("layers: 2 modules, 4 files, 3 includes, all as tools/layers.txt allows")

    def test_a_folder_without_a_line(self) -> None:
        self.write("src/io/io.h", '#include "base/base.h"\n')
        self.assert_finds("src/io: the folder has no line in tools/layers.txt. Add a line `io: ")

    def test_a_tree_without_a_line(self) -> None:
        self.write("tools/layers.txt", "wire:\nbase: wire\n")
        self.write("bench/a.cc", '#include "base/base.h"\n')
        self.assert_finds("bench: the folder has no line in tools/layers.txt. Add a line `bench/: ")

    def test_a_line_without_a_folder(self) -> None:
        self.layers("wire:", "base: wire", "io: base")
        (self.root / "src/io").mkdir()
        self.assert_finds("tools/layers.txt:3: the module io has no files in src/io. Remove ")

    def test_an_include_relative_to_its_own_file(self) -> None:
        self.write("src/base/base.cc", '#include "base.h"\n')
        self.assert_finds('src/base/base.cc:1: "base.h" is not rooted at src/. '
                          'Write #include "base/base.h"')

    def test_an_include_with_a_roundabout_path(self) -> None:
        for detour in ("../wire/wire.h", "base/../wire/wire.h", "wire/./wire.h", "wire//wire.h",
                       "src/wire/wire.h"):
            with self.subTest(detour):
                self.write("tests/unit/a.cc", f'#include "{detour}"\n')
                self.write("src/base/base.cc", f'#include "{detour}"\n')
                found = (f'"{detour}" is not rooted at src/. Write #include "wire/wire.h"' if
                        detour != "../wire/wire.h" else "there is no src/../wire/wire.h for ")
                self.assert_finds(f'src/base/base.cc:1: "{detour}" is not rooted at src/. '
                                  'Write #include "wire/wire.h"', f"tests/unit/a.cc:1: {found}")

    def test_an_include_of_a_file_outside_the_tree(self) -> None:
        (self.root.parent / "outside.h").write_text("", encoding="utf-8")
        self.write("src/base/base.cc", '#include "../../../outside.h"\n')
        self.assert_finds("src/base/base.cc:1: there is no src/../../../outside.h for ")

    def test_a_file_outside_all_modules(self) -> None:
        self.write("src/top.h", "")
        self.write("src/base/base.cc", '#include "top.h"\n')
        self.assert_finds("src/base/base.cc:1: base may not include top.h ",
                          "src/top.h: the file is not in a module. Move it ")

    def test_an_include_of_a_file_that_does_not_exist(self) -> None:
        self.write("src/base/base.cc", '#include "wire/gone.h"\n#include "gtest/gtest.h"\n')
        self.assert_finds("src/base/base.cc:1: there is no src/wire/gone.h for ",
                          "src/base/base.cc:2: there is no src/gtest/gtest.h for ")

    def test_a_generated_file_is_known_by_its_template(self) -> None:
        self.write("src/base/info.cc.in", "")
        self.write("src/base/base.cc", '#include "base/info.cc"\n')
        self.assert_passes("layers: 2 modules, 4 files, 2 includes, all as tools/layers.txt allows")

    def test_trees_may_include_every_module_and_themselves(self) -> None:
        self.write("tests/fuzz/target.h", '#include "wire/wire.h"\n')
        self.write("tests/fuzz/a.cc", '#include "base/base.h"\n#include "tests/fuzz/target.h"\n')
        self.write("bench/a.cc", '#include "base/base.h"\n')
        self.assert_passes("layers: 2 modules, 6 files, 6 includes, all as tools/layers.txt allows")

    def test_a_tree_may_not_include_another_tree(self) -> None:
        self.write("tests/target.h", "")
        self.write("bench/a.cc", '#include "tests/target.h"\n')
        self.assert_finds("bench/a.cc:1: bench/ may not include tests/ ")

    def test_a_module_may_not_include_a_tree(self) -> None:
        self.write("tests/target.h", "")
        self.write("src/base/base.cc", '#include "tests/target.h"\n')
        self.assert_finds("src/base/base.cc:1: there is no src/tests/target.h for ")

    def test_a_test_includes_even_its_neighbour_by_the_full_path(self) -> None:
        self.write("tests/fuzz/target.h", "")
        self.write("tests/fuzz/a.cc", '#include "target.h"\n')
        self.assert_finds('tests/fuzz/a.cc:1: "target.h" is not rooted at src/. '
                          'Write #include "tests/fuzz/target.h"')

    def test_a_module_and_a_tree_may_share_a_name(self) -> None:
        self.layers("wire:", "base: wire", "bench: wire")
        self.write("src/bench/bench.h", '#include "base/base.h"\n')
        self.write("bench/a.cc", '#include "base/base.h"\n')
        self.assert_finds("src/bench/bench.h:1: bench may not include base ")

    def test_a_cycle(self) -> None:
        self.layers("wire: base", "base: wire")
        self.assert_finds("tools/layers.txt:1: the layers have a cycle: wire -> base -> wire. ")

    def test_a_long_cycle_is_reported_once(self) -> None:
        self.layers("wire: io", "base: wire", "io: base")
        self.write("src/io/io.h", "")
        self.assert_finds("tools/layers.txt:1: the layers have a cycle: "
                          "wire -> io -> base -> wire. ")

    def test_invalid_lines(self) -> None:
        self.layers("wire:", "base: wire oi", "base: wire", "a line", "word", "two words: wire")
        self.assert_finds("tools/layers.txt:2: base may include oi, which has no line. ",
                          "tools/layers.txt:3: base is already on line 2. ",
                          "tools/layers.txt:4: cannot read 'a line'. ",
                          "tools/layers.txt:5: cannot read 'word'. ",
                          "tools/layers.txt:6: cannot read 'two words: wire'. ")

    def test_a_missing_list(self) -> None:
        (self.root / "tools/layers.txt").unlink()
        self.assert_finds("tools/layers.txt: the file is missing. ")

    def test_a_tree_without_sources_fails(self) -> None:
        shutil.rmtree(self.root / "src")
        self.write("tools/layers.txt", "")
        self.assert_finds("there are no files to check. Give the repository with --root")


class PreloadLayersTest(CheckTest):
    """Preload code of a module whose other code may include base."""

    script = "check_layers.py"

    def setUp(self) -> None:
        super().setUp()
        self.write("tools/layers.txt", "wire:\nbase: wire\nhook: wire\nstore: base wire\n")
        for header in ("wire/wire", "base/base", "hook/hook", "store/store"):
            self.write(f"src/{header}.h", "")
        self.write("src/store/preload/own.h", "")

    def test_wire_hook_and_itself_pass(self) -> None:
        self.write("src/store/preload/deep/open.cc", '#include "hook/hook.h"\n'
                   '#include "store/preload/own.h"\n#include "wire/wire.h"\n')
        self.assert_passes("layers: 4 modules, 6 files, 3 includes, all as tools/layers.txt allows")

    def test_other_modules_and_its_own_module_fail(self) -> None:
        self.write("src/store/preload/deep/open.cc",
                   '#include "base/base.h"\n#include "store/store.h"\n')
        rule = "preload code may include only wire, hook and src/store/preload/, not"
        self.assert_finds(f'src/store/preload/deep/open.cc:1: {rule} "base/base.h". It runs ',
                          f'src/store/preload/deep/open.cc:2: {rule} "store/store.h". It runs ')

    def test_the_rest_of_the_module_obeys_its_line(self) -> None:
        self.write("src/store/client.cc", '#include "base/base.h"\n#include "hook/hook.h"\n')
        self.assert_finds("src/store/client.cc:2: store may not include hook ")


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
        for path in ("bench/a.cc", "python/a.cc", "src/base/a.h", "tests/fuzz/a.cc"):
            self.write(path, f"void f() {{\n{LONG_BODY}}}\n")
        self.write("tools/a.py", "class A:\n    async def f(self):\n" + "        pass\n" * 70)
        self.assert_finds("bench/a.cc:1: ", "python/a.cc:1: ", "src/base/a.h:1: ", "tests/fuzz/a.cc:1: ",
                          "tools/a.py:2: a function of 71 lines; the limit is 70")

    def test_other_long_blocks_and_excused_functions_pass(self) -> None:
        self.write("src/base/a.cc", f"namespace a {{\nstruct S {{\n{LONG_BODY}}};\nint a[] = {{\n{LONG_BODY}}};\n"
                   f"}}  // namespace a\n// long-function: it is a table\nvoid f() {{\n{LONG_BODY}}}\n")
        self.write("tools/a.py", "def f():\n" + "    pass\n" * 69)
        self.assert_passes("functions: 2 files, no function above 70 lines")

    def test_a_file_that_is_not_python(self) -> None:
        self.write("tools/a.py", "x = 1\ndef f(:\n")
        self.assert_finds("tools/a.py:2: cannot read it: ")


def machine(folder: str, rest: str = "ann/x") -> str:
    """A path of one machine, assembled here so that this file passes the check of paths."""
    return f"/{folder}/{rest}"


class LinksTest(CheckTest):
    script = "check_links.py"

    def setUp(self) -> None:
        super().setUp()
        self.write("docs/guide.md", "# A guide\n\n## `a b`: what, and why?\n")

    def test_links_to_files_folders_and_headings_pass(self) -> None:
        self.write("README.md", "# Top\n[a](docs/guide.md) [b](docs/guide.md#a-b-what-and-why) [c](#top)\n"
                                "[d](docs/) [e](https://example.org/none.md#x) `[](auto) { return 1; }`\n")
        self.assert_passes("links: 4 links of 2 pages, all lead somewhere")

    def test_a_link_to_nothing_is_found(self) -> None:
        self.write("docs/other.md", "\n[a](../docs/gone.md)\n[b](guide.md#gone) [c](#gone)\n")
        self.assert_finds("docs/other.md:2: the link leads to ../docs/gone.md, which does not exist. Write",
                          "docs/other.md:3: guide.md has no heading #gone. Name",
                          "docs/other.md:3: this page has no heading #gone. Name")


class PathsTest(CheckTest):
    script = "check_paths.py"

    def assert_line(self, line: str, *found: str) -> None:
        self.write("notes.md", f"\n{line}\n")
        if found:
            self.assert_finds(*(f"notes.md:2: {path} is a path of one machine. Write it relative "
                                for path in found))
        else:
            self.assert_passes("paths: 1 text files and 0 binaries, "
                               "none with a path of one machine")

    def test_every_folder_of_one_machine(self) -> None:
        for folder in ("home", "root", "work", "Users", "mnt", "scratch", "opt", "srv",
                       "build"):
            with self.subTest(folder):
                self.assert_line(f"see {machine(folder)} there", machine(folder))

    def test_paths_are_found_wherever_they_can_start(self) -> None:
        path = machine("home")
        for before in ("", "\"", "'", "`", "(", "=", "x: ", "a:", ",", "cc -I", "-L", "\"-isystem",
                       "\"\\n", "f\"", "R\"("):
            with self.subTest(before):
                self.assert_line(f"{before}{path}", path)

    def test_two_paths_on_a_line_are_two_findings(self) -> None:
        first, second = machine("opt"), machine("mnt")
        self.assert_line(f"PATH={first}:{second}", first, second)

    def test_the_middle_of_something_else_passes(self) -> None:
        path = machine("mnt")
        for before in ("https://example.org", "a", "${VAR}", "$VAR", "$(pwd)", ".", "..", "build",
                       "\"$root\"", "\"${root}\"", "{}", "~", "<dir>", "@PREFIX@", "**", "%h",
                       "/var", "/usr/local"):
            with self.subTest(before):
                self.assert_line(f"x {before}{path} y")

    def test_system_paths_pass(self) -> None:
        for folder in ("proc", "sys", "dev", "etc", "usr", "tmp", "var", "bin", "lib"):
            with self.subTest(folder):
                self.assert_line(f"\"/{folder}/self/x\"")
        self.assert_line(machine("homely") + " " + machine("database"))

    def test_an_allowed_line_needs_a_reason(self) -> None:
        self.assert_line(f"x = {machine('opt')}  # path-check: allow, where Cray has its MPI")
        self.write("notes.md", f"x = {machine('opt')}  # path-check: allow\n")
        self.assert_finds("notes.md:1: `path-check: allow` gives no reason. Say why ")

    def test_a_reason_excuses_only_its_own_line(self) -> None:
        path = machine("opt")
        self.write("notes.md", f"{path} # path-check: allow, because\n{path}\n")
        self.assert_finds(f"notes.md:2: {path} is a path of one machine. ")

    def test_binary_files_and_patterns_of_git_pass(self) -> None:
        self.write("blob", "\0" + machine("home"))
        for patterns in (".dockerignore", ".gitattributes", ".gitignore", "docs/CODEOWNERS"):
            self.write(patterns, machine("build", ""))
        self.write("notes.md", "")
        self.assert_passes("paths: 1 text files and 0 binaries, none with a path of one machine")

    def test_a_link_out_of_the_tree(self) -> None:
        (self.root / "link").symlink_to(machine("mnt"))
        self.assert_finds(f"link:1: {machine('mnt')} is a path of one machine. ")
        (self.root / "link").unlink()
        (self.root / "link").symlink_to("notes.md")
        self.write("notes.md", "")
        self.assert_passes("paths: 2 text files and 0 binaries, none with a path of one machine")

    def test_a_tree_without_files_fails(self) -> None:
        self.assert_finds("there are no files to check. Give the repository with --root")


class TreeTest(CheckTest):
    """Which files count, tested with the check of paths, which reads all of them."""

    script = "check_paths.py"

    def setUp(self) -> None:
        super().setUp()
        self.write("good.md", "")

    def test_without_git_build_outputs_are_skipped(self) -> None:
        for path in ("build/a.txt", "__pycache__/a.txt", "src/__pycache__/a.txt", ".git/a.txt"):
            self.write(path, machine("home"))
        self.write("src/build/a.txt", machine("home"))
        self.assert_finds("src/build/a.txt:1: ")

    def test_tracked_and_new_files_count_and_ignored_ones_do_not(self) -> None:
        self.git("init", "-q")
        self.write(".gitignore", "ignored.txt\n")
        for path in ("ignored.txt", "new.txt", "tracked.txt"):
            self.write(path, machine("home"))
        self.git("add", "tracked.txt")
        self.assert_finds("new.txt:1: ", "tracked.txt:1: ")

    def test_variables_of_a_git_hook_are_ignored(self) -> None:
        self.git("init", "-q")
        self.write(".gitignore", "forced.txt\nignored.txt\n")
        self.write("forced.txt", machine("home"))
        self.write("ignored.txt", machine("home"))
        self.git("add", "-f", "forced.txt")
        for variable in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
            with self.subTest(variable):
                _, output = self.run_check(**{variable: str(self.root.parent / "other")})
                self.assertEqual([line.split(":")[0] for line in output.splitlines()],
                                 ["forced.txt"])

    def test_a_deleted_tracked_file_is_skipped(self) -> None:
        self.git("init", "-q")
        self.write("gone.txt", machine("home"))
        self.git("add", ".")
        (self.root / "gone.txt").unlink()
        self.assert_passes("paths: 1 text files and 0 binaries, none with a path of one machine")

    def test_an_unpacked_tree_inside_an_unrelated_checkout_is_walked(self) -> None:
        subprocess.run(["git", "init", "-q", str(self.root.parent)], check=True)
        (self.root.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        self.write("bad.txt", machine("home"))
        self.assert_finds("bad.txt:1: ")

    def test_a_root_that_is_not_a_directory_is_wrong_usage(self) -> None:
        self.root = self.root / "nowhere"
        status, output = self.run_check()
        self.assertEqual(status, 2)
        self.assertIn("nowhere is not a directory", output)


class BinaryPathsTest(CheckTest):
    script = "check_paths.py"

    def setUp(self) -> None:
        super().setUp()
        self.write("notes.md", "")
        self.binary = self.root.parent / "program"

    def test_the_root_in_a_binary(self) -> None:
        self.binary.write_bytes(b"\0ab" + os.fsencode(self.root) + b"/src/a.cc\0")
        self.assert_finds(f"{self.binary}: byte 3 has {self.root}, the path of the sources ",
                          arguments=("--binary", str(self.binary)))

    def test_only_relative_paths_and_other_roots_pass(self) -> None:
        self.binary.write_bytes(b"\0src/a.cc\0" + os.fsencode(self.root) + b"2/src/a.cc\0")
        self.assert_passes("paths: 1 text files and 1 binaries, none with a path of one machine",
                           "--binary", str(self.binary))

    def test_a_root_of_one_folder_is_found_only_where_a_path_starts(self) -> None:
        # Tests the function: a test cannot make a tree at the root of the file system.
        pattern = check_paths.root_pattern(Path("/src"))
        self.assertTrue(pattern.search(b"\0/src/a.cc"))
        self.assertFalse(pattern.search(b"\0lib/src/a.cc"))
        self.assertFalse(pattern.search(b"\0../src/a.cc"))

    def test_every_binary_is_read_and_none_may_be_missing(self) -> None:
        self.binary.write_bytes(b"")
        missing = str(self.binary) + "2"
        self.assert_finds(f"{missing}: there is no such file. Build it first",
                          arguments=("--binary", str(self.binary), missing))


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
        for first in ("// Clock: how time is told.", "// A sentence of five words.",
                      "// Date: how a day is written.", "// Table: aligned columns."):
            with self.subTest(first):
                self.header(first, "#pragma once")
                self.assert_passes("headers: 2 headers of 1 modules, each with its opening comment")

    def test_a_header_that_does_not_begin_with_a_comment(self) -> None:
        for first in ("#include <string>", "", "/* Clock: how time is told. */"):
            with self.subTest(first):
                self.header(first, "// Clock: how time is told.", "#pragma once")
                self.assert_finds("src/base/a.h:1: the header does not begin with a // comment. ")

    def test_a_first_line_that_says_nothing(self) -> None:
        for first in ("// Clock", "// Clock:", "// Clock: time.", "// This is a clock",
                      "// -------------- a - b - c"):
            with self.subTest(first):
                self.header(first, "#pragma once")
                self.assert_finds(f"src/base/a.h:1: the first line, '{first[3:]}', does not say ")

    def test_a_header_without_pragma_once(self) -> None:
        self.header("// Clock: how time is told.", "// #pragma once")
        self.assert_finds("src/base/a.h:1: the header lacks #pragma once. Put it ")

    def test_a_source_that_includes_another_header_before_its_own(self) -> None:
        self.header("// Clock: how time is told.", "#pragma once")
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
                    self.header("// Clock: how time is told.", "#pragma once")
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
        paths = ["bench/a.cc", "python/a.cc", "src/base/a.h", "tests/a.cc"]
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


class PageCheckTest(CheckTest):
    script = "check_page.py"

    def setUp(self) -> None:
        super().setUp()
        self.write("src/report/page/src/main.ts", "let a = 1;\n")
        self.write("src/report/page/package.json", "{}\n")
        self.write(".gitignore", "node_modules/\n")
        self.git("init", "-q")
        self.write("src/report/page/node_modules/uplot/LICENSE", "the licence\n")
        self.build("let a=1;")

    def build(self, script: str) -> None:
        """Like tools/build_page.sh: makes a page as a bundler would, then stamps it."""
        self.write("src/report/page/dist/index.html", "<!--millrace:head-->\n<script type=\"module\" crossorigin>"
                   f"{script}</script>\n<!--millrace:data-->\n")
        self.run_check("--stamp")

    def test_an_up_to_date_page_passes(self) -> None:
        self.assert_passes("page: src/report/page/dist/index.html is up to date with its 2 sources")
        self.assertIn("the licence", self.read("src/report/page/dist/index.html"))

    def test_a_forgotten_rebuild(self) -> None:
        self.write("src/report/page/src/main.ts", "let a = 2;\n")
        self.assert_finds("src/report/page/dist/index.html: it was not built from the current sources")

    def test_a_new_source_without_a_rebuild(self) -> None:
        self.write("src/report/page/src/new.ts", "")
        self.assert_finds("src/report/page/dist/index.html: it was not built from the current sources")

    def test_a_built_page_that_was_edited_by_hand(self) -> None:
        page = self.read("src/report/page/dist/index.html")
        self.write("src/report/page/dist/index.html", page.replace("let a=1", "let a=3"))
        self.assert_finds("src/report/page/dist/index.html: its script does not match the hash")

    def test_a_page_without_a_placeholder_for_data(self) -> None:
        page = self.read("src/report/page/dist/index.html")
        self.write("src/report/page/dist/index.html", page.replace("<!--millrace:data-->", ""))
        self.assert_finds("src/report/page/dist/index.html: it has 0 placeholders for data")

    def test_a_page_that_was_never_built(self) -> None:
        (self.root / "src/report/page/dist/index.html").unlink()
        self.assert_finds("src/report/page/dist/index.html: the file is missing. Run tools/build_page.sh")


class ProfileSchemaTest(CheckTest):
    script = "profile_schema.py"
    schema = "src/analyze/profile/profile.schema"

    def setUp(self) -> None:
        super().setUp()
        for path in (self.schema, "docs/formats/report.md"):
            self.write(path, (TOOLS.parent / path).read_text(encoding="utf-8"))
        (self.root / "src/report/page/src").mkdir(parents=True)
        self.assertEqual(self.run_check()[0], 0)

    def test_files_that_were_just_written_pass(self) -> None:
        self.assertEqual(self.run_check("--check")[0], 0)

    def test_a_new_field_is_in_all_files_after_a_run(self) -> None:
        schema = self.read(self.schema)
        self.write(self.schema, schema + "added u64=-1 ns new\n")
        self.assert_finds("docs/formats/report.md: it differs from", "src/analyze/profile/profile_structs.h: it",
                          "src/report/page/src/profile.ts: it differs", arguments=("--check",))
        self.assertEqual(self.run_check()[0], 0)
        self.assertIn("  uint64_t added = -1;  // new\n", self.read("src/analyze/profile/profile_structs.h"))
        self.assertIn("  added: number;  // new\n", self.read("src/report/page/src/profile.ts"))
        self.assertIn("| `added` | number | ns | new |\n", self.read("docs/formats/report.md"))

    def test_a_line_that_cannot_be_read(self) -> None:
        self.write(self.schema, "struct A\n> What it is.\na u63 - number\nb u64 miles number\nc u64 -\n")
        self.assert_finds(f"{self.schema}:3: cannot read 'a u63 - number'", f"{self.schema}:4: ",
                          f"{self.schema}:5: ")


if __name__ == "__main__":
    unittest.main()
