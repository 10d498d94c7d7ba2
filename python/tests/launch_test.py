#!/usr/bin/env python3
"""python -m millrace.trace: the program behaves as without it, and is traced; errors are reported."""

import os
import signal
import subprocess
import sys
import unittest

from traced import LIBRARY, Recording, TracedTest

# Everything that a program can see of itself, except the environment.
LOOK = """
    import sys
    print(sys.argv, __name__, __file__, sys.path, sys.flags, sys.orig_argv[1:], sys.executable)
    print(sorted(name for name in sys.modules if "millrace" in name or "custom" in name))
    print([finder for finder in sys.path_importer_cache if "millrace" in finder])
    print(__spec__ and __spec__.name, __builtins__.__name__, __doc__, sys.warnoptions, sys._xoptions)
    """


class LaunchTest(TracedTest):
    def run_both(self, *arguments, flags=(), code: int = 0, stdin: str = "", **environment):
        """Runs the program without and with the tracer, and returns both results."""
        tracer = ["-m", "millrace.trace", "--append", "-o", self.trace]
        results = []
        for before in ([], tracer):
            done = subprocess.run(
                [sys.executable, *flags, *map(str, [*before, *arguments])], cwd=self.folder,
                env=os.environ | {"MILLRACE_TRACE_LIBRARY": str(LIBRARY)} | environment,
                input=stdin, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            results.append(done)
        return results

    def assert_same(self, *arguments, **keywords):
        plain, traced = self.run_both(*arguments, **keywords)
        self.assertEqual((plain.stdout, plain.stderr), (traced.stdout, traced.stderr))
        Recording(self.trace)
        return traced

    def test_a_script_sees_no_difference(self):
        script = self.write("script.py", LOOK)
        self.assert_same("script.py", "-o", "x", "--help", "-m", "")
        self.assert_same(script)
        self.assert_same("script.py", flags=["-u", "-X", "utf8", "-W", "error::UserWarning", "-B"])

    def test_a_module_code_and_standard_input_see_no_difference(self):
        self.write("program.py", LOOK)
        self.assert_same("-m", "program", "-m", "x")
        self.assert_same("-c", "import sys; print(sys.argv, __name__, sys.path)", "-c")
        self.assert_same("-", "a", stdin="import sys; print(sys.argv, __name__, sys.path)")

    def test_it_exits_like_the_program(self):
        self.assert_same("-c", "import sys; sys.exit(3)", code=3)
        self.assert_same("-c", "import os; os._exit(7)", code=7)
        self.assert_same("-c", "import os; os.kill(os.getpid(), 15)", code=-signal.SIGTERM)
        self.assertIn("ValueError: wrong", self.assert_same(
            self.write("fails.py", "raise ValueError('wrong')"), code=1).stderr)
        self.assertIn("can't open file", self.assert_same("missing.py", code=2).stderr)

    def test_flags_joined_with_m_are_kept(self):
        self.write("script.py", "import sys; print(sys.flags.optimize, sys.flags.dont_write_bytecode)")
        for flags in (["-OBm", "millrace.trace"], ["-OBmmillrace.trace"]):
            done = self.run_python(*flags, "--append", "-o", self.trace, "script.py",
                                   MILLRACE_TRACE_LIBRARY=str(LIBRARY))
            self.assertEqual(done.stdout, "1 1\n")

    def test_the_machines_own_sitecustomize_still_runs(self):
        folder = self.folder / "site"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(
            "import sys; sys.own_site = (__name__, __file__, sys.modules[__name__].__file__)")
        path = f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}"
        done = self.assert_same(self.write("script.py", LOOK + "print(sys.own_site)"),
                                PYTHONPATH=path)
        own = str(folder / "sitecustomize.py")
        self.assertIn(str(("sitecustomize", own, own)), done.stdout)

    def test_its_io_and_regions_are_recorded(self):
        script = self.write("script.py", """
            from millrace import trace
            with trace.region("fetch"):
                open("data.bin", "w").write("x")
            """)
        recording = self.record_script(script)
        (fetch,) = recording.named("fetch")
        inside = [event for event in recording.events
                  if event.file.endswith("data.bin") and fetch.begin < event.begin < fetch.end]
        self.assertGreater(len(inside), 0)

    def test_filters_and_levels_reach_the_recorder(self):
        script = self.write("script.py", """
            from millrace import trace
            for name in ("kept.bin", "left.bin"):
                with trace.region("fetch"), open(name, "w") as file:
                    file.write("x")
            """)
        self.run_python("-m", "millrace.trace", f"-o{self.trace}", "--exclude", "*/left.bin",
                        "--levels=posix,app", script, MILLRACE_TRACE_LIBRARY=str(LIBRARY))
        recording = Recording(self.trace)
        names = {event.file.rsplit("/", 1)[-1] for event in recording.events}
        self.assertIn("kept.bin", names)
        self.assertNotIn("left.bin", names)
        self.assertEqual(len(recording.named("fetch")), 2)

    def test_under_a_tracer_it_only_adds_the_import_hook(self):
        self.trace.mkdir()
        script = self.write("script.py", "import os; print(os.environ['PYTHONPATH'])")
        done = self.run_python("-m", "millrace.trace", script, LD_PRELOAD=str(LIBRARY),
                               MILLRACE_TRACE_DIR=str(self.trace))
        self.assertIn("_site", done.stdout)
        self.assertFalse((self.folder / "millrace-trace").exists())
        Recording(self.trace)

    def test_wrong_usage_exits_with_code_2(self):
        for arguments, sentence in (([], "no program was given"), (["-m"], "no program was given"),
                                    (["--wrong", "x.py"], "unknown option '--wrong'"),
                                    (["-o"], "-o needs a value")):
            done = self.run_python("-m", "millrace.trace", *arguments, code=2)
            self.assertIn(sentence, done.stderr)
            self.assertIn("Usage: python -m millrace.trace", done.stderr)
        done = self.run_python("-sE", "-c", "import sys; sys.path.insert(0, sys.argv[1]); "
                               "sys.argv = ['x']; from millrace.trace._launch import main; "
                               "sys.exit(main(['x.py']))", os.environ["PYTHONPATH"], code=2)
        self.assertIn("Python runs with -E, -I or -S", done.stderr)
        self.assertIn("Usage", self.run_python("-m", "millrace.trace", "--help").stdout)

    def test_a_missing_library_is_reported(self):
        done = self.run_python("-m", "millrace.trace", "x.py", code=1,
                               MILLRACE_TRACE_LIBRARY="none.so")
        self.assertIn("MILLRACE_TRACE_LIBRARY is none.so, but there is no such file", done.stderr)

    def test_two_runs_are_not_mixed_without_append(self):
        script = self.write("script.py", "")
        before = len(self.record_script(script).processes)
        done = self.run_python("-m", "millrace.trace", "-o", self.trace, script, code=1,
                               MILLRACE_TRACE_LIBRARY=str(LIBRARY))
        self.assertIn("already holds a trace", done.stderr)
        self.assertIn("--append", done.stderr)
        self.run_python("-m", "millrace.trace", "--append", "-o", self.trace, script,
                        MILLRACE_TRACE_LIBRARY=str(LIBRARY))
        self.assertGreater(len(Recording(self.trace).processes), before)

    def test_new_directories_are_private(self):
        self.addCleanup(os.umask, os.umask(0))
        self.run_python("-m", "millrace.trace", "-o", self.folder / "a" / "b", self.write("x.py", ""),
                        MILLRACE_TRACE_LIBRARY=str(LIBRARY))
        for path in (self.folder / "a", self.folder / "a" / "b"):
            self.assertEqual(path.stat().st_mode & 0o7777, 0o700, path)

    def test_a_directory_that_cannot_be_made_is_reported(self):
        (self.folder / "file").write_text("")
        done = self.run_python("-m", "millrace.trace", "-o", self.folder / "file" / "x", "x.py",
                               code=1, MILLRACE_TRACE_LIBRARY=str(LIBRARY))
        self.assertIn("cannot make the directory", done.stderr)


if __name__ == "__main__":
    unittest.main()
