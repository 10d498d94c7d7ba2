#!/usr/bin/env python3
"""The packages: what `cmake --install` and CPack make is complete, and runs from any place.

Builds the preset `release` in a separate folder, without the loader for Python, which takes longest to compile, and
with sources in groups (docs/design/tests.md): the plain preset would take five times as long.
"""

import importlib.machinery
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["MILLRACE_SOURCE"])
RELEASE = SOURCE / "build/release-packages"
FILES = ("bin/millrace", "share/man/man1/millrace.1",
         "share/bash-completion/completions/millrace", "share/zsh/vendor-completions/_millrace",
         "share/fish/vendor_completions.d/millrace.fish", "share/doc/millrace/copyright",
         "share/millrace/workloads/small.yaml", "share/millrace/workloads/unet3d_h100.yaml",
         "share/doc/millrace/examples/fashion_mnist.py", "share/doc/millrace/examples/imagenet_style/train.py",
         "share/doc/millrace/examples/slurm/store.sbatch")
PYTHON_FILES = sorted(str(file.relative_to(SOURCE / "python")) for file in (SOURCE / "python/millrace").rglob("*")
                      if file.is_file() and file.suffix != ".pyc")


def run(*command, **options) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run("cmake", "--preset", "release", "-B", RELEASE, "-DMILLRACE_PYTHON=ON", "-DMILLRACE_BINDINGS=OFF", cwd=SOURCE)
        run("cmake", "--build", RELEASE, "--parallel", os.cpu_count())
        cls.holder = tempfile.TemporaryDirectory()
        cls.made = Path(cls.holder.name) / "made"
        run("cpack", "--config", RELEASE / "CPackConfig.cmake", "-B", cls.made, cwd=RELEASE)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def check_tree(self, tree: Path) -> None:
        for name in FILES:
            self.assertTrue((tree / name).is_file(), f"{name} is missing")
        self.assertIn("millrace 0.1.0", run(tree / "bin/millrace", "--version"))
        self.assertIn(".TH MILLRACE 1", (tree / "share/man/man1/millrace.1").read_text())

    def test_cmake_installs_a_complete_tree_without_bundled_libraries(self):
        with tempfile.TemporaryDirectory() as prefix:
            run("cmake", "--install", RELEASE, "--prefix", prefix)
            self.check_tree(Path(prefix))
            self.assertEqual(list(Path(prefix).glob("lib*/**/libfmt*")), [])

    def test_the_debian_package_depends_on_the_libraries(self):
        (package,) = self.made.glob("*.deb")
        depends = run("dpkg-deb", "-f", package, "Depends")
        for library in ("libc6", "libfmt", "libstdc++6", "libzstd", "liblz4"):
            self.assertIn(library, depends)
        with tempfile.TemporaryDirectory() as root:
            run("dpkg-deb", "-x", package, root)
            self.check_tree(Path(root) / "usr")

    def test_the_debian_package_has_the_python_package(self):
        (package,) = self.made.glob("*.deb")
        self.assertIn("python3 (>= 3.", run("dpkg-deb", "-f", package, "Recommends"))
        with tempfile.TemporaryDirectory() as root:
            run("dpkg-deb", "-x", package, root)
            packages = Path(root) / "usr/lib/python3/dist-packages"
            missing = [name for name in PYTHON_FILES if not (packages / name).is_file()]
            self.assertEqual(missing, [])
            (extension,) = (packages / "millrace").glob("_trace.*.so")
            if extension.name[len("_trace"):] not in importlib.machinery.EXTENSION_SUFFIXES:
                self.skipTest(f"{sys.executable} is not the Python that {extension.name} was built for")
            Path(root, "program.py").write_text("from millrace import trace\nprint(trace.enabled())\n")
            printed = run(sys.executable, "-B", "-m", "millrace.trace", "-o", "t", "program.py", cwd=root,
                          env={**os.environ, "PYTHONPATH": str(packages)})
            self.assertEqual(printed.splitlines()[0], "True")

    def test_the_archive_contains_its_libraries_and_uses_them(self):
        (archive,) = self.made.glob("*.tar.gz")
        with tempfile.TemporaryDirectory() as root:
            run("tar", "-xzf", archive, "-C", root, "--strip-components=1")
            tree = Path(root)
            self.check_tree(tree)
            linked = run("ldd", tree / "bin/millrace")
            for library in ("libfmt", "libstdc++", "libgcc_s", "libzstd", "liblz4"):
                line = next(line for line in linked.splitlines() if library in line)
                self.assertIn(str(tree.resolve()), line)

    def test_the_program_does_not_contain_the_path_of_its_build(self):
        run("python3", SOURCE / "tools/check_paths.py", "--binary", RELEASE / "bin/millrace", cwd=SOURCE)


if __name__ == "__main__":
    unittest.main()
