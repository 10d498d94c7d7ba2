#!/usr/bin/env python3
"""`store mount` with real programs, static ones too; with damaged packs, killed processes and a running store."""

import errno
import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
PATIENCE_S = 60

STATIC_CAT = r"""
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char** argv) {
  static char buffer[1 << 16];
  for (int i = 1; i < argc; ++i) {
    int fd = open(argv[i], O_RDONLY);
    if (fd < 0) return 1;
    ssize_t size;
    while ((size = read(fd, buffer, sizeof(buffer))) > 0) {
      if (write(1, buffer, size) != size) return 2;
    }
    if (size < 0) return 3;
    close(fd);
  }
  return 0;
}
"""


def why_not() -> str:
    """Why packs cannot be mounted here; empty if they can."""
    parts = subprocess.run([MILLRACE, "--version"], capture_output=True, text=True, check=True).stdout
    if "off fuse" in parts:
        return "this build has no FUSE"
    if not Path("/dev/fuse").exists():
        return "there is no /dev/fuse"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "source").mkdir()
        (Path(folder) / "at").mkdir()
        subprocess.run([MILLRACE, "store", "pack", "source", "-o", "packs"], cwd=folder, capture_output=True, check=True)
        tried = subprocess.run([MILLRACE, "store", "mount", "--pack", "packs", "at", "--background"], cwd=folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
        if tried.returncode != 0:
            return tried.stderr.strip()
        subprocess.run([MILLRACE, "store", "unmount", "at"], cwd=folder, check=True)
    return ""


def wait_until(condition) -> bool:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def output_of(*command, cwd=None) -> bytes:
    return subprocess.run([str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE, check=True,
                          timeout=PATIENCE_S).stdout


class MountTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))  # short, for the socket of a service
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.source = self.folder / "source"
        self.at = self.folder / "at"
        self.at.mkdir()
        self.packs = self.folder / "packs"
        (self.source / "train/deep/er").mkdir(parents=True)
        (self.source / "none").mkdir()
        (self.source / "empty").write_bytes(b"")
        (self.source / "raw").write_bytes(os.urandom(300_001))
        (self.source / "text").write_bytes(b"a line of text\n" * 20_000)
        (self.source / "long").write_bytes(b"".join(b"%d\n" % i for i in range(700_000)))  # several blocks
        (self.source / "train/link").symlink_to("../text")
        (self.source / ("n" * 255)).write_bytes(b"long name")
        (self.source / "tr\udcffin").write_bytes(b"not UTF-8")
        os.chmod(self.source / "raw", 0o640)
        os.utime(self.source / "raw", ns=(1, 1_234_567_890_123_456_789))
        for i in range(500):
            (self.source / f"train/deep/{i}").write_bytes(os.urandom(i * 7))
        os.utime(self.source / "train", ns=(1, 999_999_999))

    def pack(self, *options):
        self.run_store("pack", self.source, "-o", self.packs, "--partitions", "2", *options)

    def run_store(self, *words, code=0):
        done = subprocess.run([MILLRACE, "store", *map(str, words)], capture_output=True, text=True,
                              timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def is_mounted(self) -> bool:
        return f" {self.at} " in Path("/proc/mounts").read_text()

    def is_served(self) -> bool:
        try:
            return os.statvfs(self.at).f_bfree == 0 and self.is_mounted()
        except OSError:
            return False  # a dead mount

    def mount(self, *options, what=None) -> subprocess.Popen:
        """In the foreground of a process of its own."""
        log = open(self.folder / "log", "w")
        self.addCleanup(log.close)
        process = subprocess.Popen([MILLRACE, "store", "mount", *(what or ["--pack", self.packs]), self.at, *options],
                                   stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(subprocess.run, ["umount", "-l", self.at], capture_output=True)
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: self.is_served() or process.poll() is not None))
        self.assertEqual(process.poll(), None, self.log())
        return process

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def unmount(self, process: subprocess.Popen):
        self.run_store("unmount", self.at)
        self.assertEqual(process.wait(PATIENCE_S), 0, self.log())
        self.assertFalse(self.is_mounted())

    def assert_equal_trees(self):
        listing = ["find", ".", "-printf", r"%P|%y|%m|%s|%n|%T@|%l\n"]
        def listed(top):
            # The length and the links of a directory depend on the file system.
            lines = sorted(output_of(*listing, cwd=top).split(b"\n"))
            return [b"|".join(f for i, f in enumerate(line.split(b"|")) if b"|d|" not in line or i != 3)
                    for line in lines]
        self.assertEqual(listed(self.source), listed(self.at))
        sums = ["sh", "-c", "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum"]
        self.assertEqual(output_of(*sums, cwd=self.source), output_of(*sums, cwd=self.at))
        tar = ["tar", "c", "--sort=name", "--owner=0", "--group=0", "."]
        self.assertEqual(output_of(*tar, cwd=self.source), output_of(*tar, cwd=self.at))

    def test_programs_see_the_packed_tree(self):
        for codec in ("auto", "none"):
            with self.subTest(codec=codec):
                shutil.rmtree(self.packs, ignore_errors=True)
                self.pack("--codec", codec)
                process = self.mount()
                self.assert_equal_trees()
                self.assert_equal_trees()  # what the kernel has kept
                self.unmount(process)
                self.assertEqual(self.log(), "")

    def test_static_programs(self):
        if shutil.which("gcc") is None:
            self.skipTest("no gcc")
        program = self.folder / "cat"
        built = subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", program], input=STATIC_CAT, text=True,
                               capture_output=True)
        if built.returncode != 0:
            self.skipTest("gcc cannot link statically")
        self.pack()
        process = self.mount()
        names = ["raw", "text", "long", "empty", "train/link", "train/deep/499"]
        expected = b"".join((self.source / name).read_bytes() for name in names)
        self.assertEqual(output_of(program, *[self.at / name for name in names]), expected)
        self.unmount(process)

    def test_pieces_from_any_place(self):
        self.pack()
        process = self.mount()
        whole = (self.source / "long").read_bytes()
        with open(self.at / "long", "rb", buffering=0) as file:
            for offset in (0, 1, 1 << 20, (1 << 20) - 7, (3 << 20) + 11, len(whole) - 5, len(whole), len(whole) + 9):
                self.assertEqual(os.pread(file.fileno(), 2_500_000, offset), whole[offset:offset + 2_500_000])
        direct = os.open(self.at / "long", os.O_RDONLY | os.O_DIRECT)
        self.assertEqual(os.pread(direct, 3_000_000, (1 << 20) - 512), whole[(1 << 20) - 512:][:3_000_000])
        os.close(direct)
        self.unmount(process)

    def test_many_threads(self):
        self.pack()
        process = self.mount()
        def is_equal(i):
            name = ("long", "text", "raw", f"train/deep/{i}")[i % 4]
            with open(self.at / name, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # ask the file system again
            return filecmp.cmp(self.source / name, self.at / name, shallow=False)
        with ThreadPoolExecutor(16) as pool:
            self.assertEqual(set(pool.map(is_equal, range(400))), {True})
        self.unmount(process)

    def test_nothing_can_be_written(self):
        self.pack()
        process = self.mount()
        for attempt in (lambda: (self.at / "new").write_text(""), lambda: (self.at / "raw").unlink(),
                        lambda: open(self.at / "raw", "ab"), lambda: (self.at / "none").rmdir()):
            with self.assertRaises(OSError) as caught:
                attempt()
            self.assertEqual(caught.exception.errno, 30)  # EROFS
        with self.assertRaises(FileNotFoundError):
            (self.at / "missing").stat()
        self.unmount(process)

    def test_names_and_attributes_answer_as_in_a_directory(self):
        self.pack()
        process = self.mount()
        attempts = [lambda top: os.stat(top / ("n" * 256)), lambda top: os.stat(top / ("n" * 1000)),
                    lambda top: os.getxattr(top / "raw", "user.missing")]
        for attempt in attempts:
            found = []
            for top in (self.source, self.at):
                with self.assertRaises(OSError) as caught:
                    attempt(top)
                found.append(caught.exception.errno)
            self.assertEqual(found[0], found[1])
        with self.assertRaises(OSError) as caught:
            os.setxattr(self.at / "raw", "user.new", b"")
        self.assertEqual(caught.exception.errno, errno.EROFS)
        self.assertEqual(os.listxattr(self.at / "raw"), [])
        self.unmount(process)

    def test_a_damaged_file_gives_an_error_and_one_line(self):
        for codec in ("none", "zstd"):
            with self.subTest(codec=codec):
                shutil.rmtree(self.packs, ignore_errors=True)
                self.pack("--codec", codec)
                entries = json.loads(self.run_store("list", self.packs, "--json").stdout)["entries"]
                (text,) = [entry for entry in entries if entry["path"] == "text"]
                partition = self.packs / f"part-{text['partition']:05}.pack"
                with open(partition, "r+b") as file:
                    file.seek(text["offset"] + text["packed_bytes"] // 2)
                    byte = file.read(1)
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes([byte[0] ^ 1]))
                begin = f"millrace: store: 'text' in {partition.name} at byte {text['offset']}: "
                process = self.mount(what=["--pack", self.packs, "--origin", self.folder / "nowhere"])
                for _ in range(3):
                    with self.assertRaises(OSError) as caught:
                        (self.at / "text").read_bytes()
                    self.assertEqual(caught.exception.errno, 5)  # EIO
                for name in ("raw", "long"):
                    self.assertTrue(filecmp.cmp(self.source / name, self.at / name, shallow=False))
                self.unmount(process)
                (line,) = self.log().splitlines()
                self.assertTrue(line.startswith(begin), line)
                process = self.mount()  # with the origin
                self.assert_equal_trees()
                self.unmount(process)
                (line,) = self.log().splitlines()
                self.assertTrue(line.startswith(begin), line)
                self.assertIn(f"it is read from {self.source}", line)

    def test_a_missing_partition_leaves_the_others(self):
        self.pack("--codec", "none")
        os.remove(self.packs / "part-00001.pack")
        process = self.mount(what=["--pack", self.packs, "--origin", self.folder / "nowhere"])
        read = []
        for path in sorted(self.source.glob("train/deep/*")):
            try:
                if path.is_file():
                    read.append((self.at / path.relative_to(self.source)).read_bytes() == path.read_bytes())
            except OSError as error:
                self.assertEqual(error.errno, 5)
        self.assertEqual(set(read), {True})
        self.assertLess(len(read), 500)
        self.unmount(process)
        self.assertIn("part-00001.pack", self.log())
        process = self.mount()
        self.assert_equal_trees()  # the rest comes from the origin
        self.unmount(process)

    def test_a_truncated_partition_does_not_end_the_mount(self):
        self.pack("--codec", "none")
        process = self.mount()
        for part in ("part-00000.pack", "part-00001.pack"):
            os.truncate(self.packs / part, 4096)
        self.assert_equal_trees()
        self.unmount(process)

    def test_ends_at_a_signal(self):
        self.pack()
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.mount()
            process.send_signal(number)
            self.assertEqual(process.wait(PATIENCE_S), 0, self.log())
            self.assertFalse(self.is_mounted())

    def test_a_dead_mount_is_cleaned_up_by_the_next(self):
        self.pack()
        process = self.mount()
        in_use = os.open(self.at, os.O_PATH)
        self.addCleanup(os.close, in_use)
        process.kill()
        process.wait()
        with self.assertRaises(OSError) as caught:
            os.statvfs(self.at)
        self.assertEqual(caught.exception.errno, 107)  # ENOTCONN
        process = self.mount()
        self.assert_equal_trees()
        self.assertIn("removing a mount whose process was killed", self.log())
        self.unmount(process)
        process = self.mount()
        process.kill()
        process.wait()
        self.run_store("unmount", self.at)
        self.assertFalse(self.is_mounted())

    def test_a_mount_in_use_stays(self):
        self.pack()
        process = self.mount()
        with open(self.at / "raw", "rb"):
            self.assertIn("programs still use it", self.run_store("unmount", self.at, code=1).stderr)
            self.assertIn("mounted here already",
                          self.run_store("mount", "--pack", self.packs, self.at, code=1).stderr)
        self.unmount(process)

    def test_in_the_background(self):
        self.pack()
        self.addCleanup(subprocess.run, ["umount", "-l", self.at], capture_output=True)
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        subprocess.run([MILLRACE, "store", "mount", "--pack", self.packs, self.at, "--background"], check=True,
                       pass_fds=[writing], capture_output=True, timeout=PATIENCE_S)  # does not keep our pipes
        os.close(writing)
        os.set_blocking(reading, False)
        self.assertEqual(os.read(reading, 1), b"")
        os.close(reading)
        self.assert_equal_trees()
        self.run_store("unmount", self.at)
        self.assertFalse(self.is_mounted())

    def test_of_a_running_store(self):
        self.pack()
        local = self.folder / "local"
        local.mkdir()
        up = self.run_store("up", "--pack", self.packs, "--at", "/data", "--local", local, "--capacity", "3MiB")
        node = up.stdout.splitlines()[0].split("=")[1].strip("'")
        self.addCleanup(subprocess.run, [MILLRACE, "store", "down", "--node", node], capture_output=True)
        process = self.mount(what=["--node", node])
        self.assert_equal_trees()  # what has no room comes from the origin
        (status,) = json.loads(self.run_store("status", "--json", "--node", node).stdout)["stores"]
        self.assertGreater(status["materialised"], 100)
        self.unmount(process)
        self.assertEqual(self.log(), "")

    def test_errors_say_what_to_do(self):
        self.pack()
        cases = [(["mount", "--pack", self.packs, self.folder / "missing"], "cannot mount here"),
                 (["mount", "--pack", self.packs, self.source / "raw"], "is not a directory"),
                 (["mount", "--pack", self.source, self.at], "has no catalogue"),
                 (["unmount", self.at], "has mounted nothing here")]
        for words, message in cases:
            with self.subTest(words=words):
                self.assertIn(message, self.run_store(*words, code=1).stderr)


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"packs cannot be mounted here: {reason}")
        sys.exit(77)
    unittest.main()
