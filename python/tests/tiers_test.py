#!/usr/bin/env python3
"""The tiers that keep samples: memory, local disk and other ranks, in front of slow files."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import numpy

import millrace
import mpirun

COMPILER = shutil.which("cc") or shutil.which("gcc")

COUNT = 96
SHAPE = (50, 20)

# If the files are in the page cache, a disk or another rank is slower, and is not used.
SLOW_FILES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static void wait_if_slow(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = 0;
  if (strstr(path, "/slow/")) usleep(atoi(getenv("SLOW_US")));
}
ssize_t readv(int fd, const struct iovec* places, int count) {
  static ssize_t (*real)(int, const struct iovec*, int);
  if (!real) real = (ssize_t(*)(int, const struct iovec*, int))dlsym(RTLD_NEXT, "readv");
  wait_if_slow(fd);
  return real(fd, places, count);
}
"""

TRAIN = """
import json, os, signal, sys
import millrace

options = json.loads(sys.argv[1])
dies_at = options.pop("dies_at", None)
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
cache = options.pop("cache")
if "dir" in cache:
    cache["dir"] = cache["dir"].replace("RANK", str(rank))
try:
    # The library that makes files slow wraps calls of the C library; io_uring would bypass it.
    data = millrace.RawFolder("slow", shape=(50, 20), dtype="int32", engine="posix")
    loader = millrace.DataLoader(data, batch_size=4, shuffle=True, seed=5, num_workers=2,
                                 prefetch=millrace.Prefetch(batches=2), cache=millrace.Cache(**cache),
                                 output="dict", tail="uneven", **options)
    # If a rank dies, the other continues until it asks that rank for a sample.
    for epoch in range(4 if dies_at is None else 100_000):
        for index, batch in enumerate(loader):
            assert (batch["data"] == batch["sample"][:, None, None]).all(), batch["sample"]
            if [rank, epoch, index] == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
    json.dump(loader.stats()["cache"], open(f"cache-{rank}.json", "w"))
except (RuntimeError, OSError) as error:
    with open(f"error-{rank}.txt", "w") as file:
        file.write(f"{type(error).__name__}: {error}")
"""

# mpirun kills all ranks when it sees one die. So it starts shells, which wait for each other.
BLIND = '"$@"; touch "ended-$OMPI_COMM_WORLD_RANK"; ' \
        'for i in $(seq 6000); do [ $(ls ended-* | wc -l) = 2 ] && exit 0; sleep 0.1; done; exit 3'


def make_raw(root: Path) -> Path:
    """Sample i is an int32 array filled with i."""
    root.mkdir()
    for index in range(COUNT):
        numpy.full(SHAPE, index, "int32").tofile(root / f"{index:05}.bin")
    return root


class TiersTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.data = millrace.RawFolder(make_raw(self.folder / "slow"), shape=SHAPE, dtype="int32")

    def loader(self, **options) -> millrace.DataLoader:
        # One thread: two may both read the same sample, one for the end of an epoch and one for the
        # start of the next.
        return millrace.DataLoader(self.data, batch_size=8, shuffle=True, seed=5, num_workers=1, **options)

    def visit(self, loader) -> list:
        visited = []
        for batch in loader:
            samples = loader.batch.samples.tolist()
            self.assertTrue((batch.numpy() == numpy.array(samples)[:, None, None]).all())
            visited += samples
        return visited


