#!/usr/bin/env python3
"""millrace.Partial with a directory: ranks that hold their samples on their own storage, and exchange
some after every epoch, return the same batches as without it. On one rank and on several MPI ranks."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings
from pathlib import Path

import millrace
import mpirun

COUNT = 103  # shards of uneven size
LENGTH = 3000

# Runs epochs on a rank, and writes what was in its batches.
TRAIN = """
import json, os, signal, sys, time
from pathlib import Path
import millrace

options = json.loads(sys.argv[1])
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
data = millrace.RawFolder("train", shape=(3000,))
loader = millrace.DataLoader(data, 4, seed=5, output="numpy", tail=options.get("tail"),
                             shuffle=millrace.Partial(options.get("fraction", 0.3), dir="shards"))
state = Path("state.json")
if options.get("resumes"):
    loader.load_state_dict(json.loads(state.read_text()))
else:
    loader.set_epoch(options.get("first", 0))
batches = []
for _ in range(options["epochs"]):
    for fields in loader:
        rows = fields[0] if isinstance(fields, tuple) else fields
        batch = loader.batch
        for row, sample in zip(rows, batch.samples.tolist()):
            assert row.tobytes() == Path(data._source.name(sample)).read_bytes(), sample
        batches.append([batch.epoch, batch.index, batch.samples.tolist(), batch.is_real.tolist()])
        at = [batch.epoch, batch.index]
        if at == options.get("saves_at") and rank == 0:
            Path("half").write_text(json.dumps(loader.state_dict()))
            Path("half").rename(state)
        if at == options.get("dies_at") and rank == 1:
            while not state.exists():  # rank 0 may be slower
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
Path(f"batches-{rank}.json").write_text(json.dumps(batches))
Path(f"stats-{rank}.json").write_text(json.dumps(loader.stats()["shard"]))
print(loader.stats())
"""


def make_dataset(folder: Path) -> None:
    folder.mkdir()
    for index in range(COUNT):
        # Each starts with its number, and has different bytes.
        row = index.to_bytes(4, "little") + bytes((index * 7 + i * i) % 251 for i in range(LENGTH - 4))
        (folder / f"{index:04}.bin").write_bytes(row)


class ShardStorageTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        make_dataset(self.folder / "train")
        self.data = millrace.RawFolder(self.folder / "train", shape=(LENGTH,))

    def loader(self, dir=None, fraction: float = 0.3, **options) -> millrace.DataLoader:
        options = {"batch_size": 4, "seed": 5, "output": "numpy", **options}
        loader = millrace.DataLoader(self.data, shuffle=millrace.Partial(fraction, dir), **options)
        self.addCleanup(loader.close)
        return loader

    @staticmethod
    def take(loader: millrace.DataLoader, epochs: int, first: int = 0) -> list:
        loader.set_epoch(first)
        return [[loader.batch.epoch, loader.batch.index, loader.batch.samples.tolist(),
                 loader.batch.is_real.tolist()] for _ in range(epochs) for _ in loader]

    def expected_batches(self, rank: int, ranks: int, epochs: int, first: int = 0, **options) -> list:
        """The expected batches: the same order without a directory, read from the dataset."""
        return self.take(self.loader(world=millrace.World(rank, ranks), **options), epochs, first)


class OneRankTest(ShardStorageTest):
    def test_returns_the_same_batches_as_without_a_directory(self):
        for fraction in (0, 0.3, 1):
            held = self.loader(self.folder / f"shards-{fraction}", fraction=fraction)
            self.assertEqual(self.take(held, 3), self.expected_batches(0, 1, 3, fraction=fraction))

    def test_reads_from_its_own_storage_once_it_has_copied_the_samples(self):
        held = self.loader(self.folder / "shards")
        before = self.take(held, 1)
        shutil.rmtree(self.folder / "train")
        self.assertEqual(len(self.take(held, 2, first=1)), 2 * len(before))
        shard = held.stats()["shard"]
        self.assertEqual((shard["staged_samples"], shard["held_samples"]), (COUNT, COUNT))
        self.assertEqual(shard["held_bytes"], COUNT * LENGTH)
        self.assertIn(f"holds {COUNT} samples (0.3 MB)", str(held.stats()))

    def test_a_second_loader_continues_with_what_the_first_left(self):
        with self.loader(self.folder / "shards") as first:
            self.take(first, 2)
        again = self.loader(self.folder / "shards")
        self.assertEqual(self.take(again, 1, first=2), self.expected_batches(0, 1, 1, first=2))
        self.assertEqual(again.stats()["shard"]["staged_samples"], 0)

    def test_a_state_from_mid_epoch_continues_exactly(self):
        held = self.loader(self.folder / "shards")
        passing = iter(held)
        for _ in range(7):
            next(passing)
        state = held.state_dict()
        held.close()
        again = self.loader(self.folder / "shards")
        again.load_state_dict(state)
        rest = [again.batch.samples.tolist() for _ in again]
        self.assertEqual(rest, [row[2] for row in self.expected_batches(0, 1, 1)[7:]])

    def test_a_state_of_another_epoch_warns_and_continues_exactly(self):
        held = self.loader(self.folder / "shards")
        self.take(held, 1)
        state = held.state_dict()
        self.take(held, 3, first=1)
        with self.assertWarnsRegex(UserWarning, "held the samples of epoch 4, and the job continues with "
                                                "epoch 1: 0 of 103 samples were read again"):
            held.load_state_dict(state)
        self.assertEqual([held.batch.samples.tolist() for _ in held],
                         [row[2] for row in self.expected_batches(0, 1, 1, first=1)])

    def test_a_restarted_job_without_a_state_gets_the_epoch_of_the_storage(self):
        shards = self.folder / "shards"
        with self.loader(shards) as held:
            self.assertIsNone(held.storage_epoch)
            self.take(held, 4)
            self.assertEqual(held.storage_epoch, 4)
        with self.loader(shards) as again:
            self.assertEqual((again.epoch, again.storage_epoch), (0, 4))
            with self.assertWarnsRegex(UserWarning, r"held the samples of epoch 4.* started with epoch 0\. .* "
                                                    r"loader\.set_epoch\(4\).*loader\.load_state_dict"):
                next(iter(again))
            self.assertEqual(again.storage_epoch, 0)
        self.assertIsNone(self.loader().storage_epoch)

    def test_a_restarted_job_continues_with_the_epoch_of_the_storage(self):
        with self.loader(self.folder / "shards") as held:
            self.take(held, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = self.loader(self.folder / "shards")
            again.set_epoch(again.storage_epoch)
            rest = [again.batch.samples.tolist() for _ in again]
        self.assertEqual(rest, [row[2] for row in self.expected_batches(0, 1, 1, first=2)])

    def test_copies_of_a_private_dataset_are_private(self):
        for file in (self.folder / "train").iterdir():
            file.chmod(0o600)
        for mask in (0o022, 0o000):
            before = os.umask(mask)
            self.addCleanup(os.umask, before)
            shards = self.folder / f"shards-{mask}"
            with self.loader(shards) as held:
                self.take(held, 2)
            modes = {path.relative_to(shards).as_posix(): path.stat().st_mode & 0o7777
                     for path in shards.rglob("*")}
            self.assertEqual(modes, {"rank0": 0o700, "rank0/owned": 0o600, "rank0/samples": 0o600})
            self.assertEqual(shards.stat().st_mode & 0o7777, 0o700)

    def test_invalid_options_are_refused(self):
        shards = self.folder / "shards"
        with self.assertRaisesRegex(ValueError, "Partial.dir already keeps all .*: remove cache="):
            self.loader(shards, cache=millrace.Cache(memory="1MiB"))
        with self.assertRaisesRegex(ValueError, "Partial.dir is empty"):
            millrace.Partial(dir="")
        with self.assertRaisesRegex(ValueError, "Partial.fraction=1.5 is not a number from 0 to 1"):
            millrace.Partial(1.5)
        with self.assertRaisesRegex(ValueError, "Partial.fraction='x' is not a number from 0 to 1"):
            millrace.Partial("x")
        with self.assertRaisesRegex(ValueError, "Partial.shard='host': expected 'rank'"):
            millrace.Partial(shard="host")
        with self.assertRaisesRegex(ValueError, "Partial.dir keeps .* list makes its samples in Python"):
            millrace.DataLoader(list(range(10)), shuffle=millrace.Partial(dir=shards))
        with self.assertRaisesRegex(ValueError, "the loader is rank 1 of 2, but in MPI this process is "
                                                "rank 0 of 1"):
            self.loader(shards, world=millrace.World(1, 2))

    def test_a_storage_of_another_job_or_dataset_is_refused(self):
        with self.loader(self.folder / "shards") as held:
            self.take(held, 1)
        with self.assertRaisesRegex(ValueError, "made with the seed 5, and this job has 6"):
            self.loader(self.folder / "shards", seed=6)
        (self.folder / "train" / "0007.bin").rename(self.folder / "train" / "0007b.bin")
        self.data = millrace.RawFolder(self.folder / "train", shape=(LENGTH,))
        with self.assertRaisesRegex(ValueError, "it holds samples of another dataset"):
            self.loader(self.folder / "shards")

    def test_an_unreadable_sample_is_named_or_skipped(self):
        (self.folder / "train" / "0007.bin").unlink()
        held = self.loader(self.folder / "shards")
        with self.assertRaisesRegex(FileNotFoundError, "0007.bin"):
            iter(held)
        held.close()
        again = self.loader(self.folder / "shards", skip_bad_samples=True)
        visited = {sample for row in self.take(again, 1) for sample in row[2]}
        self.assertEqual(visited, set(range(COUNT)) - {7})
        self.assertIn("0007.bin", again.stats()["shard"]["first_unreadable"])

    def test_ranks_unknown_to_mpi_are_refused(self):
        (self.folder / "train.py").write_text(textwrap.dedent(TRAIN))
        environment = os.environ | {"RANK": "1", "WORLD_SIZE": "2"}
        done = subprocess.run([sys.executable, "train.py", '{"epochs": 1}'], cwd=self.folder,
                              env=environment, capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "Partial.dir: this is rank 1 of 2, but MPI has 1 rank.*start one "
                                      "process per rank with mpirun.*, or remove the option: the batches "
                                      "are the same")


@unittest.skipUnless(mpirun.HAS_MPI, "this build or this machine has no MPI")
class RanksTest(ShardStorageTest):
    def setUp(self):
        super().setUp()
        (self.folder / "train.py").write_text(textwrap.dedent(TRAIN))

    def train(self, ranks: int, fails: bool = False, **options) -> list:
        """The batches of each rank."""
        command = ["mpirun", "--oversubscribe", "-np", str(ranks), sys.executable, "train.py",
                   json.dumps(options)]
        done = subprocess.run(command, cwd=self.folder, env=mpirun.environment(self.folder),
                              capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual(done.returncode != 0, fails, done.stdout + done.stderr)
        return [] if fails else self.read("batches", ranks)

    def read(self, name: str, ranks: int) -> list:
        return [json.loads((self.folder / f"{name}-{rank}.json").read_text()) for rank in range(ranks)]

    def check_every_sample_once(self, batches: list) -> None:
        visited: dict = {}
        for epoch, _, samples, is_real in (batch for rank in batches for batch in rank):
            visited.setdefault(epoch, []).extend(s for s, real in zip(samples, is_real) if real)
        for samples in visited.values():
            self.assertEqual(sorted(samples), list(range(COUNT)))

    def test_ranks_return_the_expected_batches_and_store_at_most_their_fraction(self):
        for ranks, fraction, tail in ((4, 0.3, "pad"), (3, 1, "uneven"), (2, 0, "pad")):
            shutil.rmtree(self.folder / "shards", ignore_errors=True)
            batches = self.train(ranks, epochs=6, fraction=fraction, tail=tail)
            self.check_every_sample_once(batches)
            for rank, shard in enumerate(self.read("stats", ranks)):
                self.assertEqual(batches[rank],
                                 self.expected_batches(rank, ranks, 6, fraction=fraction, tail=tail))
                self.assertLessEqual(shard["stored_samples_max"], (1 + fraction) * (COUNT / ranks + 1))
                # All have the same length, so every slot fits again.
                self.assertLessEqual(shard["file_bytes"], shard["stored_samples_max"] * (LENGTH + 64))
                self.assertEqual(shard["samples_sent"], shard["samples_received"])
                self.assertGreaterEqual(shard["bytes_sent"], shard["samples_sent"] * LENGTH)
                self.assertEqual(shard["samples_sent"] > 0, fraction > 0)

    def test_after_a_killed_rank_the_state_continues_exactly_without_copying(self):
        self.train(4, fails=True, epochs=5, saves_at=[2, 1], dies_at=[2, 4])
        batches = self.train(4, resumes=True, epochs=3)
        for rank, shard in enumerate(self.read("stats", 4)):
            self.assertEqual(batches[rank], self.expected_batches(rank, 4, 3, first=2)[2:])
            self.assertEqual(shard["staged_samples"], 0)

    def test_a_state_older_than_the_storage_continues_exactly(self):
        self.train(4, fails=True, epochs=5, saves_at=[1, 3], dies_at=[3, 4])
        batches = self.train(4, resumes=True, epochs=3)
        for rank, shard in enumerate(self.read("stats", 4)):
            self.assertEqual(batches[rank], self.expected_batches(rank, 4, 3, first=1)[4:])
            # Between the two there are two exchanges of 0.3 of 26 samples.
            self.assertLessEqual(shard["staged_samples"], 16)


class WarningsTest(ShardStorageTest):
    def test_there_is_no_warning_if_nothing_changed(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.take(self.loader(self.folder / "shards"), 2)


if __name__ == "__main__":
    unittest.main()
