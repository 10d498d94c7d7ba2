#!/usr/bin/env python3
"""The access patterns that were published for training applications, in traces of their workloads."""

import csv
import io
import os
import subprocess
import tempfile
import unittest
from collections import Counter
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
QUICK = ["train.epochs=1", "train.computation_time=0.001", "workflow.checkpoint=false"]


class PatternTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_program(self, *words):
        done = subprocess.run([MILLRACE, *map(str, words)], capture_output=True, text=True, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def events(self, workload, *overrides, kind="read", scale="0.0005", quick=QUICK):
        """(file, offset, bytes) of the calls on files of the dataset or the checkpoints, in order."""
        self.run_program("bench", workload, f"--scale={scale}", "--generate", "workflow.train=false",
                         "workflow.checkpoint=false", *overrides)
        self.run_program("trace", "-o", "t", "--", MILLRACE, "bench", workload, f"--scale={scale}", "--output=o", *quick,
                         *overrides)
        table = self.run_program("query", "t", "--csv",
                                 "select file, offset, result from events where (file like '%/data/%' or file like "
                                 f"'%/checkpoints/%') and kind = '{kind}' and result > 0 order by begin")
        return [(row["file"], int(row["offset"] or 0), int(row["result"])) for row in csv.DictReader(io.StringIO(table))]

    def sizes(self, *arguments, **options):
        return Counter(size for _, _, size in self.events(*arguments, **options))

    def test_cosmic_tagger_reads_2_and_6_kib(self):
        sizes = self.sizes("cosmic_tagger")
        self.assertEqual({size for size, _ in sizes.most_common(2)}, {6144, 2048})
        self.assertEqual(sizes[6144], sizes[2048])

    def test_distributed_ffn_reads_28_kib(self):
        self.assertIn(28672, self.sizes("distributed_ffn"))

    def test_mmaadsp_reads_8_kib(self):
        self.assertIn(8192, [size for size, _ in self.sizes("mmaadsp").most_common(2)])

    def test_tfrecords_are_read_through_a_buffer_of_256_kib_from_start_to_end(self):
        events = self.events("imagenet_tf", "dataset.num_samples_per_file=20", "reader.batch_size=16", scale="0.0001")
        sizes = Counter(size for _, _, size in events)
        self.assertGreater(sizes[262144] / len(events), 0.7)  # the ends of files are shorter
        by_file = {}
        for file, offset, _ in events:
            by_file.setdefault(file, []).append(offset)
        for offsets in by_file.values():
            # A look at the first file finds the length of records; then each file is read in order.
            self.assertEqual(offsets[-len(set(offsets)):], sorted(set(offsets)))

    def test_hepcnn_files_are_shared_by_epochs_in_another_order_each_time(self):
        events = self.events("hepcnn", "train.epochs=2", quick=["train.computation_time=0.001"])
        order = [file for file, _, size in events if size > 10000]
        self.assertEqual(sorted(set(order)), sorted(set(order[:len(order) // 2])))

    def test_l2hmc_writes_four_files_at_each_checkpoint(self):
        self.events("l2hmc", kind="write", scale="0.01",
                    quick=["train.epochs=1", "train.computation_time=0.0001", "checkpoint.keep=1"])
        sizes = sorted(path.stat().st_size for path in (self.folder / "checkpoints").rglob("*")
                       if path.is_file() and not path.name.startswith("."))
        self.assertEqual(len(sizes), 4)
        # A hundredth of 32 MiB, 7 MiB, 4.5 KB and 1 KB; the text file has the length that it needs.
        self.assertEqual(sizes[2:], [73400, 335544])


if __name__ == "__main__":
    unittest.main()
