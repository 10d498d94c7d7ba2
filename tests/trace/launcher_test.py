"""Real programs under `millrace trace`, read back by `millrace export`.

Usage: launcher_test.py MILLRACE WORKLOAD_PROGRAM STATIC_WORKLOAD PYTHON [unittest arguments]. PYTHON needs
numpy, h5py, PIL and torch."""

import collections
import contextlib
import csv
import ctypes
import fcntl
import glob
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MILLRACE, WORKLOAD, STATIC_WORKLOAD, PYTHON = sys.argv[1:5]
PATIENCE_S = 300  # for short operations on a busy machine
F_SETSIG = 10  # fcntl has no name for it


def has_thread_sanitizer():
    with open(MILLRACE, "rb") as program:
        return b"__tsan_init" in program.read()


def start_with_pid(pid):
    """A sleeping process with the id of a process that has ended."""
    ids = (ctypes.c_int * 1)(pid)
    # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size
    arguments = (ctypes.c_uint64 * 10)(0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(ids), 1)
    clone3 = 435
    started = ctypes.CDLL(None, use_errno=True).syscall(clone3, arguments, ctypes.sizeof(arguments))
    if started == 0:
        os.execvp("sleep", ["sleep", "3600"])
    if started < 0:
        raise OSError(ctypes.get_errno(), "clone3")
    return started


def has_sanitizer():
    with open(MILLRACE, "rb") as program:
        return b"__asan_init" in program.read() or has_thread_sanitizer()


class LauncherTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = os.path.realpath(scratch.name)
        self.trace = os.path.join(self.directory, "trace")
        self.file = os.path.join(self.directory, "data")
        with open(self.file, "wb") as file:
            file.write(os.urandom(4096))

    def run_traced(self, command, *options):
        return subprocess.run([MILLRACE, "trace", "-o", self.trace, *options, "--", *command], cwd=self.directory,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)

    def run_python(self, code):
        script = os.path.join(self.directory, "script.py")
        with open(script, "w") as file:
            file.write(code)
        plain = subprocess.run([PYTHON, script], cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, check=False)
        traced = self.run_traced([PYTHON, script])
        self.assertEqual((traced.returncode, traced.stdout), (plain.returncode, plain.stdout), traced.stderr)
        self.assertEqual(plain.returncode, 0, plain.stderr)

    def events(self):
        output = os.path.join(self.directory, "events.csv")
        subprocess.run([MILLRACE, "export", self.trace, "--to", "csv", "-o", output], check=True,
                       stdout=subprocess.DEVNULL)
        with open(output, newline="") as file:
            return list(csv.DictReader(file))

    def reads(self):
        return sum(1 for event in self.events() if event["call"] == "pread")

    def pack(self):
        return subprocess.run([MILLRACE, "compact", self.trace], stdout=subprocess.PIPE, text=True, check=True).stdout

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    @staticmethod
    def children_of(pid):
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [int(child) for child in children.read().split()]

    def test_forked_children_with_threads_are_packed_completely(self):
        self.assertEqual(self.run_traced([WORKLOAD, "forked_threads", self.file, "12", "5000"]).returncode, 0)
        threads = collections.Counter((event["pid"], event["tid"]) for event in self.events()
                                      if event["call"] == "pread")
        self.assertEqual(sorted(threads.values()), [5000] * 60)
        self.assertEqual([name for name in os.listdir(self.trace) if not name.endswith(".mrt")], [])

    def test_the_option_about_mpi_clocks_reaches_the_command(self):
        command = [MILLRACE, "trace", "-o", self.trace, "--", "sh", "-c", "echo $MILLRACE_TRACE_MPI_CLOCK"]
        output = subprocess.run(command, env=os.environ | {"MILLRACE_TRACE_MPI_CLOCK": "0"}, stdout=subprocess.PIPE,
                              text=True, check=True).stdout
        self.assertEqual(output, "0\n")

    def test_a_killed_command_loses_nothing_and_is_reported_as_killed(self):
        self.assertEqual(self.run_traced([WORKLOAD, "killed", self.file, "700000"]).returncode, -signal.SIGKILL)
        self.assertEqual(self.reads(), 700_000)

    def test_signals_sent_to_the_launcher_reach_the_command(self):
        process = subprocess.Popen(
            [MILLRACE, "trace", "-o", self.trace, "--", "sh", "-c",
             "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done"],
            stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.communicate(timeout=PATIENCE_S)[0], "caught\n")
        self.assertEqual(process.returncode, 5)

    def start_and_let_it_pack(self, command):
        """Starts a launcher whose command has ended, and which waits while packing: for a file with a lease. Returns it and
        the process id of the command, which is free by then."""
        process = subprocess.Popen([MILLRACE, "trace", "-o", self.trace, "--", "sh", "-c",
                                    command + '; : > "$MILLRACE_TRACE_SESSION/0.rings"; echo $$; read line'],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        pid = int(process.stdout.readline())
        self.leased, = glob.glob(os.path.join(self.trace, "*", "0.rings"))
        self.lease = os.open(self.leased, os.O_RDWR)
        fcntl.fcntl(self.lease, F_SETSIG, signal.SIGURG)  # the default would end this process
        fcntl.fcntl(self.lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        process.stdin.write("\n")
        process.stdin.flush()
        self.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
        return process, pid

    def let_it_go_on(self, process):
        os.close(self.lease)
        _, error = process.communicate(timeout=PATIENCE_S)
        os.remove(self.leased)
        return error

    @unittest.skipIf(has_thread_sanitizer(), "ThreadSanitizer delays signals while a thread waits in a system call")
    def test_ctrl_c_while_packing_leaves_a_recording_that_can_be_packed(self):
        process, _ = self.start_and_let_it_pack(f"{WORKLOAD} preads {self.file} 5000")
        process.send_signal(signal.SIGINT)
        error = self.let_it_go_on(process)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertRegex(error, "compaction was interrupted; .*'millrace compact .*/trace' finishes it")
        self.assertEqual(self.reads(), 5000)
        self.assertIn("events compacted", self.pack())
        self.assertEqual(self.reads(), 5000)

    @unittest.skipIf(has_thread_sanitizer(), "ThreadSanitizer delays signals while a thread is in open()")
    def test_a_second_ctrl_c_while_packing_ends_the_launcher_at_once(self):
        process, _ = self.start_and_let_it_pack("true")

        def ends():
            process.send_signal(signal.SIGINT)
            return process.poll() is not None
        self.wait_until(ends)
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGINT)

    @unittest.skipUnless(os.geteuid() == 0, "only root may choose a process id")
    @unittest.skipIf(has_thread_sanitizer(), "ThreadSanitizer delays signals while a thread waits in a system call")
    def test_a_signal_after_the_end_of_the_command_reaches_no_other_process(self):
        process, pid = self.start_and_let_it_pack("true")
        try:
            other = start_with_pid(pid)
        except FileExistsError:
            self.skipTest("another process already has the id")
        self.addCleanup(os.waitpid, other, 0)
        self.addCleanup(os.kill, other, signal.SIGKILL)
        self.assertEqual(other, pid)
        process.send_signal(signal.SIGTERM)
        self.let_it_go_on(process)
        self.assertEqual(os.waitpid(other, os.WNOHANG), (0, 0))
        self.assertEqual(process.returncode, -signal.SIGTERM)

    STATIC = "statically linked: libraries cannot be preloaded; use 'millrace trace --all'"

    def say(self, *arguments):
        """The output of a verb for the trace, as one line."""
        output = subprocess.run([MILLRACE, *arguments, self.trace], stdout=subprocess.PIPE, text=True, check=True)
        return " ".join(output.stdout.split())

    def test_a_static_command_is_named_at_once_and_in_the_trace(self):
        traced = self.run_traced([STATIC_WORKLOAD, "preads", self.file, "10"])
        self.assertEqual(traced.returncode, 7)
        self.assertEqual(traced.stderr, f"millrace: warning: {STATIC_WORKLOAD} will not be recorded: {self.STATIC}\n")
        reason = f"{STATIC_WORKLOAD} was started 1 time and left no events: {self.STATIC}"
        self.assertIn(reason, self.say("info"))
        self.assertIn("exit 7", self.say("info"))
        self.assertIn("nothing was recorded: " + reason, self.say("report"))
        for verb in ("report", "advise"):
            self.assertNotIn("no problems found", self.say(verb))

    def test_a_static_command_is_named_in_a_trace_that_is_not_packed(self):
        self.run_traced([STATIC_WORKLOAD, "preads", self.file, "10"], "--no-compact")
        self.assertIn(self.STATIC, self.say("info"))
        self.assertIn(self.STATIC, self.say("report"))

    def test_a_script_of_a_static_interpreter_is_named(self):
        script = os.path.join(self.directory, "script")
        with open(script, "w") as file:
            file.write(f"#!{STATIC_WORKLOAD} preads\n" + "#" * 8192)  # the interpreter reads these
        os.chmod(script, 0o755)
        traced = self.run_traced([script])
        self.assertEqual(traced.returncode, 7)
        self.assertEqual(traced.stderr, f"millrace: warning: {script} will not be recorded: {self.STATIC}\n")

    def test_a_static_command_that_all_mode_records_is_not_named(self):
        traced = self.run_traced([STATIC_WORKLOAD, "preads", self.file, "10"], "--all")
        if traced.returncode != 7:
            self.skipTest(traced.stderr)  # for example, a container without ptrace
        self.assertEqual(traced.stderr, "")
        self.assertEqual(self.reads(), 10)
        self.assertNotIn("left no events", self.say("info"))

    def test_a_dynamic_program_started_by_a_static_one_is_a_separate_program(self):
        """Like a Go program that starts the next one with exec."""
        self.assertEqual(self.run_traced([STATIC_WORKLOAD, "exec", WORKLOAD, "10"]).returncode, 2)
        info = self.say("info")
        self.assertIn("2 processes", info)
        self.assertIn(self.STATIC, info)

    def test_a_daemon_outlives_the_launcher_and_can_be_packed_later(self):
        self.assertEqual(self.run_traced([WORKLOAD, "daemon", self.file, "5000"]).returncode, 0)
        self.wait_until(lambda: self.pack() and self.reads() == 5000)

    def test_a_daemon_that_records_only_after_the_launcher_ended_loses_nothing(self):
        with tempfile.TemporaryFile("w+") as output:  # not a pipe: the daemon would keep it open
            subprocess.run([MILLRACE, "trace", "-o", self.trace, "--", WORKLOAD, "late_daemon", self.file, "5000"],
                           stdout=output, check=True)
            output.seek(0)
            daemon = int(output.read())
        watched = os.pidfd_open(daemon)
        self.addCleanup(os.close, watched)
        with contextlib.ExitStack() as failed:
            failed.callback(os.kill, daemon, signal.SIGKILL)
            self.assertRegex(self.pack(), rf"process {daemon} \(.*\) is still running")
            failed.pop_all()
        os.kill(daemon, signal.SIGUSR1)
        self.assertTrue(select.select([watched], [], [], PATIENCE_S)[0])  # it has ended
        self.pack()
        self.assertEqual(self.reads(), 5000)
        self.assertEqual([name for name in os.listdir(self.trace) if not name.endswith(".mrt")], [])

    def test_a_killed_launcher_leaves_a_readable_recording(self):
        command = [WORKLOAD, "preads_then_waits", self.file, "5000"]
        process = subprocess.Popen([MILLRACE, "trace", "-o", self.trace, "--", *command])
        # A log begins when a ring of about two thousand events is full.
        self.wait_until(lambda: glob.glob(os.path.join(self.trace, "*", "*.log")))
        (workload,) = self.children_of(process.pid)
        process.kill()
        process.wait()
        watched = os.pidfd_open(workload)
        os.kill(workload, signal.SIGKILL)
        self.assertTrue(select.select([watched], [], [], PATIENCE_S)[0])  # it has ended
        os.close(watched)
        offsets = [int(event["offset"]) for event in self.events() if event["call"] == "pread"]
        self.assertGreater(len(offsets), 1000)
        self.assertEqual(offsets, [i % 8 * 512 for i in range(len(offsets))])

    def modes(self):
        found = {".": os.stat(self.trace).st_mode & 0o7777}
        for folder, folders, files in os.walk(self.trace):
            for name in folders + files:
                path = os.path.join(folder, name)
                found[os.path.relpath(path, self.trace)] = os.lstat(path).st_mode & 0o7777
        return found

    def test_a_trace_is_private_whatever_the_umask(self):
        for mask in (0o022, 0o000):
            self.trace = os.path.join(self.directory, f"parent-{mask}", "trace")
            previous = os.umask(mask)
            self.addCleanup(os.umask, previous)
            self.run_traced([WORKLOAD, "forked_threads", self.file, "12", "5000"], "--no-compact")
            recorded = self.modes()
            endings = {os.path.splitext(path)[1] for path in recorded}
            self.assertLessEqual({".rings", ".log", ".index"}, endings)
            for path, mode in recorded.items():
                is_directory = os.path.isdir(os.path.join(self.trace, path))
                self.assertEqual(mode, 0o700 if is_directory else 0o600, path)
            self.assertEqual(os.stat(os.path.dirname(self.trace)).st_mode & 0o7777, 0o700)
            self.pack()
            packed = self.modes()
            self.assertEqual(sorted(packed.values()), [0o600, 0o700], packed)

    # With a sanitizer, the recorder cannot be loaded into our program, which is traced here.
    @unittest.skipIf(has_sanitizer(), "the program has a sanitizer")
    def test_a_packed_trace_and_its_name_are_durable_before_the_recording_is_removed(self):
        self.run_traced([WORKLOAD, "forks", self.file, "5", "10"], "--no-compact")
        [session] = [entry.path for entry in os.scandir(self.trace) if entry.is_dir()]
        packing = os.path.join(self.directory, "packing")
        subprocess.run([MILLRACE, "trace", "-o", packing, "--", MILLRACE, "compact", self.trace], check=True,
                       stdout=subprocess.DEVNULL)
        removed = self.trace
        self.trace = packing
        events = sorted(self.events(), key=lambda event: int(event["begin_ns"]))
        calls = [(event["call"], event["file"]) for event in events]
        synced = calls.index(("fdatasync", session + ".mrt"))
        named = calls.index(("fsync", removed))
        removals = [i for i, (call, file) in enumerate(calls)
                    if call in ("unlink", "unlinkat", "rmdir", "remove") and file.startswith(session)]
        self.assertGreater(len(removals), 2)
        self.assertLess(synced, named)
        self.assertLess(named, removals[0])

    def test_numpy(self):
        self.run_python("import numpy\n"
                        "numpy.save('a.npy', numpy.arange(100000))\n"
                        "print(numpy.load('a.npy').sum(), numpy.load('a.npy', mmap_mode='r')[5])\n")
        files = collections.Counter((event["call"], os.path.basename(event["file"])) for event in self.events())
        self.assertGreaterEqual(files["read", "a.npy"], 1)
        self.assertGreaterEqual(files["mmap", "a.npy"], 1)
        self.assertGreaterEqual(files["mapped", "a.npy"], 1)
        written = sum(int(event["result"]) for event in self.events()
                      if event["file"].endswith("a.npy") and event["call"] in ("write", "fwrite"))
        self.assertGreaterEqual(written, 800_000)

    def test_h5py(self):
        self.run_python("import h5py, numpy\n"
                        "with h5py.File('a.h5', 'w') as f: f['x'] = numpy.arange(1000)\n"
                        "with h5py.File('a.h5') as f: print(f['x'][10:20].sum())\n")
        calls = {event["call"] for event in self.events() if event["level"] == "hdf5"}
        self.assertLessEqual({"H5Fcreate", "H5Fopen", "H5Dwrite", "H5Dread"}, calls)

    def test_pil(self):
        self.run_python("from PIL import Image\n"
                        "Image.new('RGB', (64, 64), (1, 2, 3)).save('a.png')\n"
                        "print(Image.open('a.png').getpixel((3, 3)))\n")
        calls = collections.Counter(event["call"] for event in self.events() if event["file"].endswith("a.png"))
        self.assertGreater(calls["read"], 0)
        self.assertGreater(calls["write"], 0)

    def test_a_torch_data_loader_with_four_workers(self):
        self.run_python("import os, torch\n"
                        "class Files(torch.utils.data.Dataset):\n"
                        "    def __len__(self): return 64\n"
                        "    def __getitem__(self, i):\n"
                        "        with open('data', 'rb', buffering=0) as f:\n"
                        "            f.seek(i * 64); return torch.frombuffer(bytearray(f.read(64)), dtype=torch.uint8)\n"
                        "if __name__ == '__main__':\n"
                        "    loader = torch.utils.data.DataLoader(Files(), batch_size=4, num_workers=4)\n"
                        "    print(sum(int(batch.sum()) for batch in loader))\n")
        reads = [event for event in self.events() if event["call"] == "read" and event["file"] == self.file]
        self.assertEqual(sorted(int(event["offset"]) for event in reads), [i * 64 for i in range(64)])
        self.assertEqual(len({event["pid"] for event in reads}), 4)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:], verbosity=2)
