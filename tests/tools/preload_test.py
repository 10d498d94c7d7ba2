#!/usr/bin/env python3
"""Tests of tools/check_preload.py: a good library passes, and each kind of violation is found."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent.parent.parent / "tools" / "check_preload.py"

GOOD = 'extern "C" int read_something(int fd) { return fd + 1; }\n'
EXPORTS = "# a comment\n{ global: read_something; local: *; };\n"


class PreloadCheck(unittest.TestCase):
    def check(self, source, exports=EXPORTS, script=EXPORTS, link=("-nodefaultlibs", "-lc", "-lgcc")):
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "lib.so")
            for name, text in (("lib.cc", source), ("exports.map", exports), ("script.map", script)):
                Path(folder, name).write_text(text, encoding="utf-8")
            subprocess.run(["c++", "-std=c++20", "-O1", "-fPIC", "-shared", "-o", library, "lib.cc", *link,
                            "-Wl,--version-script=script.map"], cwd=folder, check=True)
            done = subprocess.run([sys.executable, str(CHECK), library, os.path.join(folder, "exports.map")],
                                  capture_output=True, text=True, check=False)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stderr

    def assert_found(self, words, *arguments, **options):
        status, output = self.check(*arguments, **options)
        self.assertEqual(status, 1)
        self.assertIn(words, output)

    def test_a_good_library_passes(self):
        self.assertEqual(self.check(GOOD), (0, ""))

    def test_the_heap_is_found(self):
        self.assert_found("it calls malloc", '#include <stdlib.h>\nextern "C" void* read_something(int n) '
                                             '{ return malloc(n); }\n')

    def test_stdio_is_found(self):
        self.assert_found("it calls ", '#include <stdio.h>\nextern "C" int read_something(int n) '
                                       '{ return printf("%d %s", n, "x"); }\n')

    def test_the_cplusplus_runtime_is_found(self):
        self.assert_found("it needs libstdc++", '#include <string>\nextern "C" int read_something(int n) '
                                                '{ return (int)std::to_string(n).size(); }\n', link=())

    def test_exit_is_found(self):
        self.assert_found("it calls exit", '#include <stdlib.h>\nextern "C" void read_something(int n) { exit(n); }\n')

    def test_another_library_is_found(self):
        self.assert_found("it needs libm.so.6", '#include <math.h>\nextern "C" double read_something(double n) '
                                                '{ return cbrt(n); }\n', link=("-nodefaultlibs", "-lm", "-lc", "-lgcc"))

    def test_an_extra_symbol_is_found(self):
        self.assert_found("more is exported, but not listed", GOOD + 'extern "C" int more() { return 1; }\n',
                          script="{ global: read_something; more; local: *; };")

    def test_a_missing_symbol_is_found(self):
        self.assert_found("other is listed", GOOD, exports="{ global: read_something; other; local: *; };")


if __name__ == "__main__":
    unittest.main()
