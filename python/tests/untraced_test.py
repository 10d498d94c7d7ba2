#!/usr/bin/env python3
"""millrace.trace without a recorder: it accepts the same arguments, does its work and costs nothing."""

import copy
import os
import pickle
import re
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import millrace
from millrace import trace

SOURCE = Path(os.environ["MILLRACE_SOURCE"])


def module_level(value):
    return value


class UntracedTest(unittest.TestCase):
    def test_enabled_is_false(self):
        self.assertFalse(trace.enabled())

    def test_a_decorated_function_is_the_function_itself(self):
        self.assertIs(trace.region(module_level), module_level)
        self.assertIs(trace.region("name", key=1)(module_level), module_level)

    def test_a_region_can_be_entered_again_nested_and_by_threads(self):
        region = trace.region("fetch")
        with region as entered, region, region:
            self.assertIs(entered, region)
            thread = threading.Thread(target=lambda: region.__enter__().__exit__(None, None, None))
            thread.start()
            thread.join()

    def test_a_region_lets_exceptions_through(self):
        with self.assertRaisesRegex(KeyError, "lost"), trace.region("fetch"):
            raise KeyError("lost")

    def test_a_region_has_a_name_and_tags(self):
        region = trace.region("fetch", epoch=1, step=None, file=b"a", rate=0.5, flag=True)
        self.assertEqual(region.name, "fetch")
        self.assertEqual(region.tags,
                         {"epoch": 1, "step": None, "file": "a", "rate": 0.5, "flag": 1})
        self.assertEqual(repr(trace.region("a")), "region('a')")

    def test_a_region_can_be_copied_and_pickled(self):
        region = trace.region("fetch", epoch=None, file="a", size=1 << 70)
        for other in (copy.copy(region), copy.deepcopy(region), pickle.loads(pickle.dumps(region))):
            self.assertEqual((other.name, other.tags), (region.name, region.tags))

    def test_wrong_arguments_are_refused(self):
        for wrong, sentence in (
                (lambda: trace.region(), "takes a name"),
                (lambda: trace.region(5), "takes a name"),
                (lambda: trace.region("a", "b"), "takes a name"),
                (lambda: trace.region(module_level, key=1), "takes a name"),
                (lambda: trace.region("a")(1), "decorates functions"),
                (lambda: trace.region(int), "decorates functions"),
                (lambda: trace.region("a")(module_level, key=1), "takes its tags before"),
                (lambda: trace.region("a", epoch="x"), "cannot be interpreted as an integer"),
                (lambda: trace.mark(), "takes a name"),
                (lambda: trace.iterate(5).__iter__(), "not iterable")):
            with self.assertRaisesRegex(TypeError, sentence):
                wrong()
        for wrong, sentence in (
                (lambda: trace.region("a", epoch=-1), "epoch is -1, but must be from 0 to"),
                (lambda: trace.region("a", step=2**64), "step is 18446744073709551616"),
                (lambda: trace.set_epoch(2**32 - 1), "epoch is 4294967295"),
                (lambda: trace.set_rank(2, 2), "rank is 2 of 2"),
                (lambda: trace.region("a", **{f"k{i}": i for i in range(65)}), "keeps 64 tags")):
            with self.assertRaisesRegex(ValueError, sentence):
                wrong()

    def test_iterate_returns_the_same_items_every_time(self):
        numbers = trace.iterate([1, 2, 3], "fetch", file="a")
        self.assertEqual((list(numbers), list(numbers), len(numbers)), ([1, 2, 3], [1, 2, 3], 3))
        once = trace.iterate(iter([1, 2]))
        self.assertEqual((next(once), next(once), next(once, None)), (1, 2, None))
        self.assertEqual(trace.iterate([1, 1]).count(1), 2)  # other attributes are those of the list

    def test_epoch_and_step_belong_to_the_thread(self):
        trace.set_step(7)
        with trace.epoch(3):
            self.assertEqual(trace.current(), (3, 7))
            seen = []
            thread = threading.Thread(target=lambda: seen.append(trace.current()))
            thread.start()
            thread.join()
            self.assertEqual(seen, [(None, None)])
        trace.set_step(None)
        self.assertEqual(trace.current(), (None, None))

    def test_nothing_is_leaked(self):
        def work():
            for _ in range(200):
                with trace.region("fetch", epoch=1, file="a" * 50, size=1 << 40):
                    trace.mark("here", value=object())
                list(trace.iterate([1, 2], "read", kind="x"))

        work()
        before = sys.getallocatedblocks()
        work()
        self.assertLess(sys.getallocatedblocks() - before, 50)

    def test_names_and_version_match_those_of_c_and_cmake(self):
        header = (SOURCE / "include" / "millrace" / "trace.h").read_text()
        in_c = dict(re.findall(r'^#define MILLRACE_(\w+) "(\w+)"', header, re.MULTILINE))
        in_python = {name: value for name, value in vars(trace.names).items() if name.isupper()}
        self.assertGreater(len(in_c), 10)
        self.assertEqual(in_python, in_c)
        cmake = (SOURCE / "CMakeLists.txt").read_text()
        self.assertIn(f"VERSION {millrace.__version__}\n", cmake)

    def test_importing_millrace_imports_nothing_else(self):
        code = ("import sys; before = set(sys.modules); import millrace; "
                "print(*sorted(set(sys.modules) - before))")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split(), ["millrace"])


if __name__ == "__main__":
    unittest.main()
