#!/usr/bin/env python3
"""Builds with the library of each optional part hidden, one at a time: the program lists the part as off.

The files of the library's Debian package are deleted in an overlay over /usr that only the build sees. The machine
does not change. Switching a part off (`minimal_test.py`) would not show what CMake finds by mistake.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["MILLRACE_SOURCE"])
# One folder for all parts: what does not depend on a part is compiled once.
BUILD = SOURCE / "build/parts-test"
# A file of each part's library. The packages that own these files are hidden.
OWNED_BY_THE_LIBRARY = {
    "yaml": "/usr/include/yaml-cpp/yaml.h",
    "gzip": "/usr/include/zlib.h",
    "deflate": "/usr/include/libdeflate.h",
    "mpi": "/usr/*/*/*mpi*/**/mpi.h",  # both Open MPI and MPICH
    "sqlite": "/usr/include/sqlite3.h",
    "jpeg": "/usr/include/jpeglib.h",
    "png": "/usr/include/libpng16/png.h",
    "hdf5": "/usr/include/hdf5/serial/hdf5.h",
    "uring": "/usr/include/liburing.h",
    "lz4": "/usr/include/lz4.h",
    "fuse": "/usr/include/fuse3/fuse_lowlevel.h",
    "python": "/usr/include/python3.*/Python.h",
    "bindings": "/usr/include/pybind11/pybind11.h",
}
HIDE_AND_BUILD = r"""
set -eu
mount -t tmpfs tmpfs "$SCRATCH"
mkdir "$SCRATCH/upper" "$SCRATCH/work"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work" /usr
dpkg -L "$@" | grep ^/usr/ | sort -r | while read -r file; do
  if [ -d "$file" ] && [ ! -L "$file" ]; then rmdir --ignore-fail-on-non-empty "$file"; else rm -f "$file"; fi
done
cmake --preset release --fresh -B "$BUILD" -DCMAKE_CXX_FLAGS_RELEASE="-O0 -DNDEBUG"
cmake --build "$BUILD"
"$BUILD/bin/millrace" --version
"""


def packages_of(part: str) -> list[str]:
    files = [os.path.realpath(file) for file in glob.glob(OWNED_BY_THE_LIBRARY[part], recursive=True)]
    if not files:
        raise AssertionError(f"{OWNED_BY_THE_LIBRARY[part]} does not exist, so part {part} cannot be tested by hiding it")
    owners = subprocess.run(["dpkg", "-S", *files], capture_output=True, text=True, check=True).stdout
    return sorted({line.split(": ")[0] for line in owners.splitlines()})


class PartsTest(unittest.TestCase):
    maxDiff = None

    def build_without(self, part: str) -> str:
        """The output of configuring, building and `millrace --version` on a machine without the part's library."""
        # Pythons and libraries that are not Debian's must not replace what is hidden.
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.environ["HOME"], "BUILD": str(BUILD),
                       "SCRATCH": scratch.name}
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", HIDE_AND_BUILD, "hide",
                               *packages_of(part)], cwd=SOURCE, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:])
        return done.stdout

    def test_every_part_is_tested(self):
        parts = re.findall(r"^millrace_part\((\w+)", (SOURCE / "CMakeLists.txt").read_text(), re.MULTILINE)
        self.assertEqual(sorted(parts), sorted(OWNED_BY_THE_LIBRARY))

    def test_a_build_without_the_library_lists_the_part_as_off(self):
        for part in OWNED_BY_THE_LIBRARY:
            with self.subTest(part=part):
                printed = self.build_without(part)
                self.assertRegex(printed, rf"(?m)^-- part {part}: off \(.+ was not found when this was built; install \S+")
                self.assertRegex(printed, rf"(?m)^ *off {part}: .+ was not found")


if __name__ == "__main__":
    if os.geteuid() != 0 or not Path("/usr/bin/dpkg").exists():
        print("needs root and Debian's dpkg, to hide packages")
        sys.exit(77)
    unittest.main()