class OneRankTest(TiersTest):
    def test_what_fits_is_read_from_the_files_once(self):
        plain, cached = self.loader(), self.loader(cache=millrace.Cache(memory="4MiB"))
        for _ in range(3):
            self.assertEqual(self.visit(cached), self.visit(plain))
        cache = cached.stats()["cache"]
        self.assertEqual(cache["source"]["samples"], COUNT)
        self.assertEqual(cache["source"]["bytes"], COUNT * 4000)
        self.assertGreaterEqual(cache["memory"]["samples"], 2 * COUNT)
        self.assertGreater(cache["memory"]["bytes_per_second"], 0)
        self.assertIn(f"{COUNT} from source (", str(cached.stats()))
        self.assertNotIn("cache", plain.stats())

    def test_a_state_from_mid_epoch_continues_with_the_same_samples(self):
        one = self.loader(cache=millrace.Cache(memory="100KiB"))
        self.visit(one)
        passing = iter(one)
        for _ in range(5):
            next(passing)
        state = one.state_dict()
        rest = [sample for _ in passing for sample in one.batch.samples.tolist()]
        other = self.loader(cache=millrace.Cache(memory="100KiB"))
        other.load_state_dict(state)
        self.assertEqual(self.visit(other), rest)
        self.visit(other)
        self.assertGreater(other.stats()["cache"]["memory"]["samples"], 0)

    def test_statistics_remain_after_close(self):
        with self.loader(cache=millrace.Cache(memory="4MiB")) as loader:
            self.visit(loader)
        self.assertEqual(loader.stats()["cache"]["source"]["samples"], COUNT)

    def test_nothing_is_left_in_the_directory(self):
        scratch = self.folder / "scratch"
        scratch.mkdir()
        with self.loader(cache=millrace.Cache(dir=scratch, disk="10MiB")) as loader:
            self.visit(loader)
            self.visit(loader)
            self.assertEqual(list(scratch.iterdir()), [])

    def test_a_directory_that_cannot_be_written_is_named(self):
        missing = self.folder / "missing"
        with self.assertRaisesRegex(FileNotFoundError, f"samples cannot be kept in {missing}: "):
            self.loader(cache=millrace.Cache(dir=missing, disk="1MiB"))
        file = self.folder / "file"
        file.write_text("")
        with self.assertRaisesRegex(OSError, f"samples cannot be kept in {file}: "):
            self.loader(cache=millrace.Cache(dir=file, disk="1MiB"))

    def test_invalid_options_are_refused(self):
        with self.assertRaisesRegex(ValueError, "Cache: give both dir .* and disk"):
            millrace.Cache(dir=self.folder)
        with self.assertRaisesRegex(ValueError, "Cache keeps nothing: give memory"):
            millrace.Cache(peers=True)
        with self.assertRaisesRegex(ValueError, "list makes its samples in Python"):
            millrace.DataLoader(list(range(10)), cache=millrace.Cache(memory="1MiB"))
        with self.assertRaisesRegex(ValueError, "Cache.memory=0 "):
            millrace.Cache(memory=0)
        with self.assertRaisesRegex(ValueError, "Cache.disk: '4G' could mean"):
            millrace.Cache(dir=self.folder, disk="4G")


@unittest.skipUnless(COMPILER, "needs a C compiler for the library that makes files slow")
class SlowFilesTest(TiersTest):
    def setUp(self):
        super().setUp()
        (self.folder / "slow.c").write_text(SLOW_FILES)
        subprocess.run([COMPILER, "-shared", "-fPIC", "-o", "slow.so", "slow.c", "-ldl"],
                       cwd=self.folder, check=True)
        (self.folder / "train.py").write_text(textwrap.dedent(TRAIN))
        (self.folder / "scratch").mkdir()

    def train(self, ranks: int, read_us: int = 25_000, **options) -> list:
        """The cache statistics of each rank. A read of a slow file takes `read_us`."""
        command = [sys.executable, "train.py", json.dumps(options)]
        if "dies_at" in options:
            command = ["sh", "-c", BLIND, "sh", *command]
        if ranks > 1:
            command = ["mpirun", "--oversubscribe", "-np", str(ranks), "-x", "LD_PRELOAD", "-x", "SLOW_US", *command]
        environment = mpirun.environment(self.folder) | {"LD_PRELOAD": str(self.folder / "slow.so"),
                                                         "SLOW_US": str(read_us)}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True,
                              text=True, timeout=900, check=False)
        if "dies_at" not in options:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("cache-*.json"))]

    def test_samples_on_disk_are_not_read_from_slow_files_again(self):
        cache, = self.train(1, cache={"dir": "scratch", "disk": "10MiB"})
        self.assertLess(cache["source"]["samples"], 2 * COUNT)
        self.assertGreater(cache["disk"]["samples"], 2 * COUNT)
        self.assertGreater(cache["disk"]["bytes_per_second"], cache["source"]["bytes_per_second"])

    @unittest.skipUnless(mpirun.HAS_MPI, "this build or this machine has no MPI")
    def test_ranks_that_ask_each_other_read_fewer_files(self):
        # Slower than a rank that answers on a busy machine, and slow enough that neither rank gets
        # far ahead.
        alone = self.train(2, read_us=100_000, cache={"memory": "10MiB"})
        together = self.train(2, read_us=100_000, cache={"memory": "10MiB", "peers": True})
        self.assertEqual([len(alone), len(together)], [2, 2])
        self.assertTrue(all(cache["peer"]["samples"] == 0 for cache in alone))
        self.assertGreater(sum(cache["peer"]["samples"] for cache in together), 0)
        reads = [sum(cache["source"]["samples"] for cache in caches) for caches in (alone, together)]
        self.assertLess(reads[1], reads[0] - 20, f"{together}")

    @unittest.skipUnless(mpirun.HAS_MPI, "this build or this machine has no MPI")
    def test_a_killed_rank_is_named_and_no_rank_hangs(self):
        # Samples of a lost rank are not bad samples, so they are not skipped either.
        for killed, skips in ((1, False), (1, True), (0, False)):
            with self.subTest(killed=killed, skips=skips):
                for name in ("ended-0", "ended-1", "error-0.txt", "error-1.txt"):
                    (self.folder / name).unlink(missing_ok=True)
                # Not all samples fit, so there is always one to ask for.
                self.train(2, cache={"memory": "128KiB", "peers": True}, dies_at=[killed, 1, 2],
                           skip_bad_samples=skips)
                self.assertRegex((self.folder / f"error-{1 - killed}.txt").read_text(),
                                 rf"RuntimeError: .*rank {killed} .*ended unexpectedly")

    @unittest.skipUnless(mpirun.HAS_MPI, "this build or this machine has no MPI")
    def test_a_directory_that_one_rank_cannot_write_is_reported_by_all(self):
        (self.folder / "scratch-0").mkdir()
        self.train(2, cache={"dir": "scratch-RANK", "disk": "1MiB", "peers": True})
        for rank in (0, 1):
            self.assertRegex((self.folder / f"error-{rank}.txt").read_text(),
                             "FileNotFoundError: rank 1: samples cannot be kept in scratch-1: ")


