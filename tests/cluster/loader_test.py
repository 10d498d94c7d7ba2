"""The loader on several hosts: samples on each host's own disk, samples from peers, and the failure of a rank, a link or
a host."""

import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import millrace

import hosts as cluster
from hosts import Hosts

COUNT = 103  # shards of uneven size
LENGTH = 3000
EPOCHS = 4
ENDED = r"RuntimeError: .*rank {rank} \(process \d+ on {host}\) ended unexpectedly"
SILENT = r"RuntimeError: .*rank {rank} \(process \d+ on {host}\) does not answer any more"

# Runs epochs, checks every byte, and writes what was in the batches.
TRAIN = """
import json, os, signal, sys, time
from pathlib import Path
import millrace

options = json.loads(sys.argv[1])
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
trouble = options.pop("trouble", None)
resumes = options.pop("resumes", False)
epochs = options.pop("epochs")
data = millrace.RawFolder("train", shape=(3000,), engine="posix")
state = Path("state.json")
batches = []
try:
    shuffle = millrace.Partial(**options["partial"]) if "partial" in options else True
    cache = millrace.Cache(memory=options["memory"], peers=True) if "memory" in options else None
    loader = millrace.DataLoader(data, 4, shuffle, seed=5, output="numpy", cache=cache,
                                 num_workers=options.get("num_workers"),
                                 prefetch=millrace.Prefetch(options.get("prefetch")))
    if resumes:
        loader.load_state_dict(json.loads(state.read_text()))
    for _ in range(epochs):
        for rows in loader:
            batch = loader.batch
            for row, sample in zip(rows, batch.samples.tolist()):
                assert row.tobytes() == Path(data._source.name(sample)).read_bytes(), sample
            batches.append([batch.epoch, batch.index, batch.samples.tolist(), batch.is_real.tolist()])
            if trouble and [batch.epoch, batch.index] == [2, 1]:
                if rank == 0:
                    Path("half").write_text(json.dumps(loader.state_dict()))
                    Path("half").rename(state)
                Path(f"at_trouble-{rank}").touch()
                while not Path("trouble").exists():
                    time.sleep(0.02)
                if trouble == f"kill {rank}":
                    os.kill(os.getpid(), signal.SIGKILL)
except RuntimeError as error:
    Path(f"error-{rank}.txt").write_text(f"RuntimeError: {error}")
    os._exit(1)  # at a normal exit, all ranks would wait for each other
Path(f"batches-{rank}.json").write_text(json.dumps(batches))
Path(f"stats-{rank}.json").write_text(json.dumps({
    "shard": loader.stats().get("shard"), "cache": loader.stats().get("cache"),
    "storage_epoch": loader.storage_epoch if epochs == 0 else None}))
"""

# mpirun kills all ranks when it sees one die. So it starts shells, which wait for each other.
BLIND = '"$@"; touch "ended-$OMPI_COMM_WORLD_RANK"; ' \
        'for i in $(seq 6000); do [ $(ls | grep -c "^ended-") = $OMPI_COMM_WORLD_SIZE ] && exit 0; sleep 0.1; done; exit 3'

