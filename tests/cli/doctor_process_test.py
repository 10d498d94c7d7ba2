#!/usr/bin/env python3
"""`millrace doctor` as a process: on a terminal, interrupted, read-only, and on a full disk."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from terminal import Terminal

PROGRAM = os.environ["MILLRACE"]


class DoctorProcessTest(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)

    def on_terminal(self, *arguments: str, **variables: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        terminal = Terminal([PROGRAM, *arguments], environment | {"TERM": "xterm", **variables})
        self.addCleanup(terminal.close)
        return terminal.read_to_end()

    def test_a_terminal_gets_colours_and_progress(self):
        shown = self.on_terminal("doctor", "--size", "8MiB", str(self.directory))
        self.assertIn("\x1b[32mok\x1b[0m", shown)
        self.assertIn("looking at: MPI", shown)
        self.assertIn(f"looking at: {self.directory}: writing"[:70], shown)

    def test_no_color_disables_colours(self):
        shown = self.on_terminal("doctor", NO_COLOR="1")
        self.assertIn("  ok  ", shown)
        self.assertNotIn("\x1b[32m", shown)

    def start_measuring(self, *launcher: str) -> subprocess.Popen:
        """Starts a doctor, and returns during a measurement that takes seconds."""
        doctor = subprocess.Popen([*launcher, PROGRAM, "doctor", "--size", "4GiB", str(self.directory)],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not any(self.directory.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.005)
        self.assertIsNone(doctor.poll(), "ended before it could be interrupted")
        return doctor

    def test_an_interrupted_measurement_cleans_up_and_ends_by_the_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                doctor = self.start_measuring()
                doctor.send_signal(number)
                self.assertEqual(doctor.wait(60), -number)
                self.assertEqual(list(self.directory.iterdir()), [])

    def test_a_signal_that_was_ignored_stays_ignored(self):
        doctor = self.start_measuring("nohup")
        doctor.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        self.assertIsNone(doctor.poll())
        doctor.send_signal(signal.SIGTERM)
        self.assertEqual(doctor.wait(60), -signal.SIGTERM)

    @unittest.skipUnless(os.geteuid() == 0, "mounting needs root")
    def test_small_and_read_only_file_systems_are_reported(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", self.directory], check=True)
        self.addCleanup(subprocess.run, ["umount", self.directory], check=True)
        small = self.doctor()
        self.assertEqual(small.returncode, 0)
        self.assertIn("not measured", small.stdout)
        self.assertIn("too small", small.stdout)
        subprocess.run(["mount", "-o", "remount,ro", self.directory], check=True)
        read_only = self.doctor()
        self.assertEqual(read_only.returncode, 1)
        self.assertIn("read-only file system", read_only.stdout)

    def doctor(self) -> subprocess.CompletedProcess:
        return subprocess.run([PROGRAM, "doctor", str(self.directory)], capture_output=True, text=True,
                              env=os.environ | {"COLUMNS": "200"}, check=False)


if __name__ == "__main__":
    unittest.main()
