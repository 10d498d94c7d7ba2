"""Tracing on several hosts: the host, rank and time of events, and reports over all hosts."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

import hosts as cluster
from hosts import LOGIN, Hosts

MILLRACE = os.environ["MILLRACE"]
LIBRARY = str(Path(os.environ["MILLRACE_BUILD"]) / "lib" / "libmillrace_trace.so")
RANKS_PER_HOST = 2
RANKS = 6
TURNS = 30

# Ranks open files in turn. Each writes down the true time before and after: on the clock of the machine, not of its
# host.
JOB = """
import json, os, signal, time
from pathlib import Path
from mpi4py import MPI

comm = MPI.COMM_WORLD
offset_ns = int(Path("/proc/self/timens_offsets").read_text().split()[1]) * 10**9
stamps = {}
for turn in range(int(os.environ["TURNS"])):
    comm.Barrier()
    if comm.rank == turn % comm.size:
        before = time.monotonic_ns()
        with open(f"turns/{turn:03}", "wb") as file:
            stamps[turn] = [before - offset_ns, time.monotonic_ns() - offset_ns]
            file.write(bytes(1000))
    comm.Barrier()
    if os.environ.get("KILLED") == f"{comm.rank} {turn}":
        os.kill(os.getpid(), signal.SIGKILL)
Path(f"stamps-{comm.rank}.json").write_text(json.dumps(stamps))
"""


def rank_of(turn: int) -> int:
    return turn % RANKS


def host_of(rank: int) -> str:
    return f"node{1 + rank // RANKS_PER_HOST}"


class TraceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cluster.begin(cls, Hosts(3))
        (cls.hosts.shared / "job.py").write_text(JOB)

    def work(self, *before: str, **environment: str) -> subprocess.CompletedProcess:
        """Runs the job on all hosts, with the command prefix `before`."""
        turns = self.hosts.shared / "turns"
        turns.mkdir(exist_ok=True)
        for file in turns.iterdir():
            file.unlink()
        return self.hosts.mpirun(*before, sys.executable, "job.py", ranks_per_host=RANKS_PER_HOST,
                                 environment={"TURNS": str(TURNS), **environment})

    def millrace(self, *arguments: str) -> str:
        done = self.hosts.run(LOGIN, MILLRACE, *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def info(self, *traces: str) -> dict:
        return json.loads(self.millrace("info", "--json", *traces))

    def turns_of(self, *traces: str) -> dict[int, dict]:
        """The event that opened the file of each turn."""
        rows = json.loads(self.millrace("query", "--json", *traces, (
            "select file, name, rank, host, begin from events where kind = 'open' and file like '%/turns/%'")))
        self.assertEqual(len(rows), len({row["file"] for row in rows}))
        return {int(row["file"].rsplit("/")[-1]): row for row in rows}

    def check_owners(self, turns: dict[int, dict]) -> None:
        self.assertEqual({turn: (row["rank"], row["host"]) for turn, row in turns.items()},
                         {turn: (rank_of(turn), host_of(rank_of(turn))) for turn in range(TURNS)})

    def check_times(self, turns: dict[int, dict], uncertainty_ns: dict[str, int]) -> None:
        """Checks that every event is between its true times on a common clock, within the uncertainty given by `info`."""
        self.assertLess(max(uncertainty_ns.values()), 10**9)  # the clocks of neighbours differ by 7000 s
        stamps = {}
        for rank in range(RANKS):
            stamps.update(json.loads((self.hosts.shared / f"stamps-{rank}.json").read_text()))
        lowest, highest = [], []  # bounds for the zero of the common clock
        for turn, row in turns.items():
            before, after = stamps[str(turn)]
            lowest.append(before - row["begin"] - uncertainty_ns[row["host"]])
            highest.append(after - row["begin"] + uncertainty_ns[row["host"]])
        self.assertLessEqual(max(lowest), min(highest))

    def check_common_clock(self, trace: str, alignments: set[str]) -> None:
        sessions = self.info(trace)["sessions"]
        self.assertEqual({s["host"]: s["alignment"] for s in sessions if s["alignment"] == "reference host"},
                         {"node1": "reference host"})
        self.assertLessEqual({s["alignment"] for s in sessions if s["host"] != "node1"}, alignments)
        self.check_times(self.turns_of(trace), {s["host"]: s["uncertainty_ns"] for s in sessions})


class LauncherTest(TraceTest):
    """Every rank runs under `millrace trace`, into one directory."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Few events, so that all numbers of a report are exact, even those that many ranks only estimate.
        done = cls.work(cls, MILLRACE, "trace", "-o", "trace", "--include", "*/shared/*", "--")
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)

    def test_hosts_and_ranks_are_right(self):
        info = self.info("trace")
        self.assertEqual(sorted(info["hosts"]), ["node1", "node2", "node3"])
        self.assertEqual(info["ranks"], list(range(RANKS)))
        self.assertEqual(info["problems"], [])
        self.check_owners(self.turns_of("trace"))

    def test_processes_of_all_hosts_ended_and_are_distinguished(self):
        # Process ids on the hosts are similar: two hosts may have the same one.
        info = self.info("trace")
        jobs = [p for p in info["processes"] if "job.py" in p["command"]]
        self.assertEqual(sorted(p["rank"] for p in jobs), list(range(RANKS)))
        self.assertEqual({(p["exited"], p["exit_code"]) for p in jobs}, {(True, 0)})
        self.assertEqual(len({(info["sessions"][p["session"]]["host"], p["pid"]) for p in jobs}), RANKS)

    def test_events_of_all_hosts_are_on_one_clock(self):
        self.check_common_clock("trace", {"MPI"})

    def test_the_table_of_hosts_has_their_files_and_bytes(self):
        rows = json.loads(self.millrace("report", "--json", "--by", "host", "trace"))["rows"]
        self.assertEqual(sorted(row["name"] for row in rows), ["node1", "node2", "node3"])
        for row in rows:
            self.assertGreaterEqual(row["files"], TURNS // 3, row)
            self.assertGreaterEqual(row["bytes_written"], 1000 * TURNS // 3, row)

    def test_ranks_on_all_hosts_make_the_report_of_one_process(self):
        alone = json.loads(self.millrace("report", "--json", "trace"))
        done = self.hosts.mpirun(MILLRACE, "report", "--json", "trace", ranks_per_host=RANKS_PER_HOST)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout), alone)
        self.assertEqual(sorted(alone["job"]["hosts"]), ["node1", "node2", "node3"])

    def test_the_report_is_printed_once(self):
        done = self.hosts.mpirun(MILLRACE, "report", "trace", ranks_per_host=RANKS_PER_HOST)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("6 ranks"), 1, done.stdout)
        self.assertIn("3 hosts", done.stdout)
        self.assertNotIn("\x1b", done.stdout)


