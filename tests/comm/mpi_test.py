"""Ranks over MPI, under the real mpirun: the contracts of Comm and Messages in src/comm, and ranks that die.

Written for Open MPI; under another MPI, tests that need its options are skipped.

Usage: mpi_test.py COMM_RANKS COMM_GUEST MPIRUN [unittest arguments]"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RANKS, GUEST, MPIRUN = sys.argv[1:4]
RANK_COUNT = 4
# The folder for Open MPI's files: the default one, for all jobs of a user, disappears when another job ends.
SCRATCH_HOLDER = tempfile.TemporaryDirectory(prefix="mr")
SCRATCH = SCRATCH_HOLDER.name
# mpirun prints "Open MPI", mpiexec "OpenRTE".
VERSION = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=False).stdout
IS_OPEN_MPI = re.search("Open MPI|OpenRTE", VERSION) is not None
# In the output of the launcher: Open MPI, or MPICH.
RANK = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
SIZE = "${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}"
ENDED = r"millrace: rank {} \(process \d+ on \S+\) ended unexpectedly: "
# Ranks whose end mpirun does not see: it sees shells, which write down the exit code and wait for each other.
KEEP_EXIT_CODE = f"""
echo $? > "$EXIT_CODES/.{RANK}"
mv "$EXIT_CODES/.{RANK}" "$EXIT_CODES/{RANK}"
for i in $(seq 5000); do [ $(ls "$EXIT_CODES" | wc -l) = {SIZE} ] && exit 0; sleep 0.1; done
"""
BLIND = '"$@"' + KEEP_EXIT_CODE
# Runs a command without process_vm_readv and process_vm_writev, as in a container: they fail with EPERM.
WITHOUT_SINGLE_COPY = """
import ctypes, os, platform, struct, sys
first = {"x86_64": 310, "aarch64": 270}[platform.machine()]
code = [(0x20, 0, 0, 0), (0x15, 1, 0, first), (0x15, 0, 1, first + 1), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filter))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""
# Longer than a busy machine takes, and much shorter than ranks run that are not ended.
PATIENCE_S = 600


def environment(**more: str) -> dict:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "MILLRACE_"))}
    # Open MPI itself has leaks.
    return dict(inherited, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_orte_tmpdir_base=SCRATCH,
                ASAN_OPTIONS="detect_leaks=0", **more)


