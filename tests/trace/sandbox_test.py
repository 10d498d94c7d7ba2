"""Programs that sandbox themselves with seccomp run under the recorder as without it. They are recorded up to the sandbox,
and `millrace info` says so.

Usage: sandbox_test.py MILLRACE SANDBOX_PROGRAM LIBRARY [unittest arguments]"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import recording

MILLRACE, PROGRAM, LIBRARY = sys.argv[1:4]
READS_BEFORE, READS_AFTER = 3000, 10000


class SandboxTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.trace = os.path.join(scratch.name, "trace")

    def run_recorded(self, mode, **more):
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, MILLRACE_TRACE_DIR=self.trace, **more)
        return subprocess.run([PROGRAM, mode, "/dev/zero"], env=environment, stdout=subprocess.PIPE, text=True)

    def events(self, call):
        return [event for event in recording.events(self.trace) if event.call == call]

    def check_stopped(self, mode, seccomp_mode):
        run = self.run_recorded(mode)
        self.assertEqual((run.returncode, run.stdout), (5, "alive\n"))
        process, = recording.read(self.trace)[0].processes
        self.assertEqual(process.lost, 0)
        entered, = self.events("seccomp")
        self.assertEqual((entered.detail, entered.result, entered.error), (seccomp_mode, 0, 0))
        return process

    def test_without_a_sandbox_everything_is_recorded(self):
        run = self.run_recorded("none")
        self.assertEqual((run.returncode, run.stdout), (5, "alive\n"))
        self.assertEqual(len(self.events("read")), READS_BEFORE + READS_AFTER)
        self.assertEqual(self.events("seccomp"), [])

    def test_strict_mode(self):
        self.check_stopped("strict", 1)
        self.assertEqual(len(self.events("read")), READS_BEFORE)

    def test_a_filter_set_by_prctl(self):
        process = self.check_stopped("by_prctl", 2)
        self.assertEqual(len(self.events("read")), READS_BEFORE)
        self.assertEqual((process.exited, process.exit_code), (True, 5))

    def test_a_filter_set_by_seccomp(self):
        process = self.check_stopped("by_seccomp", 2)
        self.assertEqual(len(self.events("read")), READS_BEFORE)
        self.assertEqual((process.exited, process.exit_code), (True, 5))

    def test_a_filter_for_all_threads(self):
        self.check_stopped("all_threads", 2)
        self.assertGreaterEqual(len(self.events("read")), READS_BEFORE + READS_AFTER)

    def test_a_child_of_a_sandboxed_process(self):
        process = self.check_stopped("with_child", 2)
        self.assertEqual({event.pid for event in recording.events(self.trace)}, {process.pid})

    def test_a_sandbox_that_the_kernel_refuses_changes_nothing(self):
        run = self.run_recorded("refused")
        self.assertEqual((run.returncode, run.stdout), (5, "alive\n"))
        self.assertEqual(len(self.events("read")), READS_BEFORE + READS_AFTER)
        self.assertEqual([(event.result, event.error) for event in self.events("seccomp")], [(-1, 22)] * 2)

    def test_the_end_of_the_recording_is_reported_for_all_levels(self):
        self.run_recorded("strict", MILLRACE_TRACE_LEVELS="app")
        self.assertEqual([event.call for event in recording.events(self.trace)], ["seccomp"])

    def test_info_says_which_process_stopped(self):
        for mode in ("strict", "none"):
            trace = self.trace + mode
            run = subprocess.run([MILLRACE, "trace", "-o", trace, "--", PROGRAM, mode, "/dev/zero"],
                                 stdout=subprocess.PIPE, text=True)
            self.assertEqual((run.returncode, run.stdout), (5, "alive\n"))
            text = subprocess.run([MILLRACE, "info", trace], stdout=subprocess.PIPE, text=True, check=True).stdout
            facts = json.loads(subprocess.run([MILLRACE, "info", "--json", trace], stdout=subprocess.PIPE, check=True).stdout)
            sentence = "process %d stopped recording: it entered a seccomp sandbox" % facts["processes"][0]["pid"]
            self.assertEqual(sentence in " ".join(text.split()), mode == "strict", text)
            self.assertEqual(facts["not_itemised"]["sandboxed_processes"], [0] if mode == "strict" else [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)
