"""Tests of the recorder: it loses and changes nothing, in all kinds of processes.

Usage: recorder_test.py WORKLOAD_PROGRAM LIBRARY OTHER_LIBRARY [unittest arguments]"""

import collections
import contextlib
import glob
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import recording

WORKLOAD, LIBRARY, OTHER = sys.argv[1:4]


class RecorderTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.directory = os.path.realpath(self.scratch.name)
        self.trace = os.path.join(self.directory, "trace")
        self.file = os.path.join(self.directory, "data")
        with open(self.file, "wb") as file:
            file.write(os.urandom(4096))

    def run_traced(self, command, trace=None, **more):
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, MILLRACE_TRACE_DIR=trace or self.trace)
        environment.update(more)
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def workload(self, mode, *counts, **more):
        return self.run_traced([WORKLOAD, mode, self.file, *map(str, counts)], **more)

    def count(self, call, trace=None, file=None):
        return sum(1 for event in recording.events(trace or self.trace)
                   if event.call == call and event.file == (file or self.file))

    def lost(self):
        return sum(process.lost for session in recording.read(self.trace) for process in session.processes)

    def test_every_event_of_a_killed_process_is_recorded(self):
        for count in (1, 2045, 2046, 2047, 50_001, 700_000):
            trace = self.trace + str(count)
            run = self.workload("killed", count, trace=trace)
            self.assertEqual(run.returncode, -signal.SIGKILL)
            self.assertEqual(self.count("pread", trace), count)

    def test_a_kill_at_any_moment_leaves_complete_events_in_order(self):
        total = 0
        for attempt in range(20):
            trace = self.trace + str(attempt)
            environment = dict(os.environ, LD_PRELOAD=LIBRARY, MILLRACE_TRACE_DIR=trace)
            process = subprocess.Popen([WORKLOAD, "preads", self.file, "100000000"], env=environment)
            while not glob.glob(os.path.join(trace, "*", "*.rings")):
                self.assertIsNone(process.poll())
                time.sleep(0.001)
            time.sleep(attempt * 0.003)
            process.kill()
            process.wait()
            offsets = [event.offset for event in recording.events(trace) if event.call == "pread"]
            self.assertEqual(offsets, [i % 8 * 512 for i in range(len(offsets))])
            total += len(offsets)
        self.assertGreater(total, 0)

    def test_forked_children_record_under_their_own_process_id(self):
        self.assertEqual(self.workload("forks", 50, 60).returncode, 0)
        per_process = collections.Counter(
            event.pid for event in recording.events(self.trace) if event.call == "pread")
        self.assertEqual(sorted(per_process.values()), [5] + [60] * 50)

    def test_forked_children_with_threads_may_outgrow_their_child_page(self):
        self.assertEqual(self.workload("forked_threads", 12, 5000).returncode, 0)
        threads = collections.Counter((event.pid, event.tid) for event in recording.events(self.trace)
                                      if event.call == "pread")
        self.assertEqual(sorted(threads.values()), [5000] * 60)
        self.assertEqual(len({pid for pid, _ in threads}), 12)
        names = os.listdir(recording.read(self.trace)[0].path)
        self.assertTrue(any(name.startswith("areas-") and "@" in name for name in names), names)

    def test_children_forked_at_the_same_time_have_separate_logs(self):
        for attempt in range(5):
            trace = self.trace + str(attempt)
            run = self.workload("forks_at_once", 8, 100, trace=trace)
            self.assertEqual(run.returncode, 0, run.stderr)
            # Each child fills at least one ring, which then is in its log, with its process id in the header.
            writers = {}
            for log in glob.glob(os.path.join(trace, "*", "*.log")):
                with open(log, "rb") as file:
                    content = file.read()
                writers[log] = {struct.unpack_from("<I", content, at + 16)[0]
                                for at in range(0, len(content), recording.RING_BYTES)}
            self.assertEqual([pids for pids in writers.values() if len(pids) != 1], [])
            self.assertEqual(len(writers), 800)

    def test_children_of_a_raw_fork_are_distinguished_from_their_parent(self):
        self.assertEqual(self.workload("raw_fork", 10, 30).returncode, 0)
        per_process = collections.Counter(
            event.pid for event in recording.events(self.trace) if event.call == "pread")
        self.assertEqual(sorted(per_process.values()), [30] * 10)

    def test_a_file_position_shared_with_a_child_is_correct_in_both(self):
        self.assertEqual(self.workload("shared_position").returncode, 0)
        reads = [(event.offset, event.size) for event in recording.events(self.trace)
                 if event.call == "read" and event.file == self.file]
        self.assertEqual(reads, [(0, 100), (100, 200), (300, 300)])

    def test_a_thousand_short_threads_share_rings_and_keep_their_names(self):
        self.assertEqual(self.workload("threads", 1000, 3).returncode, 0)
        threads = collections.Counter(
            event.tid for event in recording.events(self.trace) if event.call == "pread")
        self.assertEqual(sum(threads.values()), 3000)
        self.assertEqual(set(threads.values()), {3})
        self.assertLess(max(process.rings for session in recording.read(self.trace)
                            for process in session.processes), 5)

    def test_threads_at_the_same_time(self):
        self.assertEqual(self.workload("parallel", 200, 5000).returncode, 0)
        threads = collections.Counter(
            event.tid for event in recording.events(self.trace) if event.call == "pread")
        self.assertEqual(sorted(threads.values()), [5000] * 200)

    def test_five_thousand_descriptors_leave_none_for_the_recorder(self):
        run = self.workload("descriptors", 5000, 20_000)
        self.assertEqual(run.returncode, 0, run.stderr)
        opened = int(run.stdout.split()[0])
        self.assertGreater(opened, 4900)
        self.assertEqual(self.count("read"), opened)
        self.assertEqual(self.count("pread"), 20_000)
        self.assertEqual(self.lost(), 0)

    def test_a_hundred_thousand_files(self):
        self.assertEqual(self.workload("files", 100_000, 0).returncode, 0)
        names = collections.Counter(
            event.file for event in recording.events(self.trace) if event.call == "read")
        self.assertEqual(len(names), 100_000)
        self.assertEqual(set(names.values()), {1})
        self.assertEqual({name.rsplit(".", 1)[0] for name in names}, {self.file})

    def test_handlers_that_read_in_the_middle_of_reads(self):
        run = self.workload("handlers", 300_000)
        self.assertEqual(run.returncode, 0, run.stderr)
        sizes = collections.Counter(
            event.size for event in recording.events(self.trace) if event.call == "pread")
        self.assertEqual(sizes, {512: 300_000, 64: int(run.stdout)})
        self.assertGreater(int(run.stdout), 0)

    def test_results_and_errno_are_the_same_as_without_the_recorder(self):
        plain = subprocess.run([WORKLOAD, "errors", self.file], stdout=subprocess.PIPE, text=True)
        traced = self.workload("errors")
        self.assertEqual(traced.stdout, plain.stdout)
        self.assertEqual(traced.returncode, plain.returncode)
        errors = [event.error for event in recording.events(self.trace) if event.error]
        self.assertEqual(errors[:4], [9, 2, 9, 22])

    def test_abort_loses_nothing(self):
        self.assertEqual(self.workload("aborted", 5000).returncode, -signal.SIGABRT)
        self.assertEqual(self.count("pread"), 5000)

    def test_a_daemon_that_closes_all_descriptors_is_still_recorded(self):
        self.assertEqual(self.workload("daemon", 5000).returncode, 0)
        deadline = time.time() + 30
        while self.count("pread") < 5000 and time.time() < deadline:
            time.sleep(0.1)
        self.assertEqual(self.count("pread"), 5000)

    def test_a_cleared_environment_is_completed(self):
        run = self.run_traced(["env", "-i", WORKLOAD, "preads", self.file, "10"])
        self.assertEqual(run.returncode, 7)
        self.assertEqual(self.count("pread"), 10)

    def test_a_child_can_be_excluded(self):
        run = self.run_traced(["env", "MILLRACE_TRACE=0", WORKLOAD, "preads", self.file, "10"])
        self.assertEqual(run.returncode, 7)
        self.assertEqual(self.count("pread"), 0)

    def test_os_exit_keeps_the_exit_code_and_the_events(self):
        script = "import os; os.pread(os.open(%r, 0), 10, 0); os._exit(9)" % self.file
        self.assertEqual(self.run_traced([sys.executable, "-c", script]).returncode, 9)
        self.assertEqual(self.count("pread"), 1)
        process, = recording.read(self.trace)[0].processes
        self.assertEqual((process.exited, process.exit_code), (True, 9))

    def test_all_start_methods_of_python_multiprocessing_are_recorded(self):
        for method in ("fork", "spawn", "forkserver"):
            trace = self.trace + method
            script = os.path.join(self.directory, method + ".py")
            with open(script, "w") as file:
                file.write("import multiprocessing, os\n"
                           "def work(path):\n"
                           "    fd = os.open(path, os.O_RDONLY)\n"
                           "    for i in range(100): os.pread(fd, 10, i)\n"
                           "    return os.getpid()\n"
                           "if __name__ == '__main__':\n"
                           "    with multiprocessing.get_context(%r).Pool(3) as pool:\n"
                           "        for pid in pool.map(work, [%r] * 6, 2): print(pid)\n" % (method, self.file))
            run = self.run_traced([sys.executable, script], trace=trace)
            self.assertEqual(run.returncode, 0, run.stderr)
            expected = collections.Counter()
            for pid in run.stdout.split():
                expected[int(pid)] += 100
            found = collections.Counter(event.pid for event in recording.events(trace)
                                        if event.call == "pread" and event.file == self.file)
            self.assertEqual(found, expected, method)

    def test_a_program_whose_libraries_read_before_main_is_one_process(self):
        # sed is linked with libselinux, whose constructor reads before ours has run.
        self.assertEqual(self.run_traced(["sed", "-n", "1!p", __file__]).returncode, 0)
        starts = [event for event in recording.events(self.trace) if event.call == "start"]
        self.assertEqual(len(starts), 1)
        self.assertEqual(len(recording.read(self.trace)[0].processes), 1)

    def test_another_preloaded_tool_works_in_either_order(self):
        for number, order in enumerate((LIBRARY + ":" + OTHER, OTHER + " " + LIBRARY)):
            trace = self.trace + str(number)
            run = self.workload("preads", 3000, trace=trace, LD_PRELOAD=order)
            self.assertEqual((run.returncode, run.stderr), (7, "other tool: 3000\n"))
            self.assertEqual(self.count("pread", trace), 3000)

    def test_filters_select_files(self):
        self.workload("preads", 10, MILLRACE_TRACE_INCLUDE="*/data")
        self.assertEqual({event.file for event in recording.events(self.trace)
                          if event.file and event.call != "start"}, {self.file})
        other = self.trace + "2"
        self.workload("preads", 10, trace=other, MILLRACE_TRACE_EXCLUDE="/etc/*:%s" % self.file)
        self.assertEqual(self.count("pread", other), 0)

    def test_levels_can_be_excluded(self):
        self.workload("errors", MILLRACE_TRACE_LEVELS="stdio")
        calls = {event.call for event in recording.events(self.trace)}
        self.assertIn("fopen", calls)
        self.assertNotIn("pread", calls)

    def test_an_unwritable_directory_does_not_affect_the_program(self):
        run = self.workload("preads", 10, trace="/proc/nowhere/trace")
        self.assertEqual(run.returncode, 7)
        self.assertIn("the program runs without being traced", run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1)

    def test_recordings_are_private_whatever_the_umask(self):
        for mask in (0o022, 0o000):
            trace = self.trace + str(mask)
            previous = os.umask(mask)
            self.addCleanup(os.umask, previous)
            self.assertEqual(self.workload("forked_threads", 12, 5000, trace=trace).returncode, 0)
            self.assertEqual(os.stat(trace).st_mode & 0o7777, 0o700)
            [session] = os.scandir(trace)
            self.assertEqual(session.stat().st_mode & 0o7777, 0o700)
            for entry in os.scandir(session.path):
                self.assertEqual(entry.stat().st_mode & 0o7777, 0o600, entry.name)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a directory to another user")
    def test_a_session_of_another_user_is_not_used(self):
        self.assertEqual(self.workload("preads", 100).returncode, 7)
        [session] = [entry.path for entry in os.scandir(self.trace)]
        before = sorted(os.listdir(session))
        nobody = 65534
        for path in [os.path.join(session, name) for name in before] + [session]:
            os.chown(path, nobody, nobody)
        # Detected by the owner of the session's page or, if there is none yet, of its directory.
        for _ in range(2):
            run = self.workload("preads", 100)
            self.assertEqual(run.returncode, 7)
            self.assertIn(f"millrace: cannot record into {session}: ", run.stderr)
            self.assertEqual(sorted(os.listdir(session)), before)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(session, "session"))
            before = sorted(os.listdir(session))

    def test_a_session_that_is_a_link_is_not_used(self):
        self.assertEqual(self.workload("preads", 100).returncode, 7)
        [session] = [entry.path for entry in os.scandir(self.trace)]
        page = os.path.join(session, "session")
        os.rename(page, page + ".moved")
        os.symlink(page + ".moved", page)
        run = self.workload("preads", 100)
        self.assertEqual(run.returncode, 7)
        self.assertIn("millrace: cannot record into ", run.stderr)
        self.assertEqual(self.count("pread"), 100)

    def test_real_programs_behave_as_without_the_recorder(self):
        os.mkdir(os.path.join(self.directory, "tree"))
        for number in range(20):
            with open(os.path.join(self.directory, "tree", "f%d" % number), "w") as file:
                file.write("line %d\n" % number * 50)
        tree = os.path.join(self.directory, "tree")
        copy = os.path.join(self.directory, "copy")
        for command in (["cat", self.file], ["find", tree, "-type", "f"], ["tar", "cf", "-", "-C", tree, "."],
                        ["sort", os.path.join(tree, "f7")], ["wc", self.file], ["sha256sum", self.file],
                        ["cp", "-r", tree, copy + "X"], ["grep", "-r", "line 3", tree], ["dd", "if=" + self.file, "bs=512"],
                        ["sh", "-c", "head -c 100 %s | md5sum; exit 4" % self.file]):
            plain = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            trace = self.trace + command[0]
            environment = dict(os.environ, LD_PRELOAD=LIBRARY, MILLRACE_TRACE_DIR=trace)
            if command[0] == "cp":
                command = ["cp", "-r", tree, copy + "Y"]
            traced = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.assertEqual(traced.stdout, plain.stdout, command)
            self.assertEqual(traced.returncode, plain.returncode, command)
            self.assertGreater(len(recording.events(trace)), 3, command)


