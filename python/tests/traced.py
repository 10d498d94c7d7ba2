"""Runs Python programs under the real recorder and reads the recording. Used by the tests here."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

SOURCE = Path(os.environ["MILLRACE_SOURCE"])
BUILD = Path(os.environ["MILLRACE_BUILD"])
LIBRARY = BUILD / "lib" / "libmillrace_trace.so"

sys.path.insert(0, str(SOURCE / "tests" / "trace"))
from recording import Recording  # noqa: E402, F401

# Python's semaphore tracker races with the end of a fork server, traced or not, and warns.
QUIET_TRACKER = {"PYTHONWARNINGS": "ignore::UserWarning:multiprocessing.resource_tracker"}


class TracedTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.trace = self.folder / "trace"

    def write(self, name: str, code: str) -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(code))
        return path

    def run_python(self, *arguments, code: int = 0, **environment) -> subprocess.CompletedProcess:
        done = subprocess.run([sys.executable, *map(str, arguments)], env=os.environ | environment,
                              cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def record(self, code: str, **environment) -> Recording:
        """Runs the code with only the preload library: no launcher, no import hook."""
        self.trace.mkdir(exist_ok=True)
        done = self.run_python(self.write("program.py", code), LD_PRELOAD=str(LIBRARY),
                               MILLRACE_TRACE_DIR=str(self.trace), **environment)
        self.assertEqual(done.stderr, "")
        return Recording(self.trace)

    def record_script(self, script: Path, *arguments) -> Recording:
        """Runs the script with `python -m millrace.trace`."""
        self.run_python("-m", "millrace.trace", "-o", self.trace, script, *arguments,
                        MILLRACE_TRACE_LIBRARY=str(LIBRARY))
        return Recording(self.trace)
