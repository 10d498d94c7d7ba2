#!/usr/bin/env python3
"""Packs by real processes: killed in the middle, on a full disk, under mpirun, with odd names, and from tar files."""

import json
import os
import random
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MPI = [shutil.which("mpirun.openmpi") or shutil.which("mpirun"), "--oversubscribe"]


def has_mpi() -> bool:
    if MPI[0] is None:
        return False
    done = subprocess.run([MILLRACE, "--version", "--json"], capture_output=True, text=True, check=True)
    return any(part["name"] == "mpi" and part["built_in"] for part in json.loads(done.stdout)["parts"])


def listing(root: Path) -> dict:
    """All below a directory: kind, mode, time, content. Works for paths of any length."""
    found = {}

    def visit(fd: int, path: str) -> None:
        for name in os.listdir(fd):
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            content = None
            if os.path.stat.S_ISREG(status.st_mode):
                opened = os.open(name, os.O_RDONLY, dir_fd=fd)
                with open(opened, "rb") as file:
                    content = file.read()
            elif os.path.stat.S_ISLNK(status.st_mode):
                content = os.readlink(name, dir_fd=fd)
            found[path + name] = (status.st_mode, status.st_mtime_ns, content)
            if os.path.stat.S_ISDIR(status.st_mode):
                below = os.open(name, os.O_RDONLY, dir_fd=fd)
                visit(below, path + name + "/")
                os.close(below)

    top = os.open(root, os.O_RDONLY)
    visit(top, "")
    os.close(top)
    return found


class PackTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="millrace-store-"))
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder])
        self.source = self.folder / "source"
        self.source.mkdir()

    def store(self, *words, code=0, program=()):
        done = subprocess.run([*program, MILLRACE, "store", *map(str, words)], capture_output=True, text=True,
                              env=ENVIRONMENT)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def fill(self, count=50, size=20_000):
        generator = random.Random(1)
        for i in range(count):
            path = self.source / f"d{i % 7}" / f"{i:06}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(generator.randbytes(generator.randrange(size)))

    def check_same(self, pack: Path):
        self.store("verify", pack)
        out = self.folder / f"out-{pack.name}"
        self.store("extract", pack, "-o", out)
        self.assertEqual(listing(out), listing(self.source))


class KindsTest(PackTest):
    def test_names_and_files_of_every_kind(self):
        self.fill()
        (self.source / "empty").mkdir()
        (self.source / "zero").touch()
        (self.source / ("n" * 255)).write_text("long")
        with open(os.fsencode(self.source) + b"/\xff\xfe\n", "w") as file:
            file.write("bytes")
        (self.source / "link").symlink_to("/nonexistent")
        (self.source / "loop").symlink_to("loop")
        os.link(self.source / "zero", self.source / "zero2")
        (self.source / "zero").chmod(0o400)
        os.utime(self.source / "zero", ns=(1, -1_500_000_000))
        here = os.open(".", os.O_RDONLY)
        os.chdir(self.source)
        for _ in range(40):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        Path("bottom").write_text("a path of 8,000 bytes")
        os.fchdir(here)
        os.close(here)
        os.mkfifo(self.source / "pipe")
        done = self.store("pack", self.source, "-o", self.folder / "p", "--partitions", "3")
        self.assertIn("pipe: not packed", done.stderr)
        os.unlink(self.source / "pipe")
        os.utime(self.source, ns=(5, 5))
        self.check_same(self.folder / "p")

    def test_a_sparse_file_over_4_gib(self):
        with open(self.source / "large", "wb") as file:
            file.truncate((1 << 32) + 5)
            file.seek((1 << 32) + 1)
            file.write(b"end")
        self.store("pack", self.source, "-o", self.folder / "p", "--codec", "lz4")
        entry = json.loads(self.store("list", self.folder / "p", "--json").stdout)["entries"][0]
        self.assertEqual(entry["bytes"], (1 << 32) + 5)
        self.assertLess(entry["packed_bytes"], 1 << 26)
        self.store("verify", self.folder / "p")

    def test_tar_files_are_catalogued_where_they_are(self):
        self.fill()
        for path in (*self.source.rglob("*"), self.source):
            os.utime(path, (1_700_000_000, 1_700_000_000))  # tarfile rounds times
        tars = []
        for name in ("d0", "d1"):
            tars.append(self.folder / f"{name}.tar")
            with tarfile.open(tars[-1], "w", format=tarfile.PAX_FORMAT) as tar:
                tar.add(self.source / name, name)
        self.store("pack", *tars, "-o", self.folder / "p")
        self.assertEqual(os.listdir(self.folder / "p"), ["catalogue"])
        for name in ("d2", "d3", "d4", "d5", "d6"):
            shutil.rmtree(self.source / name)
        os.utime(self.source, (1_700_000_000, 1_700_000_000))
        self.check_same(self.folder / "p")
        with open(tars[0], "ab") as tar:
            tar.write(bytes(512))
        done = self.store("verify", self.folder / "p", code=1)
        self.assertIn("the tar file has changed", done.stderr)

    def test_a_tar_that_would_leave_the_root_is_refused(self):
        for name in ("../evil", "/etc/evil", "a/../../evil"):
            path = self.folder / "evil.tar"
            with tarfile.open(path, "w") as tar:
                member = tarfile.TarInfo(name)
                tar.addfile(member)
            done = self.store("pack", path, "-o", self.folder / "p", code=1)
            self.assertIn("evil", done.stderr)
            self.assertFalse((self.folder / "p" / "catalogue").exists())


