#!/usr/bin/env python3
"""millrace/trace.h as programs use it: compiled with strict warnings, without a library, traced or not."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from recording import Recording  # noqa: E402

SOURCE = Path(os.environ["MILLRACE_SOURCE"])
LIBRARY = Path(os.environ["MILLRACE_BUILD"]) / "lib" / "libmillrace_trace.so"
FOLDER = SOURCE / "tests" / "trace"
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Wshadow", "-Wconversion", "-Werror", "-O2",
          f"-I{SOURCE / 'include'}"]


def compile_program(output: Path, compiler: str, standard: str, source: str) -> None:
    subprocess.run([compiler, f"-std={standard}", *STRICT, FOLDER / source, "-o", output,
                    "-pthread"], check=True)


class RegionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        compile_program(cls.folder / "c", "cc", "c11", "region_c.c")
        compile_program(cls.folder / "cpp", "c++", "c++17", "region_cpp.cc")

    def run_program(self, name: str, **environment: str) -> str:
        done = subprocess.run([self.folder / name], env=os.environ | environment, text=True,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def record(self, name: str) -> Recording:
        trace = self.folder / f"{name}.trace"
        trace.mkdir()
        said = self.run_program(name, LD_PRELOAD=str(LIBRARY), MILLRACE_TRACE_DIR=str(trace))
        self.assertEqual(said, "traced\n")
        return Recording(trace)

    def test_without_the_library_nothing_is_needed_and_nothing_happens(self):
        self.assertEqual(self.run_program("c"), "not traced\n")
        self.assertEqual(self.run_program("cpp"), "not traced\n")
        for program in ("c", "cpp"):
            linked = subprocess.run(["ldd", self.folder / program], capture_output=True, text=True,
                                    check=True).stdout
            self.assertNotIn("millrace", linked)

    def test_c_regions_nest_and_have_epoch_step_and_tags(self):
        recording = self.record("c")
        (fetch,), (read,) = recording.named("fetch"), recording.named("read")
        self.assertEqual((fetch.epoch, fetch.step), (3, 17))
        self.assertEqual(fetch.tags, {"samples": -32, "rate": 0.5, "file": "a.tfrecord"})
        self.assertEqual((read.epoch, read.step, read.tags), (4, 18, {}))
        self.assertTrue(fetch.begin <= read.begin < read.end <= fetch.end)

        (plain,), (tagged,) = recording.named("plain"), recording.named("tagged")
        self.assertTrue(plain.is_mark and tagged.is_mark)
        self.assertEqual((plain.epoch, plain.step, tagged.tags), (None, None, {"value": 7}))

        (crowded,) = recording.named("crowded")
        self.assertEqual(crowded.tags, {"n": 14, "tags_lost": 4})
        self.assertEqual(recording.named("forgotten"), [])

        (threads,) = recording.named("threads")
        self.assertEqual(threads.origin, (fetch.process, fetch.thread))
        self.assertEqual(threads.process, fetch.process)
        self.assertNotEqual(threads.thread, fetch.thread)

        in_parent, in_child = sorted(recording.named("forked"),
                                     key=lambda region: region.origin is not None)
        self.assertEqual((in_parent.process, in_parent.origin), (fetch.process, None))
        self.assertEqual(in_child.origin, (fetch.process, fetch.thread))
        self.assertNotEqual(in_child.process, fetch.process)
        self.assertIn((5, 8), [(process.rank, process.world_size)
                               for process in recording.processes])

    def test_cpp_regions_end_with_their_scope_and_keep_the_types_of_tags(self):
        recording = self.record("cpp")
        decodes = recording.named("decode")
        self.assertEqual(len(decodes), 3)
        for decode in decodes:
            self.assertEqual((decode.epoch, decode.step), (1, 2))
            self.assertEqual(decode.tags, {"file": "a.jpg", "literal": "text", "kind": 2,
                                           "ratio": 0.25, "flag": 1, "size": 1 << 40})
        for name in ("throws", "early", "moved", "point"):
            self.assertEqual(len(recording.named(name)), 1, name)
        (moved,) = recording.named("moved")
        self.assertEqual(moved.origin, (decodes[0].process, decodes[0].thread))
        self.assertTrue(recording.named("point")[0].is_mark)


if __name__ == "__main__":
    unittest.main()
