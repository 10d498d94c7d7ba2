"""`millrace top` beside real programs that run under the recorder: what it counts must be what they did.

Usage: top_test.py MILLRACE WORKLOAD_PROGRAM [unittest arguments]"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MILLRACE, WORKLOAD = sys.argv[1:3]

# Reads until it is told to stop, then says how much it has read.
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

    def start(self, command):
        process = subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)  # the launcher, and what it launched
        except ProcessLookupError:
            pass
        process.communicate(timeout=30)

    def start_top(self, *options):
        """A top that waits for the job, so that it sees it whole."""
        top = self.start([MILLRACE, "top", *options, self.trace])
        self.assertIn("waiting for the job to begin", top.stderr.readline())
        return top

    def start_reader(self, *options):
        reader = self.start([MILLRACE, "trace", "-o", self.trace, *options, "--", sys.executable, "-c", READER,
                             self.file])
        self.assertEqual(reader.stdout.readline(), "ready\n")
        return reader

    def total_of(self, mode, *counts, options=(), interval="100ms", returncode=None):
        top = self.start_top("--json", "--interval", interval)
        subprocess.run([MILLRACE, "trace", "-o", self.trace, *options, "--", WORKLOAD, mode, self.file,
                        *map(str, counts)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        out, err = top.communicate(timeout=60)
        self.assertEqual((top.returncode, err), (0, ""))
        found = documents(out)
        self.assertEqual(found[-1]["state"], "ended")
        self.assertEqual([d["problems"] for d in found if d["problems"]], [])
        self.assertEqual(sum(d["window"]["reads"]["bytes"] for d in found), found[-1]["total"]["reads"]["bytes"])
        return found[-1]["total"]["reads"]

    def expect_reads(self, count, *job, **more):
        reads = self.total_of(*job, **more)
        self.assertEqual((reads["count"], reads["bytes"]), (count, 512 * count))

    def test_the_windows_of_a_job_add_up_to_what_it_read(self):
        self.expect_reads(900_000, "preads", 900_000)

    def test_also_where_the_packer_is_always_first(self):
        self.expect_reads(2_000_000, "preads", 2_000_000, interval="1s")

    def test_also_without_a_packer(self):
        self.expect_reads(300_000, "preads", 300_000, options=["--no-pack"])

    def test_also_of_threads_at_once(self):
        self.expect_reads(8 * 40_000, "parallel", 8, 40_000)

    def test_also_of_threads_one_after_another(self):
        self.expect_reads(200 * 5000, "threads", 200, 5000)

    def test_also_of_forked_children_with_threads(self):
        self.expect_reads(12 * 5 * 5000, "forked_threads", 12, 5000)

    def test_also_of_many_short_children(self):
        self.expect_reads(300 * 50 + 5, "forks", 300, 50)

    def test_also_of_a_job_that_is_killed(self):
        self.expect_reads(700_000, "killed", 700_000)

    def test_a_job_whose_launcher_is_killed_too(self):
        top = self.start_top("--json", "--interval", "100ms")
        launcher = self.start_reader()
        time.sleep(0.5)
        with open("/proc/%d/task/%d/children" % (launcher.pid, launcher.pid)) as children:
            job = int(children.read().split()[0])
        launcher.kill()
        os.kill(job, signal.SIGKILL)
        out, err = top.communicate(timeout=60)
        self.assertEqual((top.returncode, err), (0, ""))
        last = documents(out)[-1]
        self.assertEqual((last["state"], last["processes"]), ("ended", 0))
        info = json.loads(subprocess.run([MILLRACE, "info", "--json", self.trace], stdout=subprocess.PIPE,
                                         check=True).stdout)
        preads = next(call for call in info["calls"] if call["call"] == "pread")
        files = {f["path"] for d in documents(out) for f in d["files"]}
        self.assertIn(self.file, files)
        counted = sum(f["read_bytes"] for d in documents(out) for f in d["files"] if f["path"] == self.file)
        self.assertEqual(counted, preads["bytes"])

    def test_once_shows_a_window_of_a_job_that_runs(self):
        reader = self.start_reader()
        windows = []
        for _ in range(2):
            run = subprocess.run([MILLRACE, "top", "--once", "--json", "--interval", "300ms", self.trace],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            windows += documents(run.stdout)
        subprocess.run([MILLRACE, "top", "--once", "--interval", "50ms", self.trace], stdout=subprocess.DEVNULL,
                       check=True)
        reader.send_signal(signal.SIGTERM)
        total = int(reader.communicate(timeout=60)[0])
        self.assertEqual(len(windows), 2)
        for window in windows:
            self.assertEqual((window["state"], window["hosts"], window["processes"]), ("running", 1, 1))
            self.assertGreaterEqual(window["window_ns"], 300e6)
            self.assertGreater(window["window"]["reads"]["count"], 0)
            self.assertGreater(window["concurrency"], 0)
            self.assertLessEqual(window["concurrency"], 1)
            self.assertEqual(window["waiting"]["by"], "io")
            self.assertTrue(0 < window["waiting"]["share"] <= 1)
            self.assertEqual(window["files"][0]["path"], self.file)
            self.assertIn("pread", window["workers"][0]["command"])
        self.assertLessEqual(sum(w["window"]["reads"]["bytes"] for w in windows), total)

    def test_several_launches_are_one_job(self):
        top = self.start_top("--json", "--interval", "100ms")
        readers = [self.start_reader("--append") for _ in range(2)]
        time.sleep(0.5)
        for reader in readers:
            reader.send_signal(signal.SIGTERM)
        total = sum(int(reader.communicate(timeout=60)[0]) for reader in readers)
        found = documents(top.communicate(timeout=60)[0])
        self.assertEqual(max(d["processes"] for d in found), 2)
        counted = sum(f["read_bytes"] for d in found for f in d["files"] if f["path"] == self.file)
        self.assertEqual(counted, total)

    def test_top_changes_nothing_in_the_directory(self):
        reader = self.start_reader("--no-pack")
        time.sleep(0.2)
        reader.send_signal(signal.SIGTERM)
        reader.communicate(timeout=60)
        session = os.path.join(self.trace, os.listdir(self.trace)[0])
        before = {name: os.stat(os.path.join(session, name)) for name in os.listdir(session)}
        run = subprocess.run([MILLRACE, "top", "--interval", "50ms", self.trace], stdout=subprocess.PIPE, text=True,
                             check=False)
        self.assertIn("the job has ended", run.stdout)
        after = {name: os.stat(os.path.join(session, name)) for name in os.listdir(session)}
        self.assertEqual({n: (s.st_size, s.st_mtime_ns) for n, s in before.items()},
                         {n: (s.st_size, s.st_mtime_ns) for n, s in after.items()})

    def run_on_terminal(self, seconds, keys=b"", **variables):
        master, slave = pty.openpty()
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
        environment.update(TERM="xterm", **variables)
        top = subprocess.Popen([MILLRACE, "top", "--interval", "100ms", self.trace], stdin=slave, stdout=slave,
                               stderr=slave, env=environment, start_new_session=True,
                               preexec_fn=lambda: __import__("fcntl").ioctl(slave, __import__("termios").TIOCSCTTY, 0))
        os.close(slave)
        shown, deadline, typed = b"", time.time() + seconds, False
        while time.time() < deadline:
            if select.select([master], [], [], 0.05)[0]:
                try:
                    part = os.read(master, 65536)
                except OSError:
                    break
                if not part:
                    break
                shown += part
            if keys and not typed and shown.count(b"calls at a time") >= 3:
                os.write(master, keys)
                typed = True
        code = top.poll()
        if code is None:
            top.send_signal(signal.SIGINT)
            code = top.wait(timeout=30)
        os.close(master)
        return code, shown.decode()

    def test_on_a_terminal_the_figures_stay_in_place_and_q_ends(self):
        reader = self.start_reader()
        code, shown = self.run_on_terminal(30, keys=b"q", NO_COLOR="1", COLUMNS="80")
        self.assertEqual(code, 0)
        self.assertRegex(shown, r"\x1b\[\d+A\r")
        self.assertNotRegex(shown, r"\x1b\[\d+m")
        for line in re.split(r"\r?\n", re.sub(r"\x1b\[\d*[A-Z]", "", shown)):
            self.assertLessEqual(len(line.strip("\r")), 80, line)
        reader.send_signal(signal.SIGTERM)

    def test_an_interrupt_ends_it_as_well(self):
        reader = self.start_reader()
        code, shown = self.run_on_terminal(1.0)
        self.assertEqual(code, 0)
        self.assertRegex(shown, r"\x1b\[1m")
        reader.send_signal(signal.SIGTERM)

    def test_elsewhere_each_interval_is_a_block_of_text(self):
        top = self.start_top("--interval", "100ms")
        subprocess.run([MILLRACE, "trace", "-o", self.trace, "--", WORKLOAD, "preads", self.file, "900000"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        out, err = top.communicate(timeout=60)
        self.assertEqual((top.returncode, err), (0, ""))
        self.assertGreaterEqual(out.count("calls at a time"), 2)
        self.assertNotIn("\x1b", out)
        self.assertIn("439 MiB were read", out)

    def test_garbage_beside_a_job_is_named_once(self):
        os.makedirs(os.path.join(self.trace, "broken"))
        with open(os.path.join(self.trace, "broken", "session"), "w") as file:
            file.write("nonsense")
        reader = self.start_reader("--append")
        session = next(os.path.join(self.trace, name) for name in os.listdir(self.trace)
                       if not name.endswith(".mrt") and name != "broken")
        with open(os.path.join(session, "1-1.rings"), "w") as file:
            file.write("nonsense")
        top = self.start([MILLRACE, "top", "--interval", "100ms", self.trace])
        time.sleep(1)
        reader.send_signal(signal.SIGTERM)
        out, err = top.communicate(timeout=60)
        self.assertIn("the job has ended", out)
        self.assertEqual(err.count("broken/session"), 1, err)
        self.assertEqual(err.count("1-1.rings"), 1, err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