@unittest.skipUnless(os.geteuid() == 0, "mounting a small file system needs root")
class FullDiskTest(RecorderTest):
    def test_on_a_full_disk_lost_events_are_counted_and_the_program_continues(self):
        small = os.path.join(self.directory, "small")
        os.mkdir(small)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", small])
        self.trace = os.path.join(small, "trace")
        run = self.workload("full", 400_000)
        self.assertEqual((run.returncode, run.stdout), (0, "done\n"))
        kept = self.count("pread")
        process, = recording.read(self.trace)[0].processes
        self.assertGreater(kept, 40_000)
        self.assertEqual(kept + process.lost, 400_000)
        self.assertEqual(process.lost_error, 28)

    def test_threads_that_fill_a_disk_do_not_erase_each_others_events(self):
        for attempt in range(8):
            small = os.path.join(self.directory, "small%d" % attempt)
            os.mkdir(small)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk" % (5000 + attempt * 68), "tmpfs", small], check=True)
            self.addCleanup(subprocess.run, ["umount", "-l", small])
            self.trace = os.path.join(small, "trace")
            self.assertEqual(self.workload("parallel", 8, 30_000).returncode, 0)
            kept = self.count("pread")
            process, = recording.read(self.trace)[0].processes
            self.assertEqual(kept + process.lost, 240_000)
            self.assertEqual(process.lost_error, 28)
            self.assertGreater(kept, 8 * 2046)

    def test_if_the_disk_is_full_from_the_start_the_session_counts_lost_events(self):
        small = os.path.join(self.directory, "small")
        os.mkdir(small)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", small], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", small])
        self.trace = os.path.join(small, "trace")
        run = self.workload("full", 1000)
        self.assertEqual((run.returncode, run.stdout), (0, "done\n"))
        session, = recording.read(self.trace)
        self.assertEqual((session.lost_processes, session.lost_error), (1, 28))
        self.assertGreater(session.lost_events, 1000)


# The tests of the base class have already run.
for name in list(vars(RecorderTest)):
    if name.startswith("test_") and name not in vars(FullDiskTest):
        setattr(FullDiskTest, name, None)

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)
