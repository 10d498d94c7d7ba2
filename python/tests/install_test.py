#!/usr/bin/env python3
"""pip install . without network, into an environment of its own: what is installed works there."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["MILLRACE_SOURCE"])
# Not this process's: the package must be found where it was installed.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

PROGRAM = """\
from millrace import trace
with trace.region("fetch"):
    open("data.bin", "w").write("x")
print(trace.enabled(), trace.__file__)
"""


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        # Debian's setuptools and wheel, as --no-build-isolation takes them.
        cls.run_command(sys.executable, "-m", "venv", "--system-site-packages", cls.folder / "venv")
        cls.python = cls.folder / "venv" / "bin" / "python"
        # A copy, so that nothing is written into the tree and nothing of it is used by chance.
        files = cls.run_command("git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others",
                                "--exclude-standard").stdout.split("\0")
        for file in filter(None, files):
            if (SOURCE / file).is_file():
                target = cls.folder / "source" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((SOURCE / file).read_bytes())
        cls.run_command(cls.python, "-m", "pip", "install", "--no-build-isolation", "--no-index",
                        "--no-deps", cls.folder / "source", MILLRACE_PRELOAD="1")

    @classmethod
    def run_command(cls, *command, **environment) -> subprocess.CompletedProcess:
        done = subprocess.run([str(word) for word in command], cwd=cls.folder, text=True,
                              env=ENVIRONMENT | environment, capture_output=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def test_the_package_works_and_carries_its_library(self):
        (self.folder / "program.py").write_text(PROGRAM)
        done = self.run_command(self.python, "program.py")
        self.assertTrue(done.stdout.startswith(f"False {self.folder}/venv/"), done.stdout)
        done = self.run_command(self.python, "-m", "millrace.trace", "-o", "trace", "program.py",
                                PATH="/usr/bin:/bin")
        self.assertTrue(done.stdout.startswith("True "), done.stdout)
        self.assertEqual(len(list(self.folder.glob("trace/**/session"))), 1)

    def test_types_and_version_come_along(self):
        listed = self.run_command(self.python, "-m", "pip", "show", "-f", "millrace").stdout
        for file in ("millrace/py.typed", "millrace/_trace.pyi", "millrace/trace/_site/sitecustomize.py"):
            self.assertIn(file, listed)
        told = self.run_command(self.python, "-c", "import millrace; print(millrace.__version__)")
        self.assertIn(f"Version: {told.stdout.strip()}\n", listed)


if __name__ == "__main__":
    unittest.main()
