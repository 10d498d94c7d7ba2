"""Which MPI a program uses: that of the launcher, one that is already loaded, or one that the user names.

Few ranks, because those of MPICH spin while they wait, and the machine may be busy.

Usage: kinds_test.py COMM_RANKS MILLRACE [unittest arguments]"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

RANKS, MILLRACE = (Path(path) for path in sys.argv[1:3])
MODULES = RANKS.parent.parent / "lib"


@dataclass
class Kind:
    module: str
    launcher: str
    library: str
    flags: tuple
    calls_itself: str


KINDS = [Kind("libmillrace_mpi_openmpi.so", "mpirun.openmpi", "libmpi.so.40", ("--oversubscribe",), "Open MPI v"),
         Kind("libmillrace_mpi_mpich.so", "mpirun.mpich", "libmpich.so.12", (), "MPICH Version: ")]


def usable_kinds() -> list[Kind]:
    """The kinds that this build supports and whose launcher Debian has installed."""
    return [kind for kind in KINDS if (MODULES / kind.module).exists() and shutil.which(kind.launcher)]


class KindsTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="mr")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        if not any(shutil.which(kind.launcher) for kind in KINDS):
            self.skipTest("there is no launcher with the name that Debian gives it")
        self.kinds = usable_kinds()
        self.assertGreater(len(self.kinds), 0, "this build has no library for the MPI of this machine")

    def run_command(self, *command, **more: str) -> subprocess.CompletedProcess:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "MILLRACE_"))}
        environment = dict(inherited, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_orte_tmpdir_base=str(self.folder),
                           ASAN_OPTIONS="detect_leaks=0,verify_asan_link_order=0", **more)
        return subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True,
                              timeout=600, check=False)

    def copy_without(self, module: str) -> Path:
        """A copy of the program without one of its MPI libraries."""
        for name in ("bin", "lib"):
            (self.folder / name).mkdir()
        for kind in KINDS:
            if kind.module != module and (MODULES / kind.module).exists():
                (self.folder / "lib" / kind.module).symlink_to(MODULES / kind.module)
        return Path(shutil.copy(RANKS, self.folder / "bin"))

    def test_ranks_use_the_mpi_of_their_launcher(self):
        for kind in self.kinds:
            with self.subTest(kind.launcher):
                done = self.run_command(kind.launcher, "-n", "2", *kind.flags, MILLRACE, "doctor", "--mpi")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, f"^2 ranks talk over {kind.calls_itself}[0-9.]+ \\(/.*{kind.library}.*\\)\n$")

    def test_the_doctor_can_be_a_rank_of_each(self):
        for kind in self.kinds:
            with self.subTest(kind.launcher):
                done = self.run_command(kind.launcher, "-n", "1", *kind.flags, MILLRACE, "doctor", "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(": 2 ranks talk over ", done.stdout)

    def test_messages_and_reductions_work_over_each(self):
        names = ["ReduceFoldsIntegersOnlyAtTheRoot", "MessagesOfAnyLengthArrive"]
        for kind in self.kinds:
            with self.subTest(kind.launcher):
                done = self.run_command(kind.launcher, "-n", "2", *kind.flags, RANKS, "check", *names)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.count(" holds on rank "), 2 * len(names), done.stdout)

    def test_an_already_loaded_mpi_is_used(self):
        for kind in self.kinds:
            with self.subTest(kind.launcher):
                done = self.run_command(RANKS, "check", "RanksAreCounted", MILLRACE_COMM="mpi", LD_PRELOAD=kind.library,
                                        LD_DEBUG="files")
                self.assertIn("RanksAreCounted holds on rank 0\n", done.stdout, done.stderr[-2000:])
                for other in KINDS:
                    self.assertEqual(other.module in done.stderr, other is kind, other.module)

    def test_the_user_may_name_an_mpi_library_or_our_library_for_it(self):
        for kind in self.kinds:
            for named in (MODULES / kind.module, path_of(kind.library)):
                with self.subTest(named):
                    done = self.run_command(RANKS, "check", "RanksAreCounted", MILLRACE_COMM="mpi",
                                            MILLRACE_MPI_LIBRARY=str(named), LD_DEBUG="files")
                    self.assertIn("RanksAreCounted holds on rank 0\n", done.stdout, done.stderr[-2000:])
                    self.assertIn(kind.module, done.stderr)

    def test_a_build_without_the_launchers_mpi_says_so(self):
        for kind, prefix in zip(KINDS, ("OMPI_COMM_WORLD", "PMI")):
            with self.subTest(kind.module):
                shutil.rmtree(self.folder)
                self.folder.mkdir()
                done = self.run_command(self.copy_without(kind.module), "check", "RanksAreCounted",
                                        **{f"{prefix}_SIZE": "2", f"{prefix}_RANK": "0"})
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"no MPI can be used for the ranks of this job ({prefix}_SIZE=2): "
                              f"this build of Millrace has no {kind.module} for ", done.stderr)
                self.assertIn("millrace doctor", done.stderr)

    def test_an_mpi_library_that_cannot_be_loaded_is_named_with_the_next_step(self):
        (self.folder / "libmpi.so.40").write_text("not a library at all, but long enough to look like one" * 20)
        done = self.run_command(RANKS, "check", "RanksAreCounted", OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0",
                                LD_LIBRARY_PATH=str(self.folder))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"Open MPI cannot be loaded ({self.folder}/libmpi.so.40: ", done.stderr)
        self.assertIn("LD_LIBRARY_PATH", done.stderr)


def path_of(library: str) -> Path:
    """The path at which the linker finds a library."""
    maps = subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{library}'); print(open('/proc/self/maps').read())"],
                          capture_output=True, text=True, check=True).stdout
    name = library.split(".so")[0]
    return next(Path(line.split()[-1]) for line in maps.splitlines() if f"/{name}.so" in line)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
