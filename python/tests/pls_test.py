#!/usr/bin/env python3
"""Partial local shuffling through its published interface, on one rank and on four MPI ranks."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from PIL import Image as Pillow

import mpirun

TRAIN = """
import json, os, sys
import millrace
from millrace import pls

rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
dataset = pls.ImageFolder("train", "classes.txt", millrace.Image(8, transform="resize"), storage="storage")
scheduler = pls.Scheduler(dataset, batch_size=5, fraction=0.3, seed=7)
held = {}
first = int(sys.argv[1])
for epoch in range(first, first + 2):
    scheduler.scheduling(epoch)
    held[epoch] = []
    for index in range(scheduler.iterations):
        for row in range(5 * index, min(5 * index + 5, len(dataset))):
            image, label = dataset[row]
            path, listed_label = dataset.samples[row]
            # The red channel identifies the image.
            held[epoch].append([path, label, int(image[0, 0, 0])])
            assert label == listed_label
        send, receive = scheduler.communicate()
    scheduler.synchronize(send, receive)
    scheduler.clean_local_storage()
json.dump(held, open(f"held-{first}-{rank}.json", "w"))
stats = scheduler.stats()
assert stats["samples_sent"] == stats["samples_received"], stats
scheduler.close()
"""


class PlsTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        for label, name in enumerate(("eel", "cat", "dog")):  # not in the order of the directories
            (self.folder / "train" / name).mkdir(parents=True)
            for index in range(20):
                colour = (20 * label + index, 0, 0)
                Pillow.new("RGB", (12, 12), colour).save(self.folder / "train" / name / f"{index}.png")
        (self.folder / "classes.txt").write_text("eel\ncat\ndog\n")
        (self.folder / "train.py").write_text(textwrap.dedent(TRAIN))

    def train(self, ranks: int, first: int, code: int = 0) -> subprocess.CompletedProcess:
        command = [sys.executable, "train.py", str(first)]
        if ranks > 1:
            command = ["mpirun", "--oversubscribe", "-np", str(ranks), *command]
        done = subprocess.run(command, cwd=self.folder, env=mpirun.environment(self.folder),
                              capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def held(self, ranks: int, first: int, epoch: int) -> list:
        return [json.loads((self.folder / f"held-{first}-{rank}.json").read_text())[str(epoch)]
                for rank in range(ranks)]

    def check_epoch(self, held: list) -> None:
        """Checks that every sample is held once, with its pixels and its label."""
        rows = sorted(row for rank in held for row in rank)
        self.assertEqual(sorted(red for _, _, red in rows), list(range(60)))
        for path, label, red in rows:
            self.assertEqual((label, red), (red // 20, 20 * label + int(Path(path).stem)))

    def test_one_rank_holds_everything(self):
        self.train(1, 0)
        self.check_epoch(self.held(1, 0, 0))
        self.check_epoch(self.held(1, 0, 1))

    @unittest.skipUnless(mpirun.HAS_MPI, "this build or this machine has no MPI")
    def test_four_ranks_exchange_a_part_and_a_second_run_continues(self):
        self.train(4, 0)
        self.train(4, 2)
        epochs = [self.held(4, first, epoch) for first, epoch in ((0, 0), (0, 1), (2, 2), (2, 3))]
        for held in epochs:
            self.check_epoch(held)
            self.assertEqual([len(rank) for rank in held], [15] * 4)
        for before, after in zip(epochs, epochs[1:]):
            kept = sum(len({row[2] for row in b} & {row[2] for row in a})
                       for b, a in zip(before, after))
            self.assertLess(kept, 60)
            self.assertGreaterEqual(kept, 60 - 4 * 5)  # 0.3 of 15, rounded up

    def test_an_unexpected_epoch_is_refused(self):
        done = self.train(1, 5, code=1)
        self.assertIn("the storage holds the samples of epoch 0, not of 5", done.stderr)

    def test_a_class_missing_from_the_file_is_named(self):
        (self.folder / "classes.txt").write_text("eel\ncat\n")
        done = self.train(1, 0, code=1)
        self.assertIn("does not list the class 'dog'", done.stderr)

    def test_ranks_unknown_to_mpi_are_refused(self):
        environment = os.environ | {"RANK": "1", "WORLD_SIZE": "2"}
        done = subprocess.run([sys.executable, "train.py", "0"], cwd=self.folder, env=environment,
                              capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("start one process per rank with mpirun or srun --mpi=pmix", done.stderr)


if __name__ == "__main__":
    unittest.main()
