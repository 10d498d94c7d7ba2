#!/usr/bin/env python3
"""Tests of tools/unity_groups.py: which sources may be compiled as one."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent.parent / "tools/unity_groups.py"


def in_millrace(*lines: str) -> str:
    return "\n".join(("namespace millrace {", *lines, "}  // namespace millrace", ""))


class UnityGroupsTest(unittest.TestCase):
    def groups(self, *texts: str) -> list[int]:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / f"{number}.cc" for number in range(len(texts))]
            for file, text in zip(files, texts):
                file.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, "-B", str(TOOL), "1500", *map(str, files)],
                                  capture_output=True, text=True, check=True)
        return [int(number) for number in done.stdout.split()]

    def assert_apart(self, one: str, other: str) -> None:
        self.assertEqual(self.groups(one, other), [0, 1])
        self.assertEqual(self.groups(other, one), [0, 1])

    def test_unrelated_files_are_one_group(self):
        self.assertEqual(self.groups(in_millrace("namespace {", "int one() { return 1; }", "}"),
                                     in_millrace("int two() { return 2; }"), "int three;\n"), [0, 0, 0])

    def test_a_private_name_that_is_a_word_of_another_file_separates_them(self):
        other = in_millrace("int use() { return kMs + read(3) + Key{}.x; }")
        for private in ("constexpr int kMs = 1;", "int read(int x) { return x; }", "struct Key { int x; };",
                        "template <class T>\nstruct Key {\n  T x;\n};", "enum class Key : int { kA };",
                        "using Key = int;", "class Key final : public Base {};",
                        "std::vector<int> read(const Other& other);", "[[maybe_unused]] int kMs[] = {1};"):
            with self.subTest(private):
                self.assert_apart(in_millrace("namespace {", private, "}"), other)
        self.assert_apart(in_millrace("static int read(int x) { return x; }"), other)
        self.assert_apart("#define kMs 1\n", other)
        self.assert_apart(in_millrace("using query::Key;"), other)
        self.assert_apart(in_millrace("using query::Key;"), in_millrace("using cli::Key;"))

    def test_importing_the_same_name_from_the_same_scope_does_not_separate(self):
        text = in_millrace("using query::Key;", "int use(Key key);")
        self.assertEqual(self.groups(text, text), [0, 0])

    def test_after_a_body_with_braces_the_next_name_is_still_found(self):
        one = in_millrace("namespace {", "int a() { if (true) { return 1; } return '}'; }", "int read();", "}")
        self.assert_apart(one, in_millrace("int b() { return read(); }"))

    def test_members_and_names_of_other_scopes_are_not_words(self):
        one = in_millrace("namespace {", "int read(int x) { return x; }", "}")
        other = in_millrace("int use(File& f, File* p) { return f.read() + p->read() + ::read(1) + std::read(2); }")
        self.assertEqual(self.groups(one, other), [0, 0])

    def test_public_names_do_not_separate(self):
        self.assertEqual(self.groups(in_millrace("int shared() { return 1; }"),
                                     in_millrace("int use() { return shared(); }")), [0, 0])

    def test_bases_tests_and_members_are_not_private_names(self):
        one = in_millrace("namespace {", "class Mine : public Metric { int count() { return 1; } };",
                          "void Mine::finish() {}", "TEST(Suite, DoesSo) {}", "using testing::HasSubstr;", "}")
        other = in_millrace("namespace {", "class Yours : public Metric { int count() { return finish(); } };",
                            "TEST(Suite, DoesMore) { HasSubstr(); }", "}")
        self.assertEqual(self.groups(one, other), [0, 0])

    def test_the_size_of_a_group_is_limited(self):
        self.assertEqual(self.groups("\n" * 1000, "\n" * 1000, "\n" * 400), [0, 1, 0])


if __name__ == "__main__":
    unittest.main()
