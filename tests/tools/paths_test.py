#!/usr/bin/env python3
"""Tests of tools/check_paths.py and tools/check_links.py."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from check_case import TOOLS, CheckTest, machine

sys.path.insert(0, str(TOOLS))
sys.dont_write_bytecode = True

import check_paths  # noqa: E402  (it is in tools/, on the path above)


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


if __name__ == "__main__":
    unittest.main()