OTHER_FILES = """
import os, sys
import millrace

rank = os.environ["OMPI_COMM_WORLD_RANK"]
data = millrace.RawFolder("slow" + rank, shape=(50, 20), dtype="int32")
options = {"cache": {"cache": millrace.Cache(memory="1MiB", peers=True)},
           "partial": {"shuffle": millrace.Partial(0.5, dir="held")}}[sys.argv[1]]
try:
    loader = millrace.DataLoader(data, batch_size=4, seed=5, **options)
    outcome = f"{sum(len(batch) for batch in loader)} samples"
except ValueError as error:
    outcome = str(error)
with open(f"outcome-{rank}.txt", "w") as file:
    file.write(outcome)
"""


@unittest.skipUnless(mpirun.HAS_MPI, "this build or this machine has no MPI")
class OtherFilesTest(TiersTest):
    """Two ranks with a copy of the dataset each. Before they were compared, a rank got the samples of other files."""

    def outcomes(self, kind: str) -> list:
        (self.folder / "train.py").write_text(OTHER_FILES)
        done = subprocess.run(["mpirun", "--oversubscribe", "-np", "2", sys.executable, "train.py", kind],
                              cwd=self.folder, env=mpirun.environment(self.folder), capture_output=True, text=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [(self.folder / f"outcome-{rank}.txt").read_text() for rank in (0, 1)]

    def test_the_first_file_that_differs_is_named_by_all_ranks(self):
        make_raw(self.folder / "slow0")
        other = make_raw(self.folder / "slow1")
        (self.folder / "held").mkdir()
        for kind in ("cache", "partial"):
            with self.subTest(kind):
                self.assertEqual(self.outcomes(kind), [f"{COUNT // 2} samples"] * 2)
                shutil.rmtree(self.folder / "held")
                (self.folder / "held").mkdir()
                (other / "00070.bin").rename(other / "00007b.bin")  # every number from 8 to 70 is another sample
                for outcome in self.outcomes(kind):
                    self.assertRegex(outcome, r"different datasets \(files with other names\): sample 8 is slow0/00008.bin "
                                              r"on .* for rank 0, and slow1/00007b.bin on .* for rank 1; copy the same")
                (other / "00007b.bin").rename(other / "00070.bin")
                numpy.full(SHAPE, -1, "int32").tofile(other / f"{COUNT - 1:05}.bin")
                for outcome in self.outcomes(kind):
                    self.assertRegex(outcome, rf"\(files with other bytes\): sample {COUNT - 1} is ")
                numpy.full(SHAPE, COUNT - 1, "int32").tofile(other / f"{COUNT - 1:05}.bin")


if __name__ == "__main__":
    unittest.main()
