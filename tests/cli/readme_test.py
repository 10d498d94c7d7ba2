#!/usr/bin/env python3
"""Runs the examples of the README, "One example per verb", word for word and in their order.

Only what an example reads is made before: a training program, a file of another tool, a folder of samples.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["MILLRACE"]).resolve().parents[1]

TRAIN = """
import pathlib
for epoch in range(3):
    for path in sorted(pathlib.Path("data").glob("*.bin")):
        path.read_bytes()
"""
MINE = """
dataset: {data_folder: mine, format: npy, num_files_train: 16, record_length_bytes: 4096}
reader: {batch_size: 4}
workflow: {generate_data: True, train: True}
train: {epochs: 2, computation_time: 0.001}
"""
SHARDS = """
dataset: {data_folder: made, format: tfrecord, num_files_train: 2, num_samples_per_file: 8, record_length_bytes: 4096}
workflow: {generate_data: True, train: False}
"""


def examples():
    text = (SOURCES / "README.md").read_text()
    section = re.search(r"^## One example per verb\n(.*?)^## ", text, re.MULTILINE | re.DOTALL).group(1)
    return [re.sub(r"  +#.*", "", line).strip() for line in section.splitlines() if line.startswith("    ")]


class Examples(unittest.TestCase):
    def setUp(self):
        self.place = Path(tempfile.mkdtemp(prefix="readme-"))
        self.addCleanup(shutil.rmtree, self.place)
        programs = self.place / "programs"
        programs.mkdir()
        (programs / "python").symlink_to(sys.executable)
        (programs / "millrace").symlink_to(BUILD / "bin" / "millrace")
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}",
                            "PYTHONPATH": str(BUILD / "python")}
        (self.place / "train.py").write_text(TRAIN)
        (self.place / "data").mkdir()
        for i in range(20):
            (self.place / "data" / f"{i}.bin").write_bytes(bytes(10_000))
        (self.place / "mine.yaml").write_text(MINE)
        (self.place / "shards.yaml").write_text(SHARDS)
        (self.place / "train.csv").write_text("label,a,b\n0,1.5,2.5\n1,3.5,4.5\n")

    def run_line(self, line):
        return subprocess.run(["bash", "-c", line], cwd=self.place, env=self.environment, timeout=300, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def make(self, line):
        done = self.run_line(line)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}")

    def prepare(self, line):
        """What the example reads, if no example before it made that."""
        if " -o t " in line:
            shutil.rmtree(self.place / "t", ignore_errors=True)
        if line.startswith("millrace compare"):
            self.make("millrace report t --json > baseline.json && cp -r t new")
        if line.startswith("millrace import"):
            self.make("mkdir logs && millrace export t --to pfw -o logs/one.pfw.gz && rm -r t")
        if line.startswith("millrace store pack"):
            self.make("mkdir imagenet && cp -r data imagenet/train && cp -r data imagenet/val")
        if line.startswith("millrace convert"):
            self.make("millrace bench shards.yaml && mv made/train shards")

    def test_all(self):
        lines = examples()
        self.assertGreater(len(lines), 20)
        for line in lines:
            with self.subTest(line):
                self.prepare(line)
                done = self.run_line(line)
                self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