class JobsTest(TraceTest):
    """One job per test."""

    def test_clocks_compared_by_mpi_agree(self):
        done = self.work(LD_PRELOAD=LIBRARY, MILLRACE_TRACE_DIR=str(self.hosts.shared / "preloaded"),
                         MILLRACE_TRACE_MPI_CLOCK="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.millrace("compact", "preloaded")
        self.assertEqual(list((self.hosts.shared / "preloaded").glob(".mpi-*")), [])
        self.check_owners(self.turns_of("preloaded"))
        self.check_common_clock("preloaded", {"MPI"})

    def test_separate_directories_of_the_hosts_are_one_job(self):
        done = self.work(MILLRACE, "trace", "-o", str(self.hosts.local / "trace"), "--")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = []
        for name in self.hosts.names:
            names.append(f"of_{name}")
            self.hosts.run(name, "cp", "-r", str(self.hosts.local / "trace"), str(self.hosts.shared / names[-1]), check=True)
        info = self.info(*names)
        self.assertEqual((sorted(info["hosts"]), info["ranks"]), (["node1", "node2", "node3"], list(range(RANKS))))
        report = json.loads(self.millrace("report", "--json", "--one-job", *names))
        self.assertEqual(sorted(report["job"]["hosts"]), ["node1", "node2", "node3"])
        turns = self.turns_of(*names)
        self.check_owners(turns)
        # All hosts use the wall clock of this machine.
        self.check_times(turns, {name: 10**7 for name in self.hosts.names})

    def test_a_second_job_into_the_same_directory_is_refused(self):
        self.assertEqual(self.work(MILLRACE, "trace", "-o", "twice", "--").returncode, 0)
        before = self.info("twice")["events"]
        done = self.work(MILLRACE, "trace", "-o", "twice", "--")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "holds a trace")
        self.assertEqual(self.info("twice")["events"], before)

    def test_the_launcher_passes_on_whether_mpi_compares_clocks(self):
        for asked, alignments in (("0", {"wall clock"}), ("1", {"MPI"})):
            done = self.work(MILLRACE, "trace", "-o", f"clock{asked}", "--", MILLRACE_TRACE_MPI_CLOCK=asked)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check_common_clock(f"clock{asked}", alignments)

    def test_the_trace_has_what_a_killed_rank_did(self):
        killed_at = 14  # of rank 2, on node2
        done = self.work(MILLRACE, "trace", "-o", "killed", "--", KILLED=f"{rank_of(killed_at)} {killed_at}")
        self.assertNotEqual(done.returncode, 0)
        turns = self.turns_of("killed")
        self.assertLessEqual(set(range(killed_at + 1)), set(turns))
        self.assertEqual((turns[killed_at]["rank"], turns[killed_at]["host"]), (2, "node2"))
        dead = [p for p in self.info("killed")["processes"] if p["rank"] == 2 and "job.py" in p["command"]]
        self.assertEqual([p["exited"] for p in dead], [False])


