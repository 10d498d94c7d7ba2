#!/usr/bin/env python3
"""Tests of tools/check_imports.py."""

import unittest

from check_case import CheckTest


class ImportsTest(CheckTest):
    script = "check_imports.py"

    def setUp(self) -> None:
        super().setUp()
        self.write("python/millrace/__init__.py", "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from millrace import a\n")
        self.write("python/millrace/a.py", "import os\nfrom millrace import _native\nfrom millrace.lab import b\n")
        self.write("python/millrace/lab/__init__.py", "")
        self.write("python/millrace/lab/b.py", "from . import c\n")
        self.write("python/millrace/lab/c.py", "")

    def test_a_tree_without_a_cycle_passes(self) -> None:
        self.assert_passes("imports: 5 modules, no cycle")

    def test_an_import_inside_a_function_closes_a_cycle(self) -> None:
        self.write("python/millrace/lab/c.py", "def late():\n    from millrace.a import name\n")
        self.assert_finds("python/millrace/a.py:3: an import cycle: millrace.a -> millrace.lab.b -> millrace.lab.c -> "
                          "millrace.a. Move ")

    def test_a_relative_import_closes_a_cycle(self) -> None:
        self.write("python/millrace/lab/c.py", "from .b import name\n")
        self.assert_finds("python/millrace/lab/b.py:1: an import cycle: millrace.lab.b -> millrace.lab.c -> ")

    def test_a_package_and_its_module(self) -> None:
        self.write("python/millrace/lab/__init__.py", "from millrace.lab.b import name\n")
        self.write("python/millrace/lab/b.py", "import millrace.lab\n")
        self.assert_finds("python/millrace/lab/b.py:1: an import cycle: millrace.lab.b -> millrace.lab -> ")

    def test_an_empty_tree_fails(self) -> None:
        (self.root / "python").rename(self.root / "elsewhere")
        self.assert_finds("there are no files to check. ")


if __name__ == "__main__":
    unittest.main()
