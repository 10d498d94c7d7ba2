#!/usr/bin/env python3
"""The C++ guide to the loader shows code that is compiled, and that code works."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["MILLRACE_SOURCE"])
EXAMPLE = Path(os.environ["MILLRACE_BUILD"]) / "bin" / "loader_example"
GUIDE = (SOURCE / "docs/guide/loader-cpp.md").read_text()
CODE = (SOURCE / "tests/loader/example.cc").read_text()


def marked(name: str) -> str:
    """The text between the marks, without its indentation."""
    part = re.search(rf"// \[{name}\n(.*?)[ ]*// {name}\]", CODE, re.DOTALL).group(1)
    return re.sub(r"^  ", "", part, flags=re.MULTILINE) if part.startswith("  ") else part


def code_blocks() -> list[str]:
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", GUIDE, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n") for block in blocks]


def run_example(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([EXAMPLE, *arguments], capture_output=True, text=True, timeout=60, check=False)


def make_dataset(directory: str) -> None:
    for label in ("cat", "dog"):
        (Path(directory) / label).mkdir()
        for i in range(10):
            (Path(directory) / label / f"{i}.bin").write_bytes(bytes([i * 16 + len(label)] * 16))


class Guide(unittest.TestCase):
    def test_shows_the_program_that_was_compiled(self):
        for name in ("guide", "shard", "restore"):
            self.assertIn(marked(name).strip("\n"), code_blocks(), f"the part '{name}'")

    def test_the_program_trains_and_resumes_in_mid_epoch(self):
        with tempfile.TemporaryDirectory() as directory:
            make_dataset(directory)
            done = run_example(directory)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = done.stdout.splitlines()
            whole, resumed = lines[:lines.index("resumed")], lines[lines.index("resumed") + 1:-1]
            self.assertEqual(len(whole), 6)
            self.assertEqual(resumed, whole[4:])  # the second epoch except its first batch
            self.assertRegex(lines[-1], r"^40 samples by \d+ threads$")

    def test_the_program_holds_its_samples_and_resumes_with_them(self):
        with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as storage:
            make_dataset(directory)
            done = run_example(directory, storage)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.splitlines()[-1], "20 samples staged, 0 sent")
            again = run_example(directory, storage)  # again from epoch 0, with the samples held in epoch 3
            self.assertEqual(again.stdout.splitlines()[:-1], done.stdout.splitlines()[:-1])
            self.assertEqual(again.stdout.splitlines()[-1], "0 samples staged, 0 sent")

    def test_the_program_names_a_damaged_sample(self):
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "cat").mkdir()
            damaged = Path(directory) / "cat" / "3.bin"
            damaged.write_bytes(b"too short")
            done = run_example(directory)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{damaged}: it has 9 bytes, not 16", done.stderr)


if __name__ == "__main__":
    unittest.main()