class AccidentTest(PackTest):
    def test_a_killed_pack_leaves_nothing_that_looks_complete_and_continues(self):
        self.fill(count=400, size=200_000)
        pack = self.folder / "p"
        command = [MILLRACE, "store", "pack", self.source, "-o", pack, "--partitions", "40", "--codec", "zstd"]
        for delay in (0.02, 0.05, 0.1, 0.2):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if (pack / "catalogue").exists():
                break  # it was faster
            self.store("verify", pack, code=1)
            for path in pack.glob("*.pack"):
                self.store("verify", path)  # what has its name is complete
        if not (pack / "catalogue").exists():
            self.store("pack", self.source, "-o", pack, "--partitions", "40", "--codec", "zstd")
        self.assertEqual([name for name in os.listdir(pack) if name.startswith(".")], [])
        self.check_same(pack)

    def test_two_packers_do_not_damage_each_other(self):
        self.fill(count=200, size=100_000)
        pack = self.folder / "p"
        command = [MILLRACE, "store", "pack", self.source, "-o", pack, "--partitions", "8"]
        both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
        codes = [process.wait() for process in both]
        for process in both:
            process.stderr.close()
        self.assertIn(0, codes)
        self.check_same(pack)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to mount a small file system")
    def test_a_full_disk_is_named_and_leaves_nothing(self):
        self.fill(count=100, size=100_000)
        small = self.folder / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small]).returncode != 0:
            self.skipTest("cannot mount a tmpfs")
        try:
            done = self.store("pack", self.source, "-o", small / "p", code=1)
            self.assertIn("no space left", done.stderr)
            self.assertIn("part-00000.pack", done.stderr)
            self.assertEqual(os.listdir(small / "p"), [])
            done = self.store("pack", self.source, "-o", small / "p", "--codec", "none", code=1)  # found before it writes
            self.assertRegex(done.stderr, r"part-00000.pack: cannot reserve \d+ bytes: no space left")
            self.assertEqual(os.listdir(small / "p"), [])
        finally:
            subprocess.run(["umount", small], check=True)

    def test_a_file_that_cannot_be_read_is_named(self):
        if os.geteuid() == 0:
            self.skipTest("root can read everything")
        self.fill(count=3)
        victim = self.source / "d1" / "000001"
        victim.chmod(0)
        done = self.store("pack", self.source, "-o", self.folder / "p", code=1)
        self.assertIn("d1/000001: cannot open", done.stderr)


@unittest.skipUnless(has_mpi(), "no MPI")
class RanksTest(PackTest):
    def test_three_ranks_write_the_same_pack(self):
        self.fill(count=200)
        self.store("pack", self.source, "-o", self.folder / "one", "--partitions", "5")
        done = self.store("pack", self.source, "-o", self.folder / "three", "--partitions", "5",
                          program=(*MPI, "-n", "3"))
        self.assertEqual(done.stdout.count("200 files"), 1)
        for name in sorted(os.listdir(self.folder / "one")):
            self.assertEqual((self.folder / "one" / name).read_bytes(), (self.folder / "three" / name).read_bytes())

    def test_three_ranks_verify_and_extract(self):
        self.fill(count=200)
        packs, out = self.folder / "packs", self.folder / "out"
        self.store("pack", self.source, "-o", packs, "--partitions", "5", "--codec", "none")
        done = self.store("verify", packs, program=(*MPI, "-n", "3"))
        self.assertEqual(done.stdout.count("200 files"), 1)
        done = self.store("extract", packs, "-o", out, program=(*MPI, "-n", "3"))
        self.assertEqual(done.stdout.count("200 files"), 1)
        self.assertEqual(listing(out), listing(self.source))
        done = self.store("extract", packs, "-o", out, code=1, program=(*MPI, "-n", "3"))
        self.assertEqual(done.stderr.count("is not empty"), 1)
        for path in packs.glob("*.pack"):  # what each rank finds is reported once
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)
        alone = self.store("verify", packs, code=1)
        done = self.store("verify", packs, code=1, program=(*MPI, "-n", "3"))
        problems = [line for line in done.stderr.splitlines() if line.startswith("millrace: ")]
        self.assertEqual(sorted(problems), sorted(alone.stderr.splitlines()))
        self.assertEqual(done.stdout, alone.stdout)

    def test_an_error_is_printed_once(self):
        done = self.store("pack", self.folder / "nothing", "-o", self.folder / "p", code=1,
                          program=(*MPI, "-n", "3"))
        self.assertEqual(done.stderr.count("no such file"), 1)


if __name__ == "__main__":
    unittest.main()
