"""Tests of --all: it records the system calls of programs from outside, without a preloaded library, and the programs do
not notice.

Usage: all_test.py DRIVER STATIC_WORKLOAD DYNAMIC_WORKLOAD RAW_CALLS REFUSING LIBRARY [unittest arguments]"""

import collections
import contextlib
import errno
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import recording

DRIVER, STATIC, DYNAMIC, RAW, REFUSING, LIBRARY = sys.argv[1:7]
PATIENCE_S = 300  # for short operations on a busy machine


class AllModeTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.directory = os.path.realpath(self.scratch.name)
        self.trace = os.path.join(self.directory, "trace")
        self.file = os.path.join(self.directory, "data")
        with open(self.file, "wb") as file:
            file.write(os.urandom(4096))

    def driver(self, command, library="-"):
        return [DRIVER, self.trace, library, *command]

    def run_all(self, command, library="-", **more):
        return subprocess.run(self.driver(command, library), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, cwd=self.directory, timeout=PATIENCE_S, env=dict(os.environ, **more))

    def workload(self, mode, *counts, program=STATIC, library="-", **more):
        return self.run_all([program, mode, self.file, *map(str, counts)], library, **more)

    def session(self):
        sessions = recording.read(self.trace)
        self.assertEqual(len(sessions), 1)
        self.assertEqual((sessions[0].lost_events, sessions[0].lost_processes), (0, 0))
        for process in sessions[0].processes:
            self.assertEqual((process.lost, process.lost_names), (0, 0), process)
        return sessions[0]

    def events(self, call=None, file=None):
        return [event for event in self.session().events
                if (call is None or event.call == call) and (file is None or event.file == file)]

    def reads_by(self, key):
        return collections.Counter(getattr(event, key) for event in self.events("pread", self.file))


