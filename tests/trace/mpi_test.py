"""MPI-IO under the recorder: every call of tests/trace/mpi_io.c is recorded on its rank, POSIX calls are inside it, clocks
are compared, and a job with only one traced rank does not hang.

Usage: mpi_test.py MPI_PROGRAM LIBRARY MPIRUN [unittest arguments]"""

import collections
import glob
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import recording
from foreign_expectations import compare, inside

PROGRAM, LIBRARY, MPIRUN = sys.argv[1:4]
PEER_FIELDS_AT = 184  # ProcessPage::peer_offset_ns; docs/formats/recording.md
PEER_FIELDS = "<qqQQQQ"
PATIENCE_S = 300  # for a job on a busy machine
# The folder for Open MPI's files. By default, all jobs of a user share one, and each job may remove it at its end. A
# short name: it contains sockets, whose paths have at most 108 bytes.
MPI_SCRATCH = tempfile.TemporaryDirectory(prefix="mr")

MPI4PY_SCRIPT = """
import sys
from mpi4py import MPI
file = MPI.File.Open(MPI.COMM_WORLD, sys.argv[1], MPI.MODE_RDONLY)
buffer = bytearray(100)
for i in range(10):
    file.Read_at(i * 1000 + MPI.COMM_WORLD.rank, buffer)
file.Close()
"""

AGENT = """#!/bin/sh
host="$1"
shift
exec unshare --map-root-user --uts sh -c "hostname $host && exec sh -c '$*'"
"""


def python_with(module):
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


class MpiTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = os.path.join(os.path.realpath(scratch.name), "files")
        self.trace = os.path.join(os.path.realpath(scratch.name), "trace")
        os.mkdir(self.directory)
        self.data = os.path.join(self.directory, "data")
        with open(self.data, "wb") as file:
            file.write(os.urandom(65536))

    def mpirun(self, *command, ranks=2, **environment):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1",
                           OMPI_MCA_orte_tmpdir_base=MPI_SCRATCH.name, **environment)
        return subprocess.run([MPIRUN, "-n", str(ranks), *command], env=environment, timeout=PATIENCE_S,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def traced(self, *command, **environment):
        settings = " ".join("%s=%s" % pair for pair in environment.items())
        run = self.mpirun("env", *settings.split(), "LD_PRELOAD=" + LIBRARY, "MILLRACE_TRACE_DIR=" + self.trace,
                          *command)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return run

    def sessions(self):
        self.assertEqual(len(recording.read(self.trace)), 1)
        return recording.read(self.trace)[0]

    def ranks(self, session):
        """The process id of each rank: only of the program, which replaced `env`."""
        callers = {event.pid for event in session.events if event.call.startswith("MPI_File")}
        return {process.rank: process.pid for process in session.processes if process.pid in callers}

    def test_every_call_is_recorded_on_its_rank(self):
        self.traced(PROGRAM, self.directory)
        session = self.sessions()
        self.assertEqual(set(self.ranks(session)), {0, 1})
        for rank, pid in self.ranks(session).items():
            with open(os.path.join(self.directory, "expected.%d" % rank)) as file:
                lines = file.readlines()
            names = collections.Counter(line.split("\t")[0] for line in lines)
            self.assertEqual(set(names), set(recording.CALLS[3]))
            self.assertGreaterEqual(min(names.values()), 2)  # two for open and close of shared files, ten for the others
            events = [event for event in session.events if event.pid == pid]
            self.assertEqual(compare(lines, events, "MPI_"), [])

    def test_posix_calls_are_inside_the_mpi_calls(self):
        self.traced(PROGRAM, self.directory)
        events = self.sessions().events
        for outer_call, inner_calls in (("MPI_File_read_at", ("pread", "preadv", "read", "readv")),
                                        ("MPI_File_write_at", ("pwrite", "pwritev", "write", "writev"))):
            outer = [event for event in events if event.call == outer_call]
            self.assertTrue(outer)
            for event in outer:
                within = inside(event, events, inner_calls)
                self.assertTrue(within, event)
                self.assertEqual(sum(max(0, each.result) for each in within), event.result)
                self.assertEqual(within[0].offset, event.offset)

    def test_the_program_writes_the_same_file(self):
        self.assertEqual(self.mpirun(PROGRAM, self.directory).returncode, 0)
        with open(os.path.join(self.directory, "out"), "rb") as file:
            size = len(file.read())
        with open(os.path.join(self.directory, "expected.0")) as file:
            expected = file.read()
        os.unlink(os.path.join(self.directory, "out"))
        self.traced(PROGRAM, self.directory)
        self.assertEqual(os.path.getsize(os.path.join(self.directory, "out")), size)
        with open(os.path.join(self.directory, "expected.0")) as file:
            self.assertEqual(file.read(), expected)

    def test_levels_and_filters_exclude_events(self):
        self.traced(PROGRAM, self.directory, MILLRACE_TRACE_EXCLUDE="*/out")
        files = {event.file for event in self.sessions().events if event.call.startswith("MPI_File")}
        self.assertIn(self.data, files)
        self.assertNotIn(os.path.join(self.directory, "out"), files)
        shutil.rmtree(self.trace)
        self.traced(PROGRAM, self.directory, MILLRACE_TRACE_LEVELS="posix")
        self.assertFalse([event for event in self.sessions().events if event.call.startswith("MPI_File")])

    def peer_clocks(self):
        """For each rank: offsets, uncertainties and times, at MPI_Init and at MPI_Finalize."""
        clocks = {}
        for path in glob.glob(os.path.join(self.trace, "*", "*.rings")):
            with open(path, "rb") as file:
                page = file.read(4096)
            rank, = struct.unpack_from("<i", page, 24)
            fields = struct.unpack_from(PEER_FIELDS, page, PEER_FIELDS_AT)
            if fields[2] != 0:
                clocks[rank] = fields
        return clocks

    def test_clocks_of_one_host_agree_within_the_stated_uncertainty(self):
        self.traced(PROGRAM, self.directory, MILLRACE_TRACE_MPI_CLOCK="1")
        clocks = self.peer_clocks()
        self.assertEqual(set(clocks), {0, 1})
        for offset_begin, offset_end, doubt_begin, doubt_end, at_begin, at_end in clocks.values():
            self.assertGreater(doubt_begin, 0)
            self.assertGreater(doubt_end, 0)
            self.assertLessEqual(abs(offset_begin), doubt_begin)
            self.assertLessEqual(abs(offset_end), doubt_end)
            self.assertLess(at_begin, at_end)

    def test_clocks_are_not_compared_on_one_node(self):
        self.traced(PROGRAM, self.directory)
        self.assertEqual(self.peer_clocks(), {})
        self.assertEqual([name for name in os.listdir(self.trace) if name.startswith(".mpi")], [])

    # Makes the launcher say that each rank has its own node.
    def test_a_job_with_only_one_traced_rank_does_not_hang(self):
        for traced_rank in (0, 1):
            script = ('if [ "$OMPI_COMM_WORLD_RANK" = %d ]; then export LD_PRELOAD=%s; fi; '
                      'export OMPI_COMM_WORLD_LOCAL_SIZE=1; exec %s %s quiet'
                      % (traced_rank, LIBRARY, PROGRAM, self.directory))
            run = self.mpirun("sh", "-c", script, MILLRACE_TRACE_DIR=self.trace)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            self.assertEqual({process.rank for process in self.sessions().processes}, {traced_rank})
            self.assertEqual([name for name in os.listdir(self.trace) if name.startswith(".mpi")], [])
            shutil.rmtree(self.trace)

    # Makes each rank believe that it has its own node, and counts with strace how often the recorder sleeps.
    def sleeps(self, traced_ranks, shares_directory):
        script = ('export OMPI_COMM_WORLD_LOCAL_SIZE=1; rank=$OMPI_COMM_WORLD_RANK; case " %s " in *" $rank "*) '
                  'exec strace -E LD_PRELOAD=%s -E MILLRACE_TRACE_DIR=%s -e trace=nanosleep -o %s/sleeps.$rank %s %s quiet;; '
                  'esac; exec %s %s quiet'
                  % (" ".join(map(str, traced_ranks)), LIBRARY, self.trace + ("" if shares_directory else "-$rank"),
                     self.directory, PROGRAM, self.directory, PROGRAM, self.directory))
        run = self.mpirun("sh", "-c", script, ranks=3)
        self.assertEqual(run.returncode, 0, run.stderr)
        count = 0
        for rank in traced_ranks:
            with open(os.path.join(self.directory, "sleeps.%d" % rank)) as file:
                count += sum("nanosleep(" in line for line in file)
        return count

    def test_no_rank_waits_for_another_to_agree_about_clocks(self):
        for traced_ranks, shares_directory in (((0, 1, 2), True), ((0, 1, 2), False), ((0,), True), ((1,), True),
                                               ((0, 2), True)):
            with self.subTest(traced_ranks=traced_ranks, shares_directory=shares_directory):
                self.assertEqual(self.sleeps(traced_ranks, shares_directory), 0)

    # Two hosts by name: mpirun starts each rank with another host name.
    def test_clocks_of_two_hosts_are_compared(self):
        agent = os.path.join(self.directory, "agent")
        with open(agent, "w") as file:
            file.write(AGENT)
        os.chmod(agent, 0o755)
        if subprocess.run([agent, "name", "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("host names cannot be changed here, even in a namespace")
        options = ("--mca plm rsh --mca btl self,tcp --mca pml ob1 --host one:1,two:1 "
                   "-x LD_PRELOAD -x MILLRACE_TRACE_DIR").split()
        run = self.mpirun("--mca", "plm_rsh_agent", agent, *options, PROGRAM, self.directory, "quiet",
                          LD_PRELOAD=LIBRARY, MILLRACE_TRACE_DIR=self.trace)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        clocks = self.peer_clocks()
        self.assertEqual(set(clocks), {0, 1})
        for offset_begin, offset_end, doubt_begin, doubt_end, _, _ in clocks.values():
            self.assertGreater(min(doubt_begin, doubt_end), 0)
            self.assertLessEqual(abs(offset_begin), doubt_begin)  # it is the same clock
            self.assertLessEqual(abs(offset_end), doubt_end)
        self.assertEqual([name for name in os.listdir(self.trace) if name.startswith(".mpi")], [])

    def test_under_mpirun_the_rank_of_torchrun_counts(self):
        script = ("echo $OMPI_COMM_WORLD_RANK > %s/rank.$$; exec env RANK=$((1 - OMPI_COMM_WORLD_RANK)) WORLD_SIZE=2 "
                  "TORCHELASTIC_RUN_ID=x LD_PRELOAD=%s MILLRACE_TRACE_DIR=%s %s %s quiet"
                  % (self.directory, LIBRARY, self.trace, PROGRAM, self.directory))
        run = self.mpirun("sh", "-c", script)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        expected = {}
        for path in glob.glob(os.path.join(self.directory, "rank.*")):
            with open(path) as file:
                expected[int(path.rsplit(".", 1)[1])] = 1 - int(file.read())
        self.assertEqual({process.pid: process.rank for process in self.sessions().processes}, expected)

    def test_an_mpi_with_a_single_rank_does_not_override_the_launcher(self):
        environment = {"RANK": "3", "WORLD_SIZE": "8", "LD_PRELOAD": LIBRARY, "MILLRACE_TRACE_DIR": self.trace,
                       "OMPI_MCA_orte_tmpdir_base": MPI_SCRATCH.name}
        subprocess.run([PROGRAM, self.directory, "quiet"], env=os.environ | environment, check=True, timeout=PATIENCE_S)
        programs = [process for process in self.sessions().processes if process.origin == 0]
        self.assertEqual({(process.rank, process.world_size) for process in programs}, {(3, 8)})

    def test_mpi4py_is_recorded(self):
        python = python_with("mpi4py")
        self.assertIsNotNone(python, "no Python here has mpi4py (package python3-mpi4py)")
        self.traced(python, "-c", MPI4PY_SCRIPT, self.data)
        session = self.sessions()
        for rank, pid in self.ranks(session).items():
            offsets = [event.offset for event in session.events
                       if event.pid == pid and event.call == "MPI_File_read_at" and event.file == self.data]
            self.assertEqual(offsets, [i * 1000 + rank for i in range(10)])


unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
