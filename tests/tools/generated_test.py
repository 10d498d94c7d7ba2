#!/usr/bin/env python3
"""Tests of tools/check_page.py and tools/profile_schema.py."""

import unittest

from check_case import TOOLS, CheckTest


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
        self.assertIn("| `added` | ns | new |\n", self.read("docs/formats/report.md"))

    def test_a_line_that_cannot_be_read(self) -> None:
        self.write(self.schema, "struct A\n> What it is.\na u63 - number\nb u64 miles number\nc u64 -\n")
        self.assert_finds(f"{self.schema}:3: cannot read 'a u63 - number'", f"{self.schema}:4: ",
                          f"{self.schema}:5: ")


if __name__ == "__main__":
    unittest.main()
