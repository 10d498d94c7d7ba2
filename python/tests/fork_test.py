#!/usr/bin/env python3
"""Ranks that fork: a child is not a rank, and its end does not affect the rank."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import mpirun

COUNT = 32

# A loader that exchanges samples with other ranks, in the middle of an epoch: its threads are busy.
BEGIN = """
import multiprocessing, os, sys, time
import millrace
data = millrace.RawFolder("train", shape=(16,))
loader = millrace.DataLoader(data, 4, shuffle=millrace.Partial(0.5, dir="shard"), seed=5, output="numpy")
batches = iter(loader)
next(batches)
"""
END = """
count = 1 + sum(1 for _ in batches) + sum(1 for _ in loader)
print("whole", count, flush=True)
"""
TERMINATE = """
for _ in range(3):
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
    child.start()
    child.terminate()
    child.join()
    assert child.exitcode == -15, child.exitcode
"""
# exit() in the child runs destructors of Python objects, atexit functions and static destructors.
EXIT = """
child = os.fork()
if child == 0:
    try:
        millrace.DataLoader(data, 4, shuffle=millrace.Partial(dir="other"), seed=5)
        print("child has a loader", flush=True)
    except RuntimeError as error:
        print("child:", error, flush=True)
    sys.exit(0)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert ended == 0, ended
"""


class ForkTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="mr")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        (self.folder / "train").mkdir()
        for index in range(COUNT):
            (self.folder / "train" / f"{index:04}.bin").write_bytes(bytes([index]) * 16)

    def train(self, program: str, ranks: int) -> str:
        (self.folder / "train.py").write_text(textwrap.dedent(program))
        command = [sys.executable, "train.py"]
        if ranks > 1:
            command = ["mpirun", "--oversubscribe", "-np", str(ranks), *command]
        done = subprocess.run(command, cwd=self.folder, env=mpirun.environment(self.folder), capture_output=True,
                              text=True, timeout=900, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("whole"), ranks, done.stdout)
        return done.stdout

    @unittest.skipUnless(mpirun.HAS_MPI, "needs MPI and mpirun")
    def test_terminating_a_child_does_not_end_its_rank(self):
        self.train(BEGIN + TERMINATE + END, ranks=2)

    @unittest.skipUnless(mpirun.HAS_MPI, "needs MPI and mpirun")
    def test_an_exiting_child_does_not_disturb_the_ranks(self):
        output = self.train(BEGIN + EXIT + END, ranks=2)
        self.assertEqual(output.count("was forked from process"), 2, output)

    def test_an_exiting_child_does_not_disturb_a_single_rank(self):
        output = self.train(BEGIN + EXIT + END, ranks=1)
        self.assertIn("child has a loader", output)


if __name__ == "__main__":
    unittest.main()
