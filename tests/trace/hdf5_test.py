"""HDF5 under the recorder: linked, behind dlopen(RTLD_LOCAL), and in h5py.

Usage: hdf5_test.py HDF5_PROGRAM MODULE_CALLER HDF5_MODULE LIBRARY [unittest arguments]"""

import os
import subprocess
import sys
import tempfile
import unittest

import recording
from foreign_expectations import compare, inside

PROGRAM, MODULE_CALLER, MODULE, LIBRARY = sys.argv[1:5]
NOT_IN_THIS_HDF5 = {"H5Dread_multi", "H5Dwrite_multi"}  # new in 1.14

H5PY_SCRIPT = """
import sys
import h5py
import numpy
path = sys.argv[1]
with h5py.File(path, "w") as file:
    values = file.create_dataset("group/values", data=numpy.arange(1000, dtype="f8"))
    file.create_dataset("names", data=["a", "bb"], dtype=h5py.string_dtype())
with h5py.File(path, "r") as file:
    for i in range(10):
        assert file["group/values"][i * 10:i * 10 + 7].sum() == sum(range(i * 10, i * 10 + 7))
    assert file["names"][0] == b"a"
"""


def python_with(module):
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


class Hdf5Test(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = os.path.join(os.path.realpath(scratch.name), "files")
        self.trace = os.path.join(os.path.realpath(scratch.name), "trace")
        os.mkdir(self.directory)

    def run_traced(self, *command, **settings):
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, MILLRACE_TRACE_DIR=self.trace, **settings)
        run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return recording.events(self.trace)

    def expected(self):
        with open(os.path.join(self.directory, "expected")) as file:
            return file.readlines()

    def test_every_call_of_a_linked_program_is_recorded(self):
        events = self.run_traced(PROGRAM, self.directory)
        self.assertEqual(compare(self.expected(), events, "H5"), [])
        made = {line.split("\t")[0] for line in self.expected()}
        self.assertEqual(made, set(recording.CALLS[4]) - NOT_IN_THIS_HDF5)

    def test_every_call_of_a_module_is_recorded(self):
        events = self.run_traced(MODULE_CALLER, MODULE, self.directory)
        file = os.path.join(self.directory, "file0.h5")
        tail = ["H5Fopen\t%s\t-1\t0\t0\n" % file, "H5Fclose\t%s\t-1\t0\t0\n" % file]
        self.assertEqual(compare(self.expected() + tail, events, "H5"), [])

    def test_posix_calls_are_inside_the_hdf5_calls(self):
        events = self.run_traced(PROGRAM, self.directory)
        opens = [event for event in events if event.call == "H5Fopen"]
        self.assertEqual(len(opens), 10)
        for event in opens:
            self.assertTrue(inside(event, events, ("open", "openat")), event)
        closes = [event for event in events if event.call == "H5Fclose"]
        self.assertTrue(any(inside(event, events, ("close",)) for event in closes))

    def test_filters_apply_to_the_file(self):
        events = self.run_traced(PROGRAM, self.directory, MILLRACE_TRACE_INCLUDE="*/file3.h5")
        files = {event.file for event in events if event.call.startswith("H5")}
        file = os.path.join(self.directory, "file3.h5")
        self.assertEqual(files, {file, file + ":/group/values"})

    def test_h5py_is_recorded(self):
        python = python_with("h5py")
        self.assertIsNotNone(python, "no Python here has h5py (package python3-h5py)")
        path = os.path.join(self.directory, "by_h5py.h5")
        events = self.run_traced(python, "-c", H5PY_SCRIPT, path)
        calls = [event for event in events if event.call.startswith("H5") and event.file.startswith(path)]
        count = lambda call, name="": sum(1 for e in calls if e.call == call and e.file == path + name)
        self.assertEqual(count("H5Fcreate"), 1)
        self.assertGreaterEqual(count("H5Fopen"), 1)
        self.assertEqual([e.size for e in calls if e.call == "H5Dwrite" and e.file == path + ":/group/values"], [8000])
        reads = [e for e in calls if e.call == "H5Dread" and e.file == path + ":/group/values"]
        self.assertEqual([(e.size, e.result) for e in reads], [(56, 56)] * 10)
        texts = [e for e in calls if e.call == "H5Dread" and e.file == path + ":/names"]
        self.assertTrue(texts)
        self.assertTrue(all(e.flags & 0x10 for e in texts))  # variable length: the size is an estimate
        self.assertFalse(any(e.flags & 0x10 for e in reads))


unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
