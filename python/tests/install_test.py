#!/usr/bin/env python3
"""The installed package: by CMake alone, and by pip if its build backend is available.

The package contains all of Millrace, so nothing else of it is reachable from these tests.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from mpirun import HAS_MPI, environment

SOURCE = Path(os.environ["MILLRACE_SOURCE"])
BUILD = Path(os.environ["MILLRACE_BUILD"])
# Without PYTHONPATH: the package must be found where it was installed. In the C locale: that makes
# Python change LC_CTYPE.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if name not in ("PYTHONPATH", "LANG", "LANGUAGE") and not name.startswith("LC_")}
HAS_LOADER = bool(list((BUILD / "python" / "millrace").glob("_loader*.so")))

PROGRAM = """\
from millrace import trace
with trace.region("fetch"):
    open("data.bin", "w").write("x")
print(trace.enabled(), trace.__file__)
"""

LOADING = """\
import millrace
loader = millrace.DataLoader(list(range(8)), batch_size=4, shuffle=True, output="array")
print(sorted(i for batch in loader for i in batch))
print(millrace.DataLoader(millrace.RawFolder("raw", shape=(4,)), output="array").dataset)
"""

# What a process inherits, except for the variables of the recorder and of this shell.
INHERITED = "grep -e SigBlk -e SigIgn /proc/self/status; env | grep -v -e ^LD_PRELOAD= -e ^MILLRACE_ -e ^_= -e ^PWD= | sort"

# The MPI library must be found without a variable, because child processes would inherit it.
RANKS = """\
import os
from millrace.loader._ranks import connect
rank, size = connect()
print(rank, "of", size, os.environ.get("MILLRACE_MPI_LIBRARY"), flush=True)
"""


class Installed:
    """Tests that hold for every way of installing."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        cls.make_environment()

    @classmethod
    def path(cls) -> str:
        return f"{cls.folder}/venv/bin:/usr/bin:/bin"

    @classmethod
    def run_command(cls, *command, **environment) -> subprocess.CompletedProcess:
        done = subprocess.run([str(word) for word in command], cwd=cls.folder, text=True,
                              env=ENVIRONMENT | environment, capture_output=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def test_a_program_is_traced_packed_and_reported(self):
        (self.folder / "program.py").write_text(PROGRAM)
        done = self.run_command(self.python, "program.py")
        self.assertTrue(done.stdout.startswith(f"False {self.folder}/venv/"), done.stdout)
        # By its path, like users who have not activated the environment: nothing of it is in PATH.
        done = self.run_command(self.python, "-m", "millrace.trace", "-o", "trace", "program.py",
                                PATH="/usr/bin:/bin")
        self.assertTrue(done.stdout.startswith("True "), done.stdout)
        self.assertEqual(len(list(self.folder.glob("trace/*.mrt"))), 1)
        self.assertEqual(list(self.folder.glob("trace/**/session")), [])
        self.assertIn("fetch", self.run_command("millrace", "report", "trace", PATH=self.path()).stdout)

    def test_the_environment_has_its_own_command(self):
        done = self.run_command("sh", "-c", "command -v millrace", PATH=self.path())
        self.assertEqual(done.stdout, f"{self.folder}/venv/bin/millrace\n")
        done = self.run_command("millrace", "--version", PATH=self.path())
        self.assertIn("on  sqlite: ", done.stdout)
        self.assertIn("on  yaml: ", done.stdout)
        self.run_command("millrace", "trace", "-o", "of_true", "--", "true", PATH=self.path())
        done = self.run_command("millrace", "query", "of_true", "select count(*) > 0 as n from events", PATH=self.path())
        self.assertIn("1", done.stdout)

    def test_a_traced_command_inherits_the_same_as_an_untraced_one(self):
        plainly = self.run_command("sh", "-c", INHERITED, PATH=self.path())
        traced = self.run_command("millrace", "trace", "-o", "inherited", "--", "sh", "-c", INHERITED, PATH=self.path())
        self.assertIn("SigIgn:", plainly.stdout)
        self.assertEqual(traced.stdout, plainly.stdout)

    def test_manual_and_completions_are_installed(self):
        share = self.folder / "venv" / "share"
        self.assertIn(".TH MILLRACE 1", (share / "man/man1/millrace.1").read_text())
        for file in ("bash-completion/completions/millrace", "zsh/vendor-completions/_millrace",
                     "fish/vendor_completions.d/millrace.fish"):
            self.assertTrue((share / file).is_file(), f"{file} is missing")

    @unittest.skipUnless(HAS_MPI, "needs MPI and mpirun")
    def test_ranks_find_each_other(self):
        mpirun = ("mpirun", "-n", "2", "--oversubscribe")
        settings = environment(self.folder) | {"PATH": self.path()}
        done = self.run_command(*mpirun, "millrace", "doctor", "--mpi", **settings)
        self.assertIn("2 ranks talk over ", done.stdout)
        if HAS_LOADER:
            (self.folder / "ranks.py").write_text(RANKS)
            done = self.run_command(*mpirun, self.python, "ranks.py", **settings)
            self.assertEqual(sorted(done.stdout.splitlines()), ["0 of 2 None", "1 of 2 None"])

    def test_the_workloads_of_the_benchmark_are_installed(self):
        done = self.run_command("millrace", "bench", "list", PATH=self.path())
        listed = {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
        self.assertLessEqual({file.stem for file in (SOURCE / "workloads").glob("*.yaml")}, listed)

    def test_all_of_the_sources_and_the_examples_are_installed(self):
        (package,) = self.folder.glob("venv/lib/python3*/site-packages/millrace")
        missing = [file for file in (SOURCE / "python" / "millrace").rglob("*") if file.is_file()
                   and file.suffix != ".pyc" and not (package / file.relative_to(SOURCE / "python/millrace")).is_file()]
        self.assertEqual(missing, [])
        examples = self.folder / "venv/share/doc/millrace/examples"
        for file in ("fashion_mnist.py", "imagenet_style/train.py", "slurm/store.sbatch"):
            self.assertTrue((examples / file).is_file(), f"{file} is missing")

    def test_types_and_version_are_installed(self):
        (package,) = self.folder.glob("venv/lib/python3*/site-packages/millrace")
        for file in ("py.typed", "_trace.pyi", "_loader.pyi", "trace/_site/sitecustomize.py",
                     "lib/libmillrace_trace.so"):
            self.assertTrue((package / file).is_file(), f"{file} is missing")
        printed = self.run_command(self.python, "-c", "import millrace; print(millrace.__version__)")
        self.assertIn(f"VERSION {printed.stdout.strip()}\n", (SOURCE / "CMakeLists.txt").read_text())

    def test_the_loader_works_without_numpy_and_torch(self):
        if not HAS_LOADER:
            self.skipTest("this build has no loader for Python: pybind11 was not found")
        (self.folder / "raw").mkdir()
        (self.folder / "raw" / "0.bin").write_bytes(b"1234")
        (self.folder / "loading.py").write_text(LOADING)
        done = self.run_command(self.python, "loading.py")
        self.assertEqual(done.stdout, "[0, 1, 2, 3, 4, 5, 6, 7]\nRawFolder(1 samples)\n")


class InstalledByCmakeTest(Installed, unittest.TestCase):
    @classmethod
    def make_environment(cls):
        cls.run_command(sys.executable, "-m", "venv", "--without-pip", cls.folder / "venv")
        cls.python = cls.folder / "venv" / "bin" / "python"
        cls.run_command("cmake", "--build", BUILD, "--target", "python_package")
        cls.run_command("cmake", "--install", BUILD, "--component", "python", "--prefix", cls.folder / "venv")


class InstalledByPipTest(Installed, unittest.TestCase):
    """`pip install .` as users run it. Skipped without scikit-build-core, which Debian does not have."""

    @classmethod
    def make_environment(cls):
        if not all(importlib.util.find_spec(name) for name in ("scikit_build_core", "pybind11", "pip")):
            raise unittest.SkipTest("pip install . needs scikit-build-core, pybind11 and pip in "
                                    f"{sys.executable}; docs/design/python-package.md")
        cls.run_command(sys.executable, "-m", "venv", "--system-site-packages", cls.folder / "venv")
        cls.python = cls.folder / "venv" / "bin" / "python"
        cls.copy_sources()
        cls.run_command(cls.python, "-m", "pip", "install", "--no-build-isolation", "--no-index",
                        "--no-deps", cls.folder / "source")

    @classmethod
    def copy_sources(cls):
        """A copy, so that nothing is written into the tree or used from it by accident."""
        files = cls.run_command("git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others",
                                "--exclude-standard").stdout.split("\0")
        for file in filter(None, files):
            if (SOURCE / file).is_file():
                target = cls.folder / "source" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((SOURCE / file).read_bytes())


if __name__ == "__main__":
    unittest.main()
