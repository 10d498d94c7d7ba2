"""What the tests of this folder share. They compare files of samples with other readers and writers: these read what we
write, and we read what they write.

Usage: NAME_test.py FORMAT_SAMPLES [unittest arguments]
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy

PROGRAM = sys.argv[1]
GOLDEN = Path(__file__).resolve().parent.parent / "golden"
IMAGES = [[[i, i + 1, i + 2], [i + 3, i + 4, i + 5]] for i in range(3)]


def run(*words) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=100, check=False)


class FormatTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def ours(self, name: str, form: str, option="-") -> Path:
        done = run("write", form, option, self.folder / name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / name

    def read(self, form: str, *files, option="-") -> list[dict]:
        done = run("read", form, option, *files)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def refused(self, form: str, file, option="-") -> str:
        done = run("read", form, option, file)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(str(file), done.stderr)
        return done.stderr


def array_of(field: dict):
    shape = json.loads(field["shape"])
    return numpy.frombuffer(bytes.fromhex(field["bytes"]), field["type"]).reshape(shape)


def main() -> None:
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
