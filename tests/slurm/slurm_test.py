"""Submits every script of examples/slurm with sbatch on a Slurm with three emulated nodes. Run by tests/slurm/run."""

import json
import os
import re
import unittest
from pathlib import Path

from PIL import Image

from slurm import Hosts, Slurm, begin, run_tests, wait_until

REPOSITORY = Path(__file__).absolute().parents[2]
BUILD = Path(os.environ["MILLRACE_BUILD"])
EXAMPLES = REPOSITORY / "examples" / "slurm"
COUNT = 40  # images
RANKS = 6
HOST_OF_RANK = {0: "node1", 1: "node1", 2: "node2", 3: "node2", 4: "node3", 5: "node3"}

# Each rank writes its own file, and all wait for each other in MPI.
JOB = """
import os, sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
with open(f"{sys.argv[1]}/output-{comm.rank}", "wb") as file:
    file.write(bytes(1000))
assert comm.allreduce(1) == 6
"""

# Exchanges samples over MPI, and computes a sum over torch's own ranks.
BOTH = """
import sys
import torch.distributed
import millrace
torch.distributed.init_process_group("gloo")
loader = millrace.DataLoader(millrace.ImageFolder(sys.argv[1], size=64), 8, shuffle=millrace.Partial(dir="/tmp/both"))
count = torch.zeros(1, dtype=torch.int64)
for images, labels in loader:
    count += sum(loader.batch.is_real.tolist())
torch.distributed.all_reduce(count)
print(f"rank {torch.distributed.get_rank()} of {torch.distributed.get_world_size()}: {count.item()} samples", flush=True)
"""

# docs/guide/cluster.md, "No shared file system for the trace".
LOCAL_SCRIPT = """#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=2
srun --mpi=pmix millrace trace -o /tmp/t -- python3 job.py "$PWD"
srun --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" --ntasks-per-node=1 \\
  sh -c 'cp -r /tmp/t "$SLURM_SUBMIT_DIR/t-$(hostname)"; echo "copied $(hostname)"'
millrace report --one-job t-node1 t-node2 t-node3
"""

BOTH_SCRIPT = """#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=2
first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR=$first_node MASTER_PORT=29400
srun --mpi=pmix sh -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID exec python3 "$@"' sh both.py "$1"
"""


