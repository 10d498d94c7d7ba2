"""`millrace top` with real programs that run under the recorder: its counts must match what they did.

Usage: top_test.py MILLRACE WORKLOAD_PROGRAM [unittest arguments]"""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

MILLRACE, WORKLOAD = sys.argv[1:3]
PATIENCE_S = 120  # after that, a program is considered hung, and is killed

# The calls made by Python that top counts as reads.
READS = {"read", "pread", "readv", "preadv", "fread", "fgets", "fgetc", "getline"}

# Reads until it is stopped, then prints how much it has read.
READER = """
import os, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
fd = os.open(sys.argv[1], os.O_RDONLY)
total = 0
print("ready", flush=True)
while not stop:
    total += len(os.pread(fd, 512, 0))
    if total % 512000 == 0: time.sleep(0.001)
print(total, flush=True)
"""


def documents(text):
    decoder, at, found = json.JSONDecoder(), 0, []
    while text[at:].strip():
        document, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        found.append(document)
    return found


class TopTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = os.path.realpath(scratch.name)
        self.trace = os.path.join(self.directory, "trace")
        self.file = os.path.join(self.directory, "data")
        with open(self.file, "wb") as file:
            file.write(os.urandom(4096))

    def start(self, command, **more):
        process = subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, start_new_session=True, **more)
        self.watch(process)
        return process

    def watch(self, process):
        """Ends the process with the test, or after PATIENCE_S, so that nothing waits for it forever."""
        watchdog = threading.Timer(PATIENCE_S, self.kill, [process])
        watchdog.start()
        self.addCleanup(self.end, process, watchdog)

    @staticmethod
    def kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)  # the launcher and its children
        except ProcessLookupError:
            pass

    def end(self, process, watchdog):
        watchdog.cancel()
        self.kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()

    @staticmethod
    def finish(process):
        """The rest of its output. Not communicate(), which skips what readline() has buffered."""
        out, err = process.stdout.read(), process.stderr.read()
        process.wait()
        return out, err

    @staticmethod
    def run_millrace(*arguments):
        return subprocess.run([MILLRACE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S, check=False)

    def start_top(self, *options):
        """Starts a top that waits for the job, so that it sees the whole job."""
        top = self.start([MILLRACE, "top", *options, self.trace])
        self.assertIn("waiting for the job to start", top.stderr.readline())
        return top

    def start_reader(self, *options):
        reader = self.start([MILLRACE, "trace", "-o", self.trace, *options, "--", sys.executable, "-c", READER,
                             self.file])
        self.assertEqual(reader.stdout.readline(), "ready\n")
        return reader

    def stop_reader(self, reader):
        """Stops the reader. Returns the number of bytes that it reports."""
        reader.send_signal(signal.SIGTERM)
        return int(self.finish(reader)[0])

    def documents_until(self, top, is_wanted):
        """The documents that a top with --json prints, up to the first wanted one."""
        found, lines = [], []
        for line in iter(top.stdout.readline, ""):
            lines.append(line)
            if line == "}\n":
                found.append(json.loads("".join(lines)))
                lines = []
                if is_wanted(found[-1]):
                    return found
        self.fail("top ended before the wanted document: %s" % found[-1:])

    def recorded_bytes(self, calls):
        info = self.run_millrace("info", "--json", self.trace)
        self.assertEqual(info.returncode, 0, info.stderr)
        return sum(call["bytes"] for call in json.loads(info.stdout)["calls"] if call["call"] in calls)

    def read_of_file(self, found):
        """The bytes read from self.file in windows that list it."""
        return sum(f["read_bytes"] for d in found for f in d["files"] if f["path"] == self.file)

    def total_of(self, mode, *counts, options=(), interval="100ms", returncode=None):
        top = self.start_top("--json", "--interval", interval)
        self.finish(self.start([MILLRACE, "trace", "-o", self.trace, *options, "--", WORKLOAD, mode, self.file,
                                *map(str, counts)]))
        out, err = self.finish(top)
        self.assertEqual((top.returncode, err), (0, ""))
        found = documents(out)
        self.assertEqual(found[-1]["state"], "ended")
        self.assertEqual([d["problems"] for d in found if d["problems"]], [])
        self.assertEqual(sum(d["window"]["reads"]["bytes"] for d in found), found[-1]["total"]["reads"]["bytes"])
        # The workload reads no other file, so each window with reads lists this one.
        self.assertEqual(self.read_of_file(found), found[-1]["total"]["reads"]["bytes"])
        return found[-1]["total"]["reads"]

    def expect_reads(self, count, *job, **more):
        reads = self.total_of(*job, **more)
        self.assertEqual((reads["count"], reads["bytes"]), (count, 512 * count))

    def test_the_windows_of_a_job_add_up_to_what_it_read(self):
        self.expect_reads(900_000, "preads", 900_000)

    def test_windows_add_up_if_the_packer_is_always_first(self):
        self.expect_reads(2_000_000, "preads", 2_000_000, interval="1s")

    def test_windows_add_up_without_a_packer(self):
        self.expect_reads(300_000, "preads", 300_000, options=["--no-compact"])

    def test_windows_add_up_for_concurrent_threads(self):
        self.expect_reads(8 * 40_000, "parallel", 8, 40_000)

    def test_windows_add_up_for_consecutive_threads(self):
        self.expect_reads(200 * 5000, "threads", 200, 5000)

    def test_windows_add_up_for_forked_children_with_threads(self):
        self.expect_reads(12 * 5 * 5000, "forked_threads", 12, 5000)

    def test_windows_add_up_for_many_short_children(self):
        self.expect_reads(300 * 50 + 5, "forks", 300, 50)

    def test_windows_add_up_for_a_killed_job(self):
        self.expect_reads(700_000, "killed", 700_000)

    def test_a_job_whose_launcher_is_killed(self):
        top = self.start_top("--json", "--interval", "100ms")
        launcher = self.start_reader()
        found = self.documents_until(top, lambda d: self.read_of_file([d]) > 0)
        with open("/proc/%d/task/%d/children" % (launcher.pid, launcher.pid)) as children:
            job = int(children.read().split()[0])
        launcher.kill()
        os.kill(job, signal.SIGKILL)
        out, err = self.finish(top)
        self.assertEqual((top.returncode, err), (0, ""))
        found += documents(out)
        last = found[-1]
        self.assertEqual((last["state"], last["processes"]), ("ended", 0))
        self.assertEqual(last["total"]["reads"]["bytes"], self.recorded_bytes(READS))
        # Less if a window listed only Python's own files.
        self.assertLessEqual(self.read_of_file(found), self.recorded_bytes({"pread"}))

    def test_once_shows_a_window_of_a_running_job(self):
        reader = self.start_reader()
        windows, busy = [], []
        while len(busy) < 2:  # the reader may have had no CPU for a whole window
            self.assertIsNone(reader.poll())
            run = self.run_millrace("top", "--once", "--json", "--interval", "300ms", self.trace)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            windows += documents(run.stdout)
            if windows[-1]["window"]["reads"]["count"] > 0 and windows[-1]["concurrency"] > 0:
                busy.append(windows[-1])
        self.assertEqual(self.run_millrace("top", "--once", "--interval", "50ms", self.trace).returncode, 0)
        total = self.stop_reader(reader)
        for window in windows:
            self.assertEqual((window["state"], window["hosts"], window["processes"]), ("running", 1, 1))
            self.assertGreaterEqual(window["window_ns"], 300e6)
            self.assertLessEqual(window["concurrency"], 1)
        for window in busy:
            self.assertEqual(window["waiting"]["by"], "io")
            self.assertTrue(0 < window["waiting"]["share"] <= 1)
            self.assertEqual(window["files"][0]["path"], self.file)
            self.assertIn("pread", window["workers"][0]["command"])
        self.assertLessEqual(sum(w["window"]["reads"]["bytes"] for w in windows), total)

    def test_several_launches_are_one_job(self):
        top = self.start_top("--json", "--interval", "100ms")
        readers = [self.start_reader("--append") for _ in range(2)]
        found = self.documents_until(top, lambda d: d["processes"] == 2 and self.read_of_file([d]) > 0)
        total = sum([self.stop_reader(reader) for reader in readers])
        out, err = self.finish(top)
        self.assertEqual((top.returncode, err), (0, ""))
        found += documents(out)
        self.assertEqual(max(d["processes"] for d in found), 2)
        self.assertEqual(self.recorded_bytes({"pread"}), total)
        self.assertEqual(found[-1]["total"]["reads"]["bytes"], self.recorded_bytes(READS))
        # Less if a window listed only Python's own files.
        self.assertLessEqual(self.read_of_file(found), total)

    def test_top_changes_nothing_in_the_directory(self):
        reader = self.start_reader("--no-compact")
        self.stop_reader(reader)
        session = os.path.join(self.trace, os.listdir(self.trace)[0])
        before = {name: os.stat(os.path.join(session, name)) for name in os.listdir(session)}
        run = self.run_millrace("top", "--interval", "50ms", self.trace)
        self.assertIn("the job has ended", run.stdout)
        after = {name: os.stat(os.path.join(session, name)) for name in os.listdir(session)}
        self.assertEqual({n: (s.st_size, s.st_mtime_ns) for n, s in before.items()},
                         {n: (s.st_size, s.st_mtime_ns) for n, s in after.items()})

    def run_on_terminal(self, leave, **variables):
        """Returns its exit code and output. Calls leave(top, keyboard) after it has drawn three times."""
        master, slave = pty.openpty()
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
        environment.update(TERM="xterm", **variables)
        top = subprocess.Popen([MILLRACE, "top", "--interval", "100ms", self.trace], stdin=slave, stdout=slave,
                               stderr=slave, env=environment, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.addCleanup(os.close, master)
        self.watch(top)
        shown, is_leaving = b"", False
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the terminal was closed
                break
            if not part:
                break
            shown += part
            if not is_leaving and shown.count(b"calls at a time") >= 3:
                leave(top, master)
                is_leaving = True
        return top.wait(), shown.decode()

    def test_on_a_terminal_it_updates_in_place_and_q_quits(self):
        reader = self.start_reader()
        code, shown = self.run_on_terminal(lambda _, keyboard: os.write(keyboard, b"q"), NO_COLOR="1", COLUMNS="80")
        self.assertEqual(code, 0)
        self.assertRegex(shown, r"\x1b\[\d+A\r")
        self.assertNotRegex(shown, r"\x1b\[\d+m")
        for line in re.split(r"\r?\n", re.sub(r"\x1b\[\d*[A-Z]", "", shown)):
            self.assertLessEqual(len(line.strip("\r")), 80, line)
        reader.send_signal(signal.SIGTERM)

    def test_an_interrupt_ends_it_too(self):
        reader = self.start_reader()
        code, shown = self.run_on_terminal(lambda top, _: top.send_signal(signal.SIGINT))
        self.assertEqual(code, 0)
        self.assertRegex(shown, r"\x1b\[1m")
        reader.send_signal(signal.SIGTERM)

    def test_without_a_terminal_each_interval_is_a_block_of_text(self):
        top = self.start_top("--interval", "100ms")
        # A job that runs until two blocks were printed.
        job = self.start([MILLRACE, "trace", "-o", self.trace, "--", "sh", "-c", '"$0" preads "$1" 900000; read line',
                          WORKLOAD, self.file], stdin=subprocess.PIPE)
        out = ""
        while out.count("calls at a time") < 2:
            line = top.stdout.readline()
            self.assertTrue(line, out)
            out += line
        job.stdin.close()
        self.finish(job)
        rest, err = self.finish(top)
        self.assertEqual((top.returncode, err), (0, ""))
        out += rest
        self.assertNotIn("\x1b", out)
        self.assertIn("it read 439 MiB", out)

    def test_an_unreadable_file_next_to_a_job_is_named_once(self):
        os.makedirs(os.path.join(self.trace, "broken"))
        with open(os.path.join(self.trace, "broken", "session"), "w") as file:
            file.write("nonsense")
        reader = self.start_reader("--append")
        session = next(os.path.join(self.trace, name) for name in os.listdir(self.trace)
                       if not name.endswith(".mrt") and name != "broken")
        with open(os.path.join(session, "1-1.rings"), "w") as file:
            file.write("nonsense")
        top = self.start([MILLRACE, "top", "--interval", "100ms", self.trace])
        err = ""
        while "broken/session" not in err or "1-1.rings" not in err:
            line = top.stderr.readline()
            self.assertTrue(line, err)
            err += line
        self.stop_reader(reader)
        out, rest = self.finish(top)
        err += rest
        self.assertIn("the job has ended", out)
        self.assertEqual(err.count("broken/session"), 1, err)
        self.assertEqual(err.count("1-1.rings"), 1, err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
