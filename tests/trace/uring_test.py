"""io_uring under the recorder: rings are recorded when liburing sets them up, or found at the end.

Usage: uring_test.py URING_PROGRAM LIBRARY [unittest arguments]"""

import os
import subprocess
import sys
import tempfile
import unittest

import recording

PROGRAM, LIBRARY = sys.argv[1:3]
NAME = "<io_uring>"
FOUND_OPEN = 1


class UringTest(unittest.TestCase):
    def run_traced(self, mode):
        with tempfile.TemporaryDirectory() as scratch:
            file = os.path.join(scratch, "data")
            with open(file, "wb") as data:
                data.write(os.urandom(4096))
            trace = os.path.join(scratch, "trace")
            plain = subprocess.run([PROGRAM, file, mode], stdout=subprocess.PIPE, text=True)
            if plain.returncode != 0:
                self.skipTest("io_uring is not available here")
            run = subprocess.run([PROGRAM, file, mode], stdout=subprocess.PIPE, text=True,
                                 env=dict(os.environ, LD_PRELOAD=LIBRARY, MILLRACE_TRACE_DIR=trace))
            self.assertEqual(run.returncode, 0)
            events = recording.events(trace)
            return run.stdout, [event for event in events if event.file == NAME and event.call != "close"]

    def test_each_setup_and_submission_is_recorded(self):
        _, events = self.run_traced("library")
        setups = [event for event in events if event.call == "io_uring_setup"]
        enters = [event for event in events if event.call == "io_uring_enter"]
        self.assertEqual([(e.size, e.result, e.detail) for e in setups], [(8, 0, 0)] * 10)
        self.assertEqual([(e.size, e.result) for e in enters], [(1, 1), (0, 1)] * 50)
        self.assertEqual(len(events), 110)

    def test_a_ring_with_an_unrecorded_setup_is_found_at_the_end(self):
        output, events = self.run_traced("foreign")
        self.assertEqual([(e.call, e.result, e.detail) for e in events],
                         [("io_uring_setup", int(output), FOUND_OPEN)])


unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