def make_images(folder: Path) -> None:
    for label in ("cats", "dogs"):
        (folder / label).mkdir(parents=True)
    for index in range(COUNT):
        image = Image.new("RGB", (80, 80), (index * 5, 255 - index * 5, 100))
        image.save(folder / ("cats", "dogs")[index % 2] / f"{index:03}.jpg")


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = begin(cls, Hosts(3))
        cls.slurm = begin(cls, Slurm(cls.hosts))
        cls.shared = cls.hosts.shared
        # The jobs use our `millrace`, and the `python3` that has numpy and torch.
        programs = cls.shared / "programs"
        programs.mkdir()
        (programs / "python3").symlink_to("/usr/bin/python3")
        cls.slurm.environment.update(
            PATH=f"{BUILD / 'bin'}:{programs}:{os.environ['PATH']}", USER="root", EXAMPLES=str(EXAMPLES),
            OMPI_MCA_mpi_yield_when_idle="1")  # ranks share few cores here
        make_images(cls.shared / "train")
        (cls.shared / "job.py").write_text(JOB)

    def submit(self, script: str, *arguments: str, **environment: str) -> str:
        """Runs the job and returns its output."""
        done = self.slurm.sbatch(EXAMPLES / script, *arguments, **environment)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def millrace(self, *arguments: str) -> str:
        done = self.slurm.run("millrace", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def files_of_stores(self) -> list[str]:
        """What services have left in the memory of the nodes."""
        return [f"{name}: {line}" for name in self.hosts.names
                for line in self.hosts.run(name, "find", "/dev/shm", "-path", "*/millrace-store-0/*/*").stdout.split()]

    def check_trace(self, trace: Path) -> None:
        info = json.loads(self.millrace("info", "--json", str(trace)))
        self.assertEqual(sorted(info["hosts"]), ["node1", "node2", "node3"])
        self.assertEqual(info["ranks"], list(range(RANKS)))
        self.assertEqual(info["problems"], [])
        self.assertFalse([p for p in info["processes"] if "srun" in p["command"].split()[0]])
        rows = json.loads(self.millrace("query", "--json", str(trace), (
            "select rank, host, file from events where kind = 'open' and file like '%/output-%'")))
        self.assertEqual({row["rank"]: row["host"] for row in rows}, HOST_OF_RANK)
        self.assertTrue(all(row["file"].endswith(f"/output-{row['rank']}") for row in rows))

    def counts_by_epoch(self, printed: str) -> dict[int, int]:
        counts: dict[int, int] = {}
        for count, epoch in re.findall(r"rank \d of 6 on node\d: (\d+) samples in epoch (\d+)", printed):
            counts[int(epoch)] = counts.get(int(epoch), 0) + int(count)
        return counts

    def test_trace(self):
        trace = self.shared / "trace"
        printed = self.submit("trace.sbatch", "python3", "job.py", str(self.shared), TRACE=str(trace))
        self.assertIn("3 hosts", printed)
        self.check_trace(trace)

    def test_doctor_on_each_node(self):
        for options in ((), ("--mpi=pmix",)):
            done = self.slurm.run("srun", "-N", "3", "--ntasks-per-node=1", *options, "millrace", "doctor", env={
                **self.slurm.environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            self.assertEqual(done.stdout.count(": 2 ranks talk over Open MPI"), 3, done.stdout)
        done = self.slurm.run("srun", "-N", "3", "--mpi=pmix", "millrace", "doctor", "--mpi")
        self.assertTrue(done.stdout.startswith("3 ranks talk over Open MPI"), done.stderr + done.stdout)

    def test_trace_without_a_shared_directory(self):
        (self.shared / "local.sbatch").write_text(LOCAL_SCRIPT)
        done = self.slurm.sbatch(self.shared / "local.sbatch")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sorted(re.findall("copied (.*)", done.stdout)), self.hosts.names)
        self.assertIn("3 hosts, 6 ranks", done.stdout)

    def test_preload(self):
        trace = self.shared / "preloaded"
        printed = self.submit("preload.sbatch", "python3", "job.py", str(self.shared), TRACE=str(trace),
                              LIBRARY=str(BUILD / "lib" / "libmillrace_trace.so"))
        self.assertIn("3 hosts", printed)
        self.check_trace(trace)

    def test_trace_exits_like_the_program(self):
        done = self.slurm.sbatch(EXAMPLES / "trace.sbatch", "sh", "-c", "exit 7", TRACE=str(self.shared / "failed"))
        self.assertEqual(done.returncode, 7, done.stdout)

    def test_report(self):
        # Few events, so that all numbers are exact, even those that many ranks only estimate.
        trace = self.shared / "reported"
        self.submit("trace.sbatch", "cp", "job.py", "/tmp/copy", TRACE=str(trace))
        printed = self.submit("report.sbatch", "--json", str(trace))
        self.assertEqual(json.loads(printed), json.loads(self.millrace("report", "--json", str(trace))))

    def test_store(self):
        self.millrace("store", "pack", str(self.shared / "train"), "-o", str(self.shared / "packs"), "--partitions", "4")
        sums = "cd {} && find . -type f | sort | xargs md5sum"
        script = self.shared / "sums.sh"
        script.write_text(f"({sums.format('/data/train')}) > {self.shared}/sums-$SLURM_PROCID\n")
        printed = self.submit("store.sbatch", str(self.shared / "packs"), "/data/train", "sh", str(script))
        self.assertNotRegex(printed, "CANCELLED|forcing|error")
        self.assertEqual(self.files_of_stores(), [])
        wanted = self.slurm.run("sh", "-c", sums.format(self.shared / "train")).stdout
        for rank in range(RANKS):
            self.assertEqual((self.shared / f"sums-{rank}").read_text(), wanted)

    def begin_store(self, name: str, *commands: str) -> str:
        """Starts a job on packs of the images. Returns its number when a file `name` exists."""
        packs = self.shared / "packs-of-many"
        if not packs.exists():
            self.millrace("store", "pack", str(self.shared / "train"), "-o", str(packs), "--partitions", "4")
        script = self.shared / f"{name}.sbatch"
        script.write_text("\n".join(["#!/bin/bash", "#SBATCH --nodes=3 --ntasks-per-node=2", f"packs={packs}", *commands, ""]))
        done = self.slurm.run("sbatch", "--parsable", f"--output={self.shared / name}.out", str(script))
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_until((self.shared / name).exists, name)
        return done.stdout.strip()

    def check_job_ended_and_left_nothing(self, job: str) -> None:
        wait_until(lambda: self.slurm.run("squeue", "--noheader", "-j", job).stdout.strip() == "", "the end of the job")
        self.assertEqual(self.files_of_stores(), [])

    def test_a_cancelled_job_leaves_no_store(self):
        job = self.begin_store(
            "cancelled", "millrace store run --pack $packs --at /data/train -- srun --mpi=pmix "
            f"sh -c 'cat /data/train/*/* >/dev/null; touch {self.shared}/cancelled; sleep 1000'")
        self.assertNotEqual(self.files_of_stores(), [])
        self.assertEqual(self.slurm.run("scancel", job).returncode, 0)
        self.check_job_ended_and_left_nothing(job)

    def test_a_script_that_ends_without_down_leaves_no_store(self):
        job = self.begin_store(
            "up", 'eval "$(millrace store up --pack $packs --at /data/train)"',
            f"srun --mpi=pmix sh -c 'cat /data/train/*/* >/dev/null' && touch {self.shared}/up")
        self.check_job_ended_and_left_nothing(job)

    def test_loader_continues_where_it_ended(self):
        state = self.shared / "state.json"
        arguments = (str(self.shared / "train"), "--state", str(state), "--epochs")
        printed = self.submit("loader.sbatch", *arguments, "2")
        self.assertEqual(self.counts_by_epoch(printed), {0: COUNT, 1: COUNT})
        self.assertEqual(sum(map(int, re.findall(r"copied (\d+) from the dataset", printed))), COUNT)
        for name in self.hosts.names:
            held = self.hosts.run(name, "ls", "/tmp/millrace-root").stdout.split()
            self.assertEqual(len(held), 2, held)
        printed = self.submit("loader.sbatch", *arguments, "4")
        self.assertEqual(printed.count("continues with epoch 2"), RANKS)
        self.assertEqual(self.counts_by_epoch(printed), {2: COUNT, 3: COUNT})
        self.assertEqual(printed.count("copied 0 from the dataset"), RANKS)

    def test_torchrun(self):
        printed = self.submit("torchrun.sbatch", str(self.shared / "train"), "--epochs", "2", TORCHRUN_OPTIONS="-r 1 -t 1")
        self.assertEqual(self.counts_by_epoch(printed), {0: COUNT, 1: COUNT})

    def test_torch_finds_its_ranks_next_to_those_of_mpi(self):
        # docs/guide/cluster.md, torchrun: what to do instead with Partial.dir.
        (self.shared / "both.py").write_text(BOTH)
        (self.shared / "both.sbatch").write_text(BOTH_SCRIPT)
        done = self.slurm.sbatch(self.shared / "both.sbatch", str(self.shared / "train"))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 6: (\d+) samples", done.stdout)),
                         [(str(rank), str(COUNT)) for rank in range(RANKS)])

    def test_every_script_is_tested(self):
        tested = Path(__file__).read_text()
        for script in EXAMPLES.glob("*.sbatch"):
            self.assertIn(f'"{script.name}"', tested)


if __name__ == "__main__":
    run_tests()
