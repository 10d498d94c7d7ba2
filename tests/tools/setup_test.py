#!/usr/bin/env python3
"""tools/setup.sh on other machines: another distribution, without root, with everything installed."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
NEEDED = ("bash", "c++", "sed", "id", "env", "cat", "dirname")


class SetupTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.programs = Path(holder.name) / "programs"
        self.programs.mkdir()
        self.packages = Path(holder.name) / "packages.txt"
        for name in NEEDED:
            (self.programs / name).symlink_to(shutil.which(name))

    def add_program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def ensure(self, *groups: str, packages: str) -> subprocess.CompletedProcess:
        """Runs ensure_packages with a PATH that has only the programs of this test."""
        self.packages.write_text(packages)
        code = f"set -euo pipefail; . tools/setup.sh; ensure_packages {' '.join(groups)}; echo continued"
        environment = os.environ | {"PATH": str(self.programs), "packages_file": str(self.packages)}
        return subprocess.run(["bash", "-c", code, "./quickstart"], cwd=SOURCE, env=environment,
                              capture_output=True, text=True, check=False)

    def test_on_another_distribution_missing_packages_are_listed_by_what_they_provide(self):
        done = self.ensure("core", packages=(
            "# comment\n"
            "core | g++ | command:c++ | a compiler\n"
            "core | libnone-dev | header:no/such.h | the library none\n"
            "core | none-bin | command:no-such-program | the tool none\n"
            "test | other | command:no-other-program | not asked for\n"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("the library none (on Debian: libnone-dev)", done.stderr)
        self.assertIn("the tool none (on Debian: none-bin)", done.stderr)
        self.assertIn("preset minimal", done.stderr)
        self.assertNotIn("a compiler", done.stderr)
        self.assertNotIn("not asked for", done.stderr)
        self.assertNotIn("continued", done.stdout)

    def test_another_distribution_with_everything_installed_continues(self):
        done = self.ensure("core", packages="core | x | header:vector | vectors\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "continued\n", ""))

    def test_a_python_module_is_found_by_importing_it(self):
        self.add_program("python3", f"exec {sys.executable} \"$@\"")
        done = self.ensure("test", packages=("test | x | python:json | json\n"
                                             "test | y | python:no_such_module | the module none\n"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("the module none (on Debian: y)", done.stderr)
        self.assertNotIn("json", done.stderr)

    def test_a_file_is_found_by_its_path(self):
        done = self.ensure("test", packages=(f"test | x | file:{self.packages} | the list\n"
                                             "test | y | file:/no/such/file | the data none\n"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("the data none (on Debian: y)", done.stderr)
        self.assertNotIn("the list", done.stderr)

    def test_debian_installs_only_what_is_missing_without_recommends(self):
        self.add_program("dpkg-query", "echo installed present; echo config-files removed")
        self.add_program("apt-get", "echo apt-get \"$@\" >&2")
        self.add_program("sudo", 'exec "$@"')
        done = self.ensure("core", "test", packages=(
            "core | present | command:no-such-program | a\n"
            "core | removed | command:no-such-program | b\n"
            "test | other | command:no-such-program | c\n"
            "python | unasked | command:no-such-program | d\n"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--no-install-recommends removed other", done.stderr)
        self.assertNotIn("present", done.stderr)
        self.assertNotIn("unasked", done.stderr)
        self.assertIn("continued", done.stdout)

    def test_a_failed_install_stops(self):
        self.add_program("dpkg-query", "true")
        self.add_program("apt-get", "[ \"$1\" = update ]")
        self.add_program("sudo", 'exec "$@"')
        done = self.ensure("core", packages="core | x | command:no-such-program | a\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get could not install: x", done.stderr)

    def test_a_user_without_root_or_sudo_gets_an_error(self):
        self.add_program("dpkg-query", "true")
        self.add_program("apt-get", "true")
        (self.programs / "id").unlink()
        self.add_program("id", "echo 1000")
        done = self.ensure("core", packages="core | x | command:no-such-program | a\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("this needs root", done.stderr)

    def test_the_real_list_is_well_formed(self):
        lines = [line for line in (SOURCE / "tools/packages.txt").read_text().splitlines()
                 if line.strip() and not line.startswith("#")]
        self.assertGreater(len(lines), 5)
        for line in lines:
            group, package, probe, provides = (field.strip() for field in line.split("|"))
            self.assertIn(group, ("core", "python", "example", "test", "wheel"), line)
            self.assertRegex(package, r"^[a-z0-9.+-]+$")
            self.assertRegex(probe, r"^(command|header|python|file):\S+$")
            self.assertTrue(provides, line)

    def test_a_wrong_option_of_quickstart_is_wrong_usage(self):
        done = subprocess.run(["./quickstart", "--fast"], cwd=SOURCE, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown option '--fast'", done.stderr)


if __name__ == "__main__":
    unittest.main()
