#!/usr/bin/env python3
"""The preset `minimal`: the core builds without any part, says so, and refuses what needs one."""

import gzip
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["MILLRACE_SOURCE"])
# A separate folder, because it is not optimised (docs/design/tests.md). Each file is compiled separately with all
# warnings, unlike in other presets.
BUILD = SOURCE / "build/minimal-test"


class MinimalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.configured = subprocess.run(["cmake", "--preset", "minimal", "-B", BUILD, "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON",
                                         "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG"],
                                        cwd=SOURCE, capture_output=True, text=True, check=False)
        cls.built = subprocess.run(["cmake", "--build", BUILD, "--parallel", str(os.cpu_count())],
                                   capture_output=True, text=True, check=False)

    def millrace(self, *arguments: str) -> subprocess.CompletedProcess:
        program = BUILD / "bin/millrace"
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)

    def test_it_builds_and_says_which_parts_are_off_and_why(self):
        self.assertEqual(self.configured.returncode, 0, self.configured.stderr)
        self.assertEqual(self.built.returncode, 0, self.built.stdout + self.built.stderr)
        self.assertIn("part yaml: off (switched off when this was built (MILLRACE_YAML=OFF))",
                      self.configured.stdout)

    def test_the_program_lists_the_parts_that_are_off(self):
        version = self.millrace("--version")
        self.assertEqual(version.returncode, 0)
        self.assertIn("off yaml: YAML workload and configuration files (switched off", version.stdout)

    def test_the_core_works(self):
        self.assertEqual(self.millrace("doctor").returncode, 0)

    def test_it_links_no_optional_library(self):
        linked = subprocess.run(["ldd", BUILD / "bin/millrace"], capture_output=True,
                                text=True, check=True).stdout
        self.assertNotIn("yaml", linked)
        self.assertNotIn("libz.", linked)
        self.assertNotIn("sqlite", linked)
        self.assertNotIn("lz4", linked)

    def test_sql_is_refused_with_the_next_step(self):
        refused = self.millrace("query", str(SOURCE / "tests/golden/trace.mrt"), "select 1")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("libsqlite3-dev", refused.stderr)
        self.assertEqual(self.millrace("query", "--schema").returncode, 0)

    def test_packs_are_made_without_lz4_and_those_with_it_refused_with_the_next_step(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source"
            source.mkdir()
            (source / "text").write_text("line of a text\n" * 10000)
            refused = self.millrace("store", "pack", str(source), "-o", f"{folder}/p", "--codec", "lz4")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("install liblz4-dev and build again", refused.stderr)
            taken = self.millrace("store", "pack", str(source), "-o", f"{folder}/p")
            self.assertIn("1 file is compressed", taken.stdout)
            self.assertEqual(self.millrace("store", "verify", f"{folder}/p").returncode, 0)

    def test_compressed_traces_are_refused_with_the_next_step_and_plain_ones_accepted(self):
        with tempfile.TemporaryDirectory() as folder:
            golden = SOURCE / "tests/golden/dftracer_1.pfw"
            packed = Path(folder) / "t.pfw.gz"
            packed.write_bytes(gzip.compress(golden.read_bytes()))
            refused = self.millrace("import", str(packed), "-o", f"{folder}/a")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("install zlib (zlib1g-dev) and build again", refused.stderr)
            taken = self.millrace("import", str(golden), "-o", f"{folder}/b")
            self.assertIn("9 events", taken.stdout)


if __name__ == "__main__":
    unittest.main()