class CallsTest(AllModeTest):
    def test_each_raw_call_is_recorded_ten_times_with_file_offset_size_and_result(self):
        os.mkdir(os.path.join(self.directory, "sub"))
        run = self.run_all([RAW])
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        found = collections.Counter()
        for event in self.events():
            key = (event.call, os.path.relpath(event.file, self.directory) if event.file else "", event.offset,
                   event.size, event.result, event.error)
            if event.call == "getdents64":
                key = key[:4]
            elif event.call in ("start", "exit"):
                continue
            found[key] += 1
        expected = collections.Counter()
        for i in range(10):
            expected.update(self.expected_calls(i))
        self.assertEqual(found, expected)

    @staticmethod
    def expected_calls(i):
        p = 1000 + i
        yield from [("openat", "data", None, 0, 3, 0), ("read", "data", 0, 100, 100, 0),
                    ("read", "data", 100, 50, 50, 0), ("lseek", "data", p, 0, p, 0),
                    ("readv", "data", p, 30, 30, 0), ("pread", "data", 256 * i, 64, 64, 0),
                    ("preadv", "data", 8 * i, 30, 30, 0), ("preadv2", "data", p + 30, 30, 30, 0),
                    ("write", "data", p + 60, 5, 5, 0), ("pwrite", "data", 2000 + i, 7, 7, 0),
                    ("writev", "data", p + 65, 30, 30, 0), ("pwritev", "data", 3000 + i, 30, 30, 0),
                    ("dup", "data", None, 0, 4, 0), ("read", "data", p + 95, 11, 11, 0),
                    ("fcntl", "data", None, 0, 100, 0), ("read", "data", p + 106, 12, 12, 0),
                    ("dup3", "data", None, 0, 200, 0), ("read", "data", p + 118, 13, 13, 0),
                    ("close", "data", None, 0, 0, 0), ("close", "data", None, 0, 0, 0),
                    ("close_range", "", 200, 0, 0, 0), ("read", "", None, 1, -1, 9)]
        yield from [("openat", "out", None, 0, 4, 0), ("sendfile", "data", 300, 40, 40, 0),
                    ("copy_file_range", "data", 500, 20, 20, 0), ("ftruncate", "out", None, 4000, 0, 0),
                    ("fallocate", "out", 16, 6000, 0, 0), ("fadvise", "out", 0, 100, 0, 0),
                    ("fsync", "out", None, 0, 0, 0), ("fdatasync", "out", None, 0, 0, 0),
                    ("close", "out", None, 0, 0, 0), ("openat", "log", None, 0, 4, 0),
                    ("write", "log", 9 * i, 9, 9, 0), ("close", "log", None, 0, 0, 0),
                    ("mmap", "data", 0, 4096, 0, 0), ("msync", "data", 0, 4096, 0, 0),
                    ("mapped", "data", 0, 4096, 4096, 0), ("munmap", "data", 0, 4096, 0, 0)]
        yield from [("fstat", "data", None, 4096, 0, 0), ("fstatat", "data", None, 4096, 0, 0),
                    ("fstat", "data", None, 4096, 0, 0), ("statx", "data", None, 4096, 0, 0),
                    ("faccessat", "missing", None, 0, -1, 2), ("mkdirat", "new", None, 0, 0, 0),
                    ("openat", "new", None, 0, 4, 0), ("openat", "new/file", None, 0, 5, 0),
                    ("close", "new/file", None, 0, 0, 0), ("renameat2", "new/file", None, 0, 0, 0),
                    ("linkat", "new/moved", None, 0, 0, 0), ("symlinkat", "new/pointer", None, 0, 0, 0),
                    ("readlinkat", "new/pointer", None, 100, 5, 0), ("getdents64", "new", None, 4096),
                    ("chdir", "new", None, 0, 0, 0), ("chdir", ".", None, 0, 0, 0),
                    ("unlinkat", "new/moved", None, 0, 0, 0), ("unlinkat", "new/linked", None, 0, 0, 0),
                    ("unlinkat", "new/pointer", None, 0, 0, 0), ("unlinkat", "new", None, 0, 0, 0),
                    ("close", "new", None, 0, 0, 0), ("openat", "", None, 0, -1, 14),
                    ("close", "data", None, 0, 0, 0)]

    def test_the_second_file_of_a_call_and_its_flags_are_recorded(self):
        os.mkdir(os.path.join(self.directory, "sub"))
        self.run_all([RAW])
        out = os.path.join(self.directory, "out")
        self.assertEqual({(e.other_file, e.other_offset) for e in self.events("sendfile")}, {(out, 0)})
        self.assertEqual({(e.other_file, e.other_offset) for e in self.events("copy_file_range")}, {(out, 40)})
        self.assertEqual({os.path.basename(e.other_file) for e in self.events("renameat2")}, {"moved"})
        self.assertEqual({e.detail for e in self.events("openat", out)}, {os.O_RDWR | os.O_CREAT | os.O_TRUNC})

    def test_calls_of_32_bit_programs_are_counted_as_lost(self):
        program = os.path.join(os.path.dirname(RAW), "trace_foreign_calls")
        if not os.path.exists(program):
            self.skipTest("this architecture has no 32-bit calls")
        code = self.run_all([program]).returncode
        if code == 77:
            self.skipTest("this kernel does not support 32-bit calls")
        self.assertEqual(code, 0)
        process, = recording.read(self.trace)[0].processes
        self.assertEqual((process.lost, process.lost_error), (11, errno.ENOSYS))

    def test_paths_are_recorded_without_process_vm_readv(self):
        run = subprocess.run([REFUSING, "process_vm_readv", *self.driver([STATIC, "preads", "data", "5"])],
                             cwd=self.directory, timeout=PATIENCE_S)
        self.assertEqual(run.returncode, 7)
        self.assertEqual(len(self.events("pread", self.file)), 5)

    def test_if_the_machine_refuses_the_error_says_what_and_the_next_step(self):
        for call, words in (("ptrace", "ptrace is refused (operation not permitted"),
                            ("seccomp", "the kernel refuses a seccomp filter (operation not permitted")):
            run = subprocess.run([REFUSING, call, *self.driver([STATIC, "preads", self.file, "5"])],
                                 stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S,
                                 env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))  # leak detection needs ptrace itself
            self.assertEqual(run.returncode, 125)
            self.assertIn(words, run.stderr)
            self.assertIn("or trace without --all", run.stderr)

    def test_filters_exclude_files(self):
        self.workload("files", 5, 1, ALL_INCLUDE="*data.3")
        self.assertEqual({e.file for e in self.events() if e.call in ("openat", "open", "read", "close")},
                         {self.file + ".3"})
        self.assertEqual(len(self.events("read")), 1)

    def test_processes_share_the_position_of_a_file(self):
        self.assertEqual(self.workload("shared_position").returncode, 0)
        self.assertEqual([(e.offset, e.size) for e in self.events("read", self.file)],
                         [(0, 100), (100, 200), (300, 300)])

    def test_files_opened_before_have_a_name_and_a_position(self):
        with open(self.file) as opened:
            os.lseek(opened.fileno(), 1000, os.SEEK_SET)
            subprocess.run(self.driver(["sh", "-c", "read line; exec cat"]), stdin=opened, stdout=subprocess.DEVNULL,
                           timeout=PATIENCE_S)
        reads = [e for e in self.events("read", self.file) if e.result > 0]
        self.assertTrue(reads and reads[0].offset == 1000, reads[:2])
        ends = {e.offset + e.result for e in reads}
        self.assertIn(4096, ends)


