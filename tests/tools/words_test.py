#!/usr/bin/env python3
"""Tests of tools/check_words.py."""

import unittest

from check_case import CheckTest

PASSED = "words: 1 files, in plain English"


class WordsTest(CheckTest):
    script = "check_words.py"

    def assert_text(self, text: str, *found: str) -> None:
        """Expects these words to be found in a paragraph."""
        self.write("notes.md", f"\n{text}\n")
        if found:
            self.assert_finds(*(f"notes.md:2: the words '{words}' make a reader stop. " for words in found))
        else:
            self.assert_passes(PASSED)

    def test_words_without_a_proper_use_are_found(self) -> None:
        for text, found in (("The bytes that were brought.", "brought"), ("The host told it.", "told"),
                            ("Reads hidden behind compute.", "hidden behind"), ("A copy is dear.", "dear"),
                            ("It depends upon it.", "upon"), ("It shall end.", "shall"),
                            ("The means whereby it ends.", "whereby")):
            with self.subTest(text):
                self.assert_text(text, found)

    def test_constructions_are_found(self) -> None:
        for text, found in (("It starts so many ranks.", "starts so many"), ("So many of them were read.", "So many of"),
                            ("The loader whose way of reading it has.", "whose way"),
                            ("It says what of this machine Millrace can use.", "of this machine Millrace"),
                            ("A change of less is none.", "is none"), ("Where there is no rank, it ends.", "Where there is no"),
                            ("The bytes are nowhere.", "are nowhere"), ("It has nobody to wait for.", "has nobody"),
                            ("The name ends alike.", "ends alike"), ("It waits longer than it is told.", "than it is told")):
            with self.subTest(text):
                expected = [found, "told"] if found.endswith("told") else [found]
                self.assert_text(text, *sorted(expected, key=len))

    def test_proper_uses_pass(self) -> None:
        for text in ("What brought the cost down was one table.", "The two cannot be told apart.", "It is told to end.",
                     "There is none.", "So many ranks started that the host was slow.", "It is none of these.",
                     "Of the first steps, some do not count.", "Of course.", "A flame-told class.", "With `told` in code."):
            with self.subTest(text):
                self.assert_text(text)

    def test_a_construction_is_found_across_lines(self) -> None:
        self.write("src/base/a.h", "// It runs with so\n// many ranks.\nint a;\n")
        self.assert_finds("src/base/a.h:1: the words 'with so many' make a reader stop. Write N, ")

    def test_the_line_is_that_of_the_words(self) -> None:
        self.write("a.md", "# Title\n\nA line.\nThe bytes were brought.\n")
        self.assert_finds("a.md:4: the words 'brought' make a reader stop. Write fetched, ")

    def test_comments_and_messages_are_read_but_names_are_not(self) -> None:
        self.write("src/base/a.cc", 'int told = 0;\n/* brought */\nauto b = "it was " /* c */ "dear";\nauto c = f(told);\n')
        self.assert_finds("src/base/a.cc:2: the words 'brought' ", "src/base/a.cc:3: the words 'dear' ")
        (self.root / "src/base/a.cc").unlink()
        self.write("a.py", 'told = 1\nx = f"{told} {y}"\ny = "brought"  # it shall end\n')
        self.assert_finds("a.py:3: the words 'brought' ", "a.py:3: the words 'shall' ")
        (self.root / "a.py").unlink()
        self.write("a.sh", "told=1  # dear\n")
        self.assert_finds("a.sh:1: the words 'dear' ")

    def test_neighbouring_literals_are_one_message(self) -> None:
        self.write("src/a.cc", 'auto a = "start with so "\n         "many ranks";\n')
        self.assert_finds("src/a.cc:1: the words 'with so many' ")

    def test_a_text_that_begins_with_of_is_found(self) -> None:
        self.write("src/a.h", "// Of one rank.\nint a();\n\nint b;  // of one rank\n")
        self.assert_finds("src/a.h:1: the words 'Of one rank.' make a reader stop. Begin with ")

    def test_code_in_markdown_is_not_text(self) -> None:
        self.write("a.md", "Text.\n\n    it was brought\n\n```\nit was brought\n```\n")
        self.assert_passes(PASSED)

    def test_empty_type_names_are_found(self) -> None:
        for name in ("FileHelper", "PathUtils", "PoolManager", "EventHandler"):
            with self.subTest(name):
                self.write("src/a.h", f"// class {name} in a comment\nclass {name};\n{name} a;\n")
                self.assert_finds(f"src/a.h:2: the name {name} does not say what it is. Find the noun")

    def test_a_name_of_posix_passes(self) -> None:
        self.write("src/a.h", "using SignalHandler = void (*)(int);\n")
        self.assert_passes(PASSED)

    def test_an_empty_tree_fails(self) -> None:
        self.assert_finds("there are no files to check. ")


if __name__ == "__main__":
    unittest.main()