# If the files are in the page cache, another rank is slower, and is not used.
SLOW_FILES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t readv(int fd, const struct iovec* places, int count) {
  static ssize_t (*real)(int, const struct iovec*, int);
  if (!real) real = (ssize_t(*)(int, const struct iovec*, int))dlsym(RTLD_NEXT, "readv");
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/train/")) usleep(100000);
  return real(fd, places, count);
}
"""


def make_dataset(folder: Path) -> None:
    folder.mkdir()
    for index in range(COUNT):
        row = index.to_bytes(4, "little") + bytes((index * 7 + i * i) % 251 for i in range(LENGTH - 4))
        (folder / f"{index:04}.bin").write_bytes(row)


class LoaderTest(unittest.TestCase):
    def setUp(self):
        self.hosts = cluster.begin(self, Hosts(3))
        self.folder = self.hosts.shared
        make_dataset(self.folder / "train")
        self.data = millrace.RawFolder(self.folder / "train", shape=(LENGTH,))
        (self.folder / "train.py").write_text(TRAIN)
        self.partial = {"partial": {"fraction": 0.3, "dir": str(self.hosts.local / "samples")}}

    def command(self, ranks_per_host: int, options: dict, blind: bool = False, **environment: str) -> list[str]:
        shell = ["sh", "-c", BLIND, "sh"] if blind else []
        return self.hosts.mpirun_command(
            *shell, sys.executable, "train.py", json.dumps(options), ranks_per_host=ranks_per_host,
            environment={"PYTHONPATH": os.environ["PYTHONPATH"], **environment})

    def train(self, ranks_per_host: int, options: dict, **environment: str) -> tuple[list, list]:
        """The batches and the statistics of each rank."""
        done = subprocess.run(self.command(ranks_per_host, options, **environment), **cluster.RUN_OPTIONS)
        errors = [file.read_text() for file in sorted(self.folder.glob("error-*.txt"))]
        self.assertEqual(done.returncode, 0, f"{done.stdout}{done.stderr}{errors}")
        ranks = 3 * ranks_per_host
        return tuple([json.loads((self.folder / f"{name}-{rank}.json").read_text()) for rank in range(ranks)]
                     for name in ("batches", "stats"))

    def expected_batches(self, rank: int, ranks: int, epochs: int, first: int = 0, **options) -> list:
        """The batches that one process with this rank reads from the dataset."""
        world = millrace.World(rank, ranks)
        with millrace.DataLoader(self.data, 4, seed=5, output="numpy", world=world, **options) as loader:
            loader.set_epoch(first)
            return [[loader.batch.epoch, loader.batch.index, loader.batch.samples.tolist(),
                     loader.batch.is_real.tolist()] for _ in range(epochs) for _ in loader]


class BatchesTest(LoaderTest):
    def test_samples_exchanged_between_hosts_give_the_batches_of_one_process(self):
        batches, stats = self.train(2, {"epochs": EPOCHS, **self.partial})
        for rank in range(6):
            self.assertEqual(batches[rank], self.expected_batches(rank, 6, EPOCHS, shuffle=millrace.Partial(0.3)))
            self.assertGreater(stats[rank]["shard"]["samples_sent"], 0)
        for name in self.hosts.names:
            held = self.hosts.run(name, "ls", self.partial["partial"]["dir"]).stdout.split()
            self.assertEqual(len(held), 2, held)  # those of its own two ranks

    def test_samples_from_peers_on_other_hosts_give_the_batches_of_one_process(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        (self.folder / "slow.c").write_text(SLOW_FILES)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", "slow.so", "slow.c", "-ldl"], cwd=self.folder, check=True)
        batches, stats = self.train(1, {"epochs": EPOCHS, "memory": "10MiB", "num_workers": 2, "prefetch": 2},
                                    LD_PRELOAD=str(self.folder / "slow.so"))
        for rank in range(3):
            self.assertEqual(batches[rank], self.expected_batches(rank, 3, EPOCHS, shuffle=True))
        self.assertGreater(sum(rank["cache"]["peer"]["samples"] for rank in stats), 0)


class LayoutTest(LoaderTest):
    def test_torchrun_processes_that_share_an_mpi_rank_are_refused_before_mpi_aborts(self):
        command = self.hosts.mpirun_command(
            sys.executable, "-m", "torch.distributed.run", "--nnodes=3", "--nproc_per_node=2", "--rdzv_id=1",
            "--rdzv_backend=c10d", "--rdzv_endpoint=node1:29400", "-r", "1", "-t", "1", "train.py",
            json.dumps({"epochs": 1, **self.partial}), environment={"PYTHONPATH": os.environ["PYTHONPATH"]})
        done = subprocess.run(command, **cluster.RUN_OPTIONS)
        self.assertNotEqual(done.returncode, 0)
        said = [file.read_text() for file in self.folder.glob("error-*.txt")]
        self.assertTrue(said, done.stdout + done.stderr)
        for text in said:
            self.assertIn("one process per rank, without torchrun", text)
        self.assertNotIn("MPI_ERRORS_ARE_FATAL", done.stdout + done.stderr)

    def test_the_interface_of_rank_0_can_be_chosen(self):
        # A network that only node1 has: the others cannot reach its address there.
        self.hosts.run("node1", "sh", "-ec", "ip link add other type bridge; ip address add 10.99.0.1/16 dev other; "
                       "ip link set other up", check=True)
        options = {"epochs": 1, "memory": "1MiB"}
        batches, _ = self.train(1, options, MILLRACE_INTERFACE="eth0")
        self.assertEqual(batches[2], self.expected_batches(2, 3, 1, shuffle=True))
        done = subprocess.run(self.command(1, options, MILLRACE_INTERFACE="ib9"), **cluster.RUN_OPTIONS)
        self.assertNotEqual(done.returncode, 0)
        errors = [done.stderr, *(file.read_text() for file in self.folder.glob("error-*.txt"))]
        self.assertRegex("".join(errors), "MILLRACE_INTERFACE=ib9 is neither .*eth0 10.53.1.1.*other 10.99.0.1")

    def test_a_job_without_a_state_gets_the_epoch_of_the_storage(self):
        self.train(1, {"epochs": 2, **self.partial})
        _, stats = self.train(1, {"epochs": 0, **self.partial})
        self.assertEqual([rank["storage_epoch"] for rank in stats], [2, 2, 2])


class TroubleTest(LoaderTest):
    """Something fails in the middle of epoch 2. The remaining ranks name the lost rank; a restarted job continues exactly."""

    def start(self, trouble: str) -> None:
        """Starts a job with one rank per host, which saves its state and waits for the trouble."""
        command = self.command(1, {"epochs": 100_000, "trouble": trouble, **self.partial}, blind=True)
        output = cluster.begin(self, open(self.folder / "output", "wb"))
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.wait_for(*(f"at_trouble-{rank}" for rank in range(3)))

    def proceed(self) -> None:
        (self.folder / "trouble").touch()

    def wait_for(self, *names: str) -> None:
        cluster.wait_until(lambda: all((self.folder / name).exists() for name in names), f"{names} in {self.folder}")

    def check_named(self, rank: int, by: tuple, said: str = SILENT) -> None:
        self.wait_for(*(f"ended-{other}" for other in by))
        for other in by:
            error = self.folder / f"error-{other}.txt"
            self.assertTrue(error.exists(), (self.folder / "output").read_text())
            self.assertRegex(error.read_text(), said.format(rank=rank, host=f"node{rank + 1}"))

    def check_restart(self) -> None:
        for file in (*self.folder.glob("error-*"), *self.folder.glob("ended-*")):
            file.unlink()
        batches, stats = self.train(1, {"epochs": 3, "resumes": True, **self.partial})
        for rank in range(3):
            expected = self.expected_batches(rank, 3, 3, first=2, shuffle=millrace.Partial(0.3))
            self.assertEqual(batches[rank], expected[2:])
            self.assertEqual(stats[rank]["shard"]["staged_samples"], 0)

    def test_a_killed_rank_is_named_with_its_host(self):
        self.start(trouble="kill 1")
        self.proceed()
        self.check_named(1, by=(0, 2), said=ENDED)
        self.check_restart()

    def test_a_host_behind_a_cut_link_is_named(self):
        self.start(trouble="link")
        self.hosts.cut("node3")
        self.proceed()
        self.check_named(2, by=(0, 1))

    def test_a_host_that_loses_power_is_named_and_continues_with_its_disk(self):
        self.start(trouble="power")
        self.hosts.kill("node2")
        self.proceed()
        self.check_named(1, by=(0, 2))
        self.hosts.start("node2")
        self.check_restart()


if __name__ == "__main__":
    cluster.run_tests()