def mpirun(*command: str, ranks: int = RANK_COUNT, options: tuple = (), **more: str) -> subprocess.CompletedProcess:
    crowded = ["--oversubscribe"] if IS_OPEN_MPI else []
    try:
        return subprocess.run([MPIRUN, "-np", str(ranks), *crowded, *options, *command], env=environment(**more),
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as late:
        said = [os.fsdecode(text or b"")[-2000:] for text in (late.stdout, late.stderr)]
        raise AssertionError(f"after {PATIENCE_S} s the ranks have only said: {said}") from None


def clauses(kind: str) -> list[str]:
    lines = subprocess.run([RANKS, "names"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[0] for line in lines if line.split()[1] == kind]


class ContractTest(unittest.TestCase):
    def check(self, names: list[str], ranks: int = RANK_COUNT, **more: str) -> None:
        done = mpirun(RANKS, "check", *names, ranks=ranks, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in names:
            for rank in range(ranks):
                self.assertIn(f"{name} holds on rank {rank}\n", done.stdout)

    def test_the_clauses_that_succeed_hold(self):
        names = clauses("succeeds")
        self.assertGreater(len(names), 24)
        self.check(names)

    def test_the_clauses_hold_for_two_ranks(self):
        self.check(clauses("succeeds"), ranks=2)

    def test_the_clauses_hold_for_messages_in_many_pieces(self):
        self.check(clauses("succeeds"), PIECE_BYTES="20000")

    def test_each_clause_that_ends_in_failure_holds(self):
        names = clauses("fails")
        self.assertGreater(len(names), 12)
        for name in names:
            with self.subTest(name):
                self.check([name])

    def test_the_clauses_hold_without_the_lifeline(self):
        self.check(clauses("succeeds"), MILLRACE_LIFELINE="off")
        for name in ("WaitingRanksLearnWhichRankEnded", "AFailureReachesRanksWaitingForAMessage",
                     "MessagesFailAfterTheirCommEnds"):
            self.check([name], MILLRACE_LIFELINE="off")

    def test_the_clauses_hold_if_ranks_cannot_wake_each_other(self):
        self.check(clauses("succeeds"), MILLRACE_DOORBELL="off")

    @unittest.skipUnless(IS_OPEN_MPI, "its transports have their own names")
    def test_the_clauses_hold_over_tcp(self):
        names = clauses("succeeds")
        done = mpirun(RANKS, "check", *names, options=("--mca", "btl", "self,tcp", "--mca", "pml", "ob1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(" holds on rank "), RANK_COUNT * len(names))

    @unittest.skipUnless(IS_OPEN_MPI, "its transports have their own names")
    def test_message_clauses_hold_if_mpi_moves_messages_in_steps(self):
        names = [name for name in clauses("succeeds") if "Message" in name or "Question" in name or "Thread" in name]
        done = mpirun(RANKS, "check", *names, options=("--mca", "btl_vader_single_copy_mechanism", "none"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(" holds on rank "), RANK_COUNT * len(names))

    def test_a_container_that_forbids_to_copy_between_processes_costs_no_lines(self):
        done = mpirun(sys.executable, "-c", WITHOUT_SINGLE_COPY, RANKS, "check", "MessagesOfAnyLengthArrive")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(" holds on rank "), RANK_COUNT)
        self.assertEqual(done.stderr, "")

    @unittest.skipIf(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") < 8 << 30, "needs 8 GiB of memory")
    def test_a_message_over_two_gigabytes_arrives(self):
        done = mpirun(RANKS, "gather", str((2 << 30) + 12345), ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2147495993 bytes", done.stdout)
        done = mpirun(RANKS, "send", str((2 << 30) + 12345), ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2147495993 bytes", done.stdout)


class FailureTest(unittest.TestCase):
    def setUp(self):
        self.exit_codes = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.exit_codes)

    def work(self, how: str, rank: int, shell: str | None = None) -> tuple[str, dict[int, int]]:
        """Standard error and, if a shell keeps them, the exit codes of the ranks."""
        for file in self.exit_codes.iterdir():
            file.unlink()
        if shell:
            done = mpirun("sh", "-c", shell, "sh", RANKS, "work", how, str(rank), EXIT_CODES=str(self.exit_codes))
        else:
            done = mpirun(RANKS, "work", how, str(rank))
            self.assertNotEqual(done.returncode, 0)
        self.assertIn("4 ranks work", done.stdout)
        return done.stderr, {int(file.name): int(file.read_text()) for file in self.exit_codes.iterdir()}

    def assert_said_once(self, pattern: str, said: str) -> None:
        lines = [line for line in said.splitlines() if line.startswith("millrace:")]
        self.assertEqual(len(lines), 1, said)
        self.assertRegex(lines[0], pattern)

    def test_the_error_of_one_rank_is_printed_once_and_all_exit_1(self):
        for rank in (0, 2):
            said, codes = self.work("fail", rank, BLIND)
            self.assert_said_once(f"^millrace: rank {rank}: a/b.mrt: is cut short$", said)
            self.assertEqual(codes, {0: 1, 1: 1, 2: 1, 3: 1})

    def test_the_error_is_printed_before_mpirun_ends_the_ranks(self):
        said, _ = self.work("fail", 3)
        self.assert_said_once("^millrace: rank 3: a/b.mrt: is cut short$", said)

    def test_a_killed_rank_is_named_and_the_others_exit_1_without_mpirun(self):
        for how in ("kill", "kill-busy", "kill-moving", "kill-awaited", "kill-serving", "kill-taking"):
            for rank in (0, 2):
                with self.subTest(how=how, rank=rank):
                    said, codes = self.work(how, rank, BLIND)
                    self.assert_said_once(ENDED.format(rank), said)
                    expected = {other: 1 for other in range(RANK_COUNT)}
                    expected[rank] = 128 + signal.SIGKILL
                    self.assertEqual(codes, expected)

    def test_a_killed_rank_is_named_before_mpirun_ends_the_others(self):
        # The launcher of MPICH kills at once: a rank that computes has no time to report it.
        for how in ("kill", "kill-busy", "kill-moving") if IS_OPEN_MPI else ("kill", "kill-moving"):
            for rank in (0, 3):
                with self.subTest(how=how, rank=rank):
                    said, _ = self.work(how, rank)
                    self.assert_said_once(ENDED.format(rank), said)

    def test_a_rank_that_exits_early_with_code_0_is_reported(self):
        said, codes = self.work("exit", 1, BLIND)
        self.assert_said_once(ENDED.format(1), said)
        self.assertEqual(codes, {0: 1, 1: 0, 2: 1, 3: 1})

    def test_sigterm_still_ends_a_rank(self):
        said, codes = self.work("sigterm", 1, BLIND)
        self.assert_said_once(ENDED.format(1), said)
        self.assertEqual(codes, {0: 1, 1: 128 + signal.SIGTERM, 2: 1, 3: 1})


class ForkTest(unittest.TestCase):
    """Ranks that fork. A child is not a rank: it cannot use the connection, and does not break it."""

    def test_sigterm_ends_a_child_and_not_its_rank(self):
        for rank in (0, 1):
            done = mpirun(RANKS, "work", "fork-terminate", str(rank), ranks=2)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_child_that_exits_calls_no_mpi_and_its_calls_fail(self):
        for more in ({}, {"MILLRACE_LIFELINE": "off"}):
            done = mpirun(RANKS, "work", "fork-exit", "0", ranks=2, **more)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertNotIn("child of rank", done.stdout)

    def test_a_killed_rank_is_named_although_its_child_survives(self):
        for rank in (0, 2):
            with self.subTest(rank=rank), tempfile.TemporaryDirectory() as exit_codes:
                done = mpirun("sh", "-c", BLIND, "sh", RANKS, "work", "fork-kill", str(rank), EXIT_CODES=exit_codes)
                child = re.search("^helper ([0-9]+)$", done.stdout, re.MULTILINE)
                self.assertIsNotNone(child, done.stdout)
                os.kill(int(child.group(1)), signal.SIGKILL)  # fails if it has ended
                self.assertRegex(done.stderr, ENDED.format(rank))


class GuestTest(unittest.TestCase):
    """The program itself initializes and finalizes MPI."""

    def guest(self, *arguments: str) -> subprocess.CompletedProcess:
        return mpirun(GUEST, *arguments, ranks=3)

    def test_mpi_stays_usable_after_we_disconnect(self):
        done = self.guest("multiple")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "MPI still works: 3\n")

    def test_an_mpi_for_one_thread_is_refused_with_the_reason(self):
        done = self.guest("funneled")
        self.assertEqual(done.returncode, 1)
        self.assertIn("messages between ranks need MPI_THREAD_MULTIPLE", done.stderr)

    def test_messages_fail_after_mpi_is_finalized(self):
        done = self.guest("multiple", "early")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("after MPI: "), 3, done.stdout)


class ConnectTest(unittest.TestCase):
    def run_alone(self, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run([RANKS, "check", "RanksAreCounted"], env=environment(**more), capture_output=True,
                              text=True, timeout=60, check=False)

    def test_without_a_launcher_no_mpi_is_loaded(self):
        trace = self.run_alone(LD_DEBUG="files")
        self.assertIn("RanksAreCounted holds on rank 0\n", trace.stdout)
        self.assertNotRegex(trace.stderr, r"libmpi(ch)?\.|libmillrace_mpi")
        under_mpirun = mpirun(RANKS, "check", "RanksAreCounted", ranks=2, LD_DEBUG="files")
        self.assertRegex(under_mpirun.stderr, r"libmpi(ch)?\.")

    @unittest.skipUnless(IS_OPEN_MPI, "it passes variables on with its own option")
    def test_a_single_rank_under_mpirun_loads_no_mpi(self):
        trace = mpirun(RANKS, "check", "RanksAreCounted", ranks=1, options=("-x", "LD_DEBUG=files"))
        self.assertIn("RanksAreCounted holds on rank 0\n", trace.stdout)
        self.assertNotRegex(trace.stderr, "libmillrace_mpi")

    def test_the_user_can_disable_communication_between_ranks(self):
        done = mpirun(RANKS, "check", "RanksAreCounted", ranks=2, MILLRACE_COMM="single")
        self.assertEqual(re.findall("holds on rank (.)", done.stdout), ["0", "0"])

    @unittest.skipUnless(IS_OPEN_MPI, "the variable is specific to Open MPI")
    def test_a_launcher_of_another_mpi_is_named(self):
        done = self.run_alone(PMI_RANK="0", PMI_SIZE="4")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the launcher says PMI_SIZE=4, but MPI found 1 rank(s)", done.stderr)

    @unittest.skipUnless(IS_OPEN_MPI, "the variables are specific to Open MPI")
    def test_torchrun_workers_that_share_a_task_are_refused_before_mpi_starts(self):
        # Like workers of torchrun --nproc-per-node=2 in each of two tasks.
        workers = ('for i in 0 1; do RANK=$((2 * OMPI_COMM_WORLD_RANK + i)) WORLD_SIZE=4 LOCAL_RANK=$i '
                   'LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x "$0" check RanksAreCounted & done; wait')
        done = mpirun("sh", "-c", workers, RANKS, ranks=2)
        self.assertNotIn("MPI_ERRORS_ARE_FATAL", done.stderr)
        self.assertEqual(done.stderr.count("torchrun started 4 processes in tasks of another launcher"), 4, done.stderr)
        self.assertIn("start one process per rank, without torchrun: mpirun -n 4 python", done.stderr)

    def test_a_missing_library_is_named(self):
        done = self.run_alone(MILLRACE_COMM="mpi", MILLRACE_MPI_LIBRARY="/nowhere/lib.so")
        self.assertEqual(done.returncode, 1)
        self.assertIn("MILLRACE_MPI_LIBRARY names /nowhere/lib.so, which does not exist", done.stderr)

    def test_a_file_that_is_not_a_library_is_named(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            done = self.run_alone(MILLRACE_COMM="mpi", MILLRACE_MPI_LIBRARY=file.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{file.name}: cannot be loaded (", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
