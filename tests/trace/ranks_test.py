"""Which processes of a traced job are its ranks, for launchers inside launchers.

Usage: ranks_test.py MILLRACE LIBRARY PYTHON MPIRUN [unittest arguments]. PYTHON is the one with torch, if there is one;
MPIRUN is empty if there is none."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

MILLRACE, LIBRARY, PYTHON, MPIRUN = sys.argv[1:5]
PATIENCE_S = 600  # for a job on a busy machine
TASKS = 3
WORKERS = 2  # in each task
LAUNCHERS = ("OMPI_", "PMI", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "GROUP_RANK", "TORCHELASTIC_", "MILLRACE_")
# Open MPI's files: see mpi_test.py.
MPI_SCRATCH = tempfile.TemporaryDirectory(prefix="mr")


def srun(task):
    """The environment of a task of srun (Slurm 22.05)."""
    return {"SLURM_JOB_ID": "7", "SLURM_NTASKS": str(TASKS), "SLURM_PROCID": str(task), "SLURM_LOCALID": "0",
            "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(TASKS), "SLURM_STEP_NUM_NODES": str(TASKS),
            "SLURM_STEP_TASKS_PER_NODE": f"1(x{TASKS})"}


def srun_pmix(task):
    return srun(task) | {"PMIX_RANK": str(task), "PMIX_NAMESPACE": "slurm.pmix.7.0"}


def mpirun(task):
    """The environment of a task of mpirun (Open MPI 4.1)."""
    return {"OMPI_COMM_WORLD_RANK": str(task), "OMPI_COMM_WORLD_SIZE": str(TASKS), "OMPI_COMM_WORLD_LOCAL_RANK": "0",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "PMIX_RANK": str(task), "PMIX_NAMESPACE": "2068119553"}


def mpirun_in_srun(task):
    return srun(0) | mpirun(task)


def torchrun(task, worker):
    """The environment of a worker of torchrun --nproc-per-node=2 (torch 1.13)."""
    return {"RANK": str(WORKERS * task + worker), "WORLD_SIZE": str(TASKS * WORKERS), "LOCAL_RANK": str(worker),
            "LOCAL_WORLD_SIZE": str(WORKERS), "GROUP_RANK": str(task), "TORCHELASTIC_RUN_ID": "x"}


def agent(task, data):
    """A shell in the role of torchrun's agent: it starts a helper without, and workers with, torchrun's variables."""
    lines = [f"cat {data} > /dev/null"]
    for worker in range(WORKERS):
        variables = " ".join(f"{name}={value}" for name, value in torchrun(task, worker).items())
        lines.append(f"env {variables} head -c 100 {data} > /dev/null &")
    return ["sh", "-c", "\n".join([*lines, "wait"])]


class RanksTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = os.path.realpath(scratch.name)
        self.trace = os.path.join(self.directory, "trace")
        self.data = os.path.join(self.directory, "data")
        with open(self.data, "wb") as file:
            file.write(bytes(4096))

    @staticmethod
    def environment(more):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
        return inherited | more

    def run_it(self, command, **more):
        done = subprocess.run(command, env=self.environment(more), timeout=PATIENCE_S, cwd=self.directory,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def preloaded(self, command, **more):
        self.run_it(command, LD_PRELOAD=LIBRARY, MILLRACE_TRACE_DIR=self.trace, **more)

    def info(self):
        self.assertTrue(os.path.isdir(self.trace))
        done = subprocess.run([MILLRACE, "info", "--json", self.trace], env=self.environment({}), text=True, check=True,
                              stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    def commands_by_rank(self):
        """The programs of each rank; -1: of processes that are not ranks."""
        commands = {}
        for process in self.info()["processes"]:
            program = os.path.basename(process["command"].split()[0])
            commands.setdefault((process["rank"], process["world_size"]), set()).add(program)
        return commands

    def assert_workers_are_the_ranks(self):
        found = self.commands_by_rank()
        around = found.pop((-1, -1), set())
        self.assertLessEqual({"sh", "cat"}, around)
        self.assertEqual(set(found), {(rank, TASKS * WORKERS) for rank in range(TASKS * WORKERS)})
        for programs in found.values():
            self.assertIn("head", programs)
            self.assertLessEqual(programs, {"head", "env"})
        self.assertEqual(self.info()["ranks"], list(range(TASKS * WORKERS)))

    def test_the_workers_of_torchrun_are_ranks_and_its_agents_are_not(self):
        for outer in (srun, srun_pmix, mpirun, mpirun_in_srun):
            with self.subTest(outer.__name__):
                self.trace = os.path.join(self.directory, outer.__name__)
                for task in range(TASKS):
                    self.preloaded(agent(task, self.data), **outer(task))
                self.assert_workers_are_the_ranks()
                subprocess.run([MILLRACE, "compact", self.trace], check=True, stdout=subprocess.DEVNULL)
                self.assert_workers_are_the_ranks()

    def test_the_same_holds_under_millrace_trace(self):
        for option in ("--no-compact", "--all"):
            with self.subTest(option):
                self.trace = os.path.join(self.directory, option[2:])
                for task in range(TASKS):
                    self.run_it([MILLRACE, "trace", "-o", self.trace, option, "--", *agent(task, self.data)],
                                **mpirun(task))
                self.assert_workers_are_the_ranks()

    def test_without_torchrun_the_tasks_are_the_ranks(self):
        for outer in (srun, srun_pmix, mpirun, mpirun_in_srun):
            with self.subTest(outer.__name__):
                self.trace = os.path.join(self.directory, outer.__name__)
                for task in range(TASKS):
                    self.preloaded(["cat", self.data], **outer(task))
                self.assertEqual(self.commands_by_rank(), {(task, TASKS): {"cat"} for task in range(TASKS)})

    def test_the_script_of_a_batch_job_is_not_a_rank(self):
        batch = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": str(TASKS), "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
        self.preloaded(["cat", self.data], **batch)
        for task in range(TASKS):
            self.preloaded(["head", "-c", "10", self.data], **srun(task))
        found = self.commands_by_rank()
        self.assertEqual(found.pop((-1, -1)), {"cat"})
        self.assertEqual(found, {(task, TASKS): {"head"} for task in range(TASKS)})

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_a_real_torchrun_in_a_real_mpirun(self):
        script = os.path.join(self.directory, "worker.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"open({self.data!r}, 'rb').read()\n")
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        self.run_it([MPIRUN, "-n", str(TASKS), MILLRACE, "trace", "-o", self.trace, "--",
                     PYTHON, "-m", "torch.distributed.run", f"--nnodes={TASKS}", f"--nproc_per_node={WORKERS}",
                     "--rdzv_backend=c10d", f"--rdzv_endpoint=localhost:{port}", "--rdzv_id=ranks",
                     "-r", "1", "-t", "1",  # torch 1.13 with Python 3.11 needs these
                     "--log_dir", self.directory, script],
                    OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                    OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_orte_tmpdir_base=MPI_SCRATCH.name)
        info = self.info()
        self.assertEqual(info["ranks"], list(range(TASKS * WORKERS)))
        agents = [process for process in info["processes"] if "torch.distributed.run" in process["command"]]
        self.assertEqual({process["rank"] for process in agents}, {-1})
        workers = {process["rank"] for process in info["processes"]
                   if "worker.py" in process["command"] and process not in agents}
        self.assertEqual(workers, set(range(TASKS * WORKERS)))


unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