class LifeTest(AllModeTest):
    def test_threads_keep_their_events(self):
        self.assertEqual(self.workload("parallel", 8, 200).returncode, 0)
        self.assertEqual(sorted(self.reads_by("tid").values()), [200] * 8)
        self.assertEqual(len(self.reads_by("pid")), 1)

    def test_many_short_threads(self):
        self.assertEqual(self.workload("threads", 300, 3).returncode, 0)
        self.assertEqual(sum(self.reads_by("tid").values()), 900)

    def test_forked_children_record_under_their_own_process_id(self):
        self.assertEqual(self.workload("forks", 50, 60).returncode, 0)
        self.assertEqual(sorted(self.reads_by("pid").values()), [5] + [60] * 50)
        session = self.session()
        parent = next(p for p in session.processes if p.origin == 0)
        self.assertEqual({p.parent_pid for p in session.processes if p.origin == 1}, {parent.pid})
        self.assertEqual(sorted(p.exit_code for p in session.processes if p.origin == 1), list(range(50)))

    def test_children_of_a_raw_clone_are_recorded(self):
        self.assertEqual(self.workload("raw_fork", 10, 30).returncode, 0)
        self.assertEqual(sorted(self.reads_by("pid").values()), [30] * 10)

    def test_chains_of_static_and_dynamic_programs_are_recorded(self):
        script = "%s preads %s 11; sh -c '%s preads %s 12'; env -i %s preads %s 13; exec %s preads %s 14" % (
            STATIC, self.file, DYNAMIC, self.file, DYNAMIC, self.file, STATIC, self.file)
        run = self.run_all(["sh", "-c", script], LIBRARY)
        self.assertEqual((run.returncode, run.stderr), (7, ""))
        self.assertEqual(sorted(self.reads_by("pid").values()), [11, 12, 13, 14])
        starts = [os.path.basename(e.file) for e in self.events("start")]
        self.assertEqual(starts.count(os.path.basename(STATIC)), 2)
        execs = [e for e in self.events("exec") if e.result == 0 and e.file in (STATIC, DYNAMIC)]
        self.assertEqual(len(execs), 4)

    def test_a_preloaded_library_adds_its_levels_and_no_calls_of_its_own(self):
        program = "import subprocess; subprocess.run(['%s', 'preads', '%s', '20'])" % (DYNAMIC, self.file)
        run = self.run_all([sys.executable, "-S", "-c", program], LIBRARY)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(len(self.events("pread", self.file)), 20)
        self.assertEqual(len(self.events("vfork")) + len(self.events("fork")), 1)
        self.assertEqual([e.file for e in self.events() if e.file.startswith(self.trace)], [])
        self.assertEqual([e.file for e in self.events() if e.file.startswith("/proc/self/stat")], [])
        stdio = self.workload("errors", program=DYNAMIC, library=LIBRARY)
        self.assertEqual(stdio.returncode, 3)
        self.assertEqual(len(self.events("fopen", self.file)), 1)

    def test_many_threads_that_start_processes_lose_and_duplicate_none(self):
        run = self.run_all([os.path.join(os.path.dirname(RAW), "trace_crowd"), self.file])
        self.assertEqual((run.returncode, run.stderr), (6, ""))
        sizes = collections.Counter(e.size for e in self.events("pread", self.file))
        self.assertEqual((sizes[32], sizes[64]), (1000, 10))
        self.assertEqual(len(self.events("vfork")), 48)
        self.assertEqual(len(self.events("fork")), 52)
        self.assertEqual(len(self.events("exit")), 101)
        self.assertEqual(len(self.events("start")), 202)  # of forks, of the programs they became, and of the two programs

    def test_every_call_of_a_killed_process_is_recorded(self):
        run = self.workload("killed", 5000)
        self.assertEqual(run.returncode, -signal.SIGKILL)
        self.assertEqual(len(self.events("pread", self.file)), 5000)
        process, = self.session().processes
        self.assertEqual(process.exit_code, signal.SIGKILL)

    def test_the_exit_status_is_that_of_the_command(self):
        self.assertEqual(self.workload("preads", 3).returncode, 7)
        self.assertEqual(self.workload("aborted", 3).returncode, -signal.SIGABRT)
        for number in (signal.SIGTERM, signal.SIGSEGV, signal.SIGTRAP):
            self.assertEqual(self.run_all(["sh", "-c", "kill -%d $$" % number]).returncode, -number)

    def test_a_missing_command(self):
        run = self.run_all(["/nowhere/at/all"])
        self.assertEqual(run.returncode, 127)
        self.assertIn("/nowhere/at/all: cannot start", run.stderr)

    def test_results_and_errors_are_the_same_as_without_tracing(self):
        plain = subprocess.run([STATIC, "errors", self.file], stdout=subprocess.PIPE, text=True)
        watched = self.workload("errors")
        self.assertEqual((watched.returncode, watched.stdout), (plain.returncode, plain.stdout))

    def test_handlers_that_interrupt_calls_lose_and_duplicate_none(self):
        run = self.workload("handlers", 3000)
        self.assertEqual(run.returncode, 0)
        self.assertEqual(len([e for e in self.events("pread", self.file) if e.size == 512]), 3000)
        self.assertEqual(len([e for e in self.events("pread", self.file) if e.size == 64]), int(run.stdout))

    def test_an_interrupted_read_that_the_kernel_restarts_is_one_read(self):
        program = ("import os, signal, threading\n"
                   "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
                   "signal.siginterrupt(signal.SIGUSR1, False)\n"
                   "a, b = os.pipe()\n"
                   "def asleep(pid):\n"  # in its read: a process stopped by the tracer is in another state
                   "    with open('/proc/%d/stat' % pid) as stat: return ') S ' in stat.read()\n"
                   "if os.fork() == 0:\n"
                   "    import time\n"
                   "    def wait():\n"
                   "        time.sleep(0.05)\n"
                   "        while not asleep(os.getppid()): time.sleep(0.01)\n"
                   "    for _ in range(3):\n"
                   "        wait(); os.kill(os.getppid(), signal.SIGUSR1)\n"
                   "    wait(); os.write(b, b'x' * 77); os._exit(0)\n"
                   "os.read(a, 4321)\n")
        self.assertEqual(self.run_all([sys.executable, "-S", "-c", program]).returncode, 0)
        reads = [e for e in self.events("read", "<pipe>") if e.size == 4321]
        self.assertEqual([(e.result, e.error) for e in reads], [(77, 0)])

    def test_a_stopped_command_stops_and_can_continue(self):
        process = subprocess.Popen([STATIC, "preads", self.file, "10"])  # it also works without the tracer
        process.wait()
        script = ("%s preads %s 5; kill -STOP $$; %s preads %s 6" % (STATIC, self.file, STATIC, self.file))
        watched = subprocess.Popen(self.driver(["sh", "-c", script]))
        command = self.wait_until(lambda: self.child_of(watched.pid))
        self.wait_until(lambda: len(self.quiet_reads()) == 5)
        # A command is also in that state for a moment at each traced call.
        self.wait_until(lambda: all(self.state_after_10_ms(command) in "Tt" for _ in range(20)))

        def ended():
            if watched.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(command, signal.SIGCONT)  # repeated: the state above may not have been the stop
            return watched.poll() is not None

        self.wait_until(ended)
        self.assertEqual(watched.returncode, 7)
        self.assertEqual(len(self.events("pread", self.file)), 11)

    def test_a_daemon_outlives_the_launcher_and_is_recorded_to_its_end(self):
        run = self.workload("daemon", 500)
        self.assertEqual(run.returncode, 0)
        self.wait_until(lambda: len(self.quiet_reads()) == 500)
        self.wait_until(lambda: all(p.exited for p in recording.read(self.trace)[0].processes))

    def test_killing_the_launcher_does_not_kill_the_command(self):
        go = os.path.join(self.directory, "go")
        script = "until [ -e %s ]; do sleep 0.05; done; %s preads %s 30" % (go, STATIC, self.file)
        launcher = subprocess.Popen(self.driver(["sh", "-c", script]))
        self.wait_until(lambda: self.child_of(launcher.pid))
        launcher.kill()
        launcher.wait()
        with open(go, "w"):
            pass
        self.wait_until(lambda: len(self.quiet_reads()) == 30)

    def test_a_program_without_free_descriptors_is_recorded(self):
        self.assertEqual(self.workload("descriptors", 500, 100).returncode, 0)
        self.assertEqual(len(self.events("pread", self.file)), 100)
        dynamic = self.workload("descriptors", 500, 100, program=DYNAMIC, library=LIBRARY)
        self.assertEqual(dynamic.returncode, 0, dynamic.stderr)

    def test_the_verb_packs_both_recordings_of_a_program_as_one_process(self):
        millrace = os.environ.get("MILLRACE")
        if not millrace:
            self.skipTest("MILLRACE does not name the program")
        run = subprocess.run([millrace, "trace", "--all", "-o", self.trace, "--", DYNAMIC, "preads", self.file, "20"],
                             timeout=PATIENCE_S)
        self.assertEqual(run.returncode, 7)
        info = subprocess.run([millrace, "info", self.trace], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S).stdout
        self.assertIn("1 session, 1 process, 1 thread", info)
        self.assertRegex(info, r"pread +2\d ")  # the dynamic linker also makes some

    # The recording may still be in progress.
    def quiet_reads(self):
        try:
            return [e for e in recording.events(self.trace) if e.call == "pread" and e.file == self.file]
        except (OSError, AssertionError, ValueError, struct.error):  # one of its files is incomplete
            return []

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        self.fail("the condition was not met within %d seconds" % PATIENCE_S)

    @staticmethod
    def child_of(pid):
        with open("/proc/%d/task/%d/children" % (pid, pid)) as children:
            pids = children.read().split()
        if len(pids) != 1:
            return None
        try:
            with open("/proc/%s/comm" % pids[0]) as name:
                return int(pids[0]) if name.read().strip() == "sh" else None
        except FileNotFoundError:  # a process that started the command has ended
            return None

    def state_after_10_ms(self, pid):
        time.sleep(0.01)
        return self.state_of(pid)

    @staticmethod
    def state_of(pid):
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[7:])
