"""What the tests of the source checks share: a small tree in which each rule is broken once.

Every check runs as a program with --root, as users run it; the tests look at its exit status and its output.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"


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


def machine(folder: str, rest: str = "ann/x") -> str:
    """A path of one machine, assembled here so that this file passes the check of paths."""
    return f"/{folder}/{rest}"