class TorchrunTest(TraceTest):
    """One torchrun per host, under mpirun: its workers are the ranks."""

    WORKER = "import os; open('of_rank-' + os.environ['RANK'], 'w').close()"

    def test_workers_are_ranks_and_agents_are_not(self):
        (self.hosts.shared / "worker.py").write_text(self.WORKER)
        done = self.hosts.mpirun(
            MILLRACE, "trace", "-o", "torchrun", "--", sys.executable, "-m", "torch.distributed.run", "--nnodes=3",
            "--nproc_per_node=2", "--rdzv_id=1", "--rdzv_backend=c10d", "--rdzv_endpoint=node1:29400", "-r", "1", "-t", "1",
            "worker.py")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = json.loads(self.millrace("query", "--json", "torchrun", (
            "select rank, host, file from events where kind = 'open' and file like '%/of_rank-%'")))
        self.assertEqual(sorted(row["rank"] for row in rows), list(range(RANKS)))
        self.assertTrue(all(row["file"].endswith(f"/of_rank-{row['rank']}") for row in rows), rows)
        info = self.info("torchrun")
        self.assertEqual(info["ranks"], list(range(RANKS)))
        agents = {p["rank"] for p in info["processes"] if "torch.distributed.run" in p["command"]}
        self.assertEqual(agents, {-1})

    def test_torchrun_started_on_each_host_by_hand_appends(self):
        (self.hosts.shared / "worker.py").write_text(self.WORKER)
        started = [subprocess.Popen(self.hosts.command(
            name, MILLRACE, "trace", "--append", "-o", "by-hand", "--", sys.executable, "-m", "torch.distributed.run",
            "--nnodes=3", "--nproc_per_node=2", "--rdzv_id=2", "--rdzv_backend=c10d", "--rdzv_endpoint=node1:29500", "-r", "1",
            "-t", "1", "worker.py"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for name in self.hosts.names]
        for run in started:
            printed = run.communicate(timeout=cluster.PATIENCE_S)[0]
            self.assertEqual(run.returncode, 0, printed)
        info = self.info("by-hand")
        self.assertEqual(info["ranks"], list(range(RANKS)))
        self.assertEqual(sorted(info["hosts"]), self.hosts.names)


class ContainerTest(TraceTest):
    """A program with another root, as in a container: it sees the library and the trace only through bind mounts."""

    # Arguments: ROOT LIBRARIES TRACE COMMAND... The container has the machine's system directories and none of its
    # other files.
    CONTAINER = """
    set -e
    root=$1 libraries=$2 trace=$3
    shift 3
    mount -t tmpfs tmpfs "$root"
    for part in bin etc lib lib64 usr proc dev; do
      [ -e "/$part" ] || continue
      if [ -h "/$part" ]; then cp -P "/$part" "$root/$part"; else mkdir "$root/$part"; mount --rbind "/$part" "$root/$part"; fi
    done
    mkdir -p "$root/millrace" "$root/trace" "$root/tmp"
    mount --bind "$libraries" "$root/millrace"
    mount --bind "$trace" "$root/trace"
    exec chroot "$root" env LD_PRELOAD=/millrace/libmillrace_trace.so MILLRACE_TRACE_DIR=/trace "$@"
    """

    def test_it_records_with_the_library_and_the_trace_mounted(self):
        for name in ("root", "contained"):
            (self.hosts.shared / name).mkdir()
        program = "open('/tmp/output', 'w').write('x')"
        done = self.hosts.mpirun(
            "unshare", "--mount", "sh", "-c", self.CONTAINER, "sh", str(self.hosts.shared / "root"),
            str(Path(LIBRARY).parent), str(self.hosts.shared / "contained"), "python3", "-c", program,
            environment={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.millrace("compact", "contained")
        rows = json.loads(self.millrace("query", "--json", "contained",
                                        "select rank, host from events where kind = 'open' and file = '/tmp/output'"))
        self.assertEqual(sorted((row["rank"], row["host"]) for row in rows), [(0, "node1"), (1, "node2"), (2, "node3")])


if __name__ == "__main__":
    cluster.run_tests()
