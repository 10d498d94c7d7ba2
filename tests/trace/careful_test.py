"""The recorder with calls that get bad pointers, and on a very small stack: results and errno are the same as without it,
and the program survives.

Usage: careful_test.py BAD_POINTERS_PROGRAM SMALL_STACK_PROGRAM LIBRARY [unittest arguments]"""

import os
import subprocess
import sys
import tempfile
import unittest

import recording

BAD_POINTERS, SMALL_STACK, LIBRARY = sys.argv[1:4]

# The stack that a hook may use, including its callees. The stack has 8 KiB, of which the kernel uses up to 4.
STACK_BYTES_MAX = 2048


class CarefulTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = os.path.realpath(scratch.name)
        self.trace = os.path.join(self.directory, "trace")
        self.file = os.path.join(self.directory, "data")
        with open(self.file, "wb") as file:
            file.write(bytes(2 << 20))

    def run_program(self, program, traced):
        environment = dict(os.environ)
        if traced:
            environment.update(LD_PRELOAD=LIBRARY, MILLRACE_TRACE_DIR=self.trace)
        with open("/dev/zero", "rb") as zeros:
            return subprocess.run([program, self.file], env=environment, cwd=self.directory, stdin=zeros,
                                  stdout=subprocess.PIPE, text=True)

    def test_bad_pointers_get_the_same_errors_as_without_the_recorder(self):
        plain = self.run_program(BAD_POINTERS, traced=False)
        traced = self.run_program(BAD_POINTERS, traced=True)
        self.assertEqual(plain.returncode, 0)
        self.assertGreater(plain.stdout.count("\n"), 300)
        self.assertEqual(traced.stdout.splitlines(), plain.stdout.splitlines())
        self.assertEqual(traced.returncode, 0)

    def test_calls_with_bad_pointers_are_recorded_as_failures(self):
        self.run_program(BAD_POINTERS, traced=True)
        events = recording.events(self.trace)
        # Readable paths are recorded, even if the kernel rejected the flags first.
        self.assertEqual({event.file for event in events if event.call == "open" and event.error == 14}, {""})
        self.assertEqual([(event.size, event.result) for event in events if event.call == "readv" and event.error],
                         [(0, -1)] * sum(1 for event in events if event.call == "readv" and event.error))
        self.assertEqual({event.file for event in events if event.call == "rename" and event.error == 2 and
                          event.other_file == ""}, {"/nowhere/from"})

    def test_a_refused_open_keeps_its_name(self):
        self.run_program(SMALL_STACK, traced=True)
        refused = [event.file for event in recording.events(self.trace) if event.call == "open" and event.error == 22]
        self.assertEqual(refused, [self.file])

    def test_a_handler_on_a_small_stack_has_room_left(self):
        plain = self.run_program(SMALL_STACK, traced=False)
        traced = self.run_program(SMALL_STACK, traced=True)
        self.assertEqual((plain.returncode, traced.returncode), (0, 0), traced.stdout)
        used = dict(line.split() for line in plain.stdout.splitlines())
        for line in traced.stdout.splitlines():
            action, size = line.split()
            self.assertLess(int(size) - int(used[action]), STACK_BYTES_MAX, action)
        self.assertEqual(len(traced.stdout.splitlines()), len(used))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)
