#!/usr/bin/env python3
"""What the store's client refuses, and what it does when something fails: client_case.py."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from client_case import FOLDER, MILLRACE, ClientTest, setUpModule, add_fast_mode


class LinkedRootTest(ClientTest):
    root = FOLDER / "linked" / "data"  # `linked` is a link to the directory that would contain the root

    def test_the_kernels_name_of_the_root_is_known(self):
        if not self.root.parent.exists():
            self.root.parent.symlink_to("store")
        for path in (self.root, FOLDER / "store" / "data"):
            done = self.run_in_store(["cat", f"{path}/val/with space"])
            self.assertEqual(done.stdout, b"needle\n", done.stderr)
            done = self.run_in_store(["cat", "data/val/with space"], cwd=path.parent)
            self.assertEqual(done.stdout, b"needle\n", done.stderr)


class TracerTest(ClientTest):
    def test_the_tracer_sees_the_names_of_the_program(self):
        trace = self.node.folder / "trace"
        done = self.run_in_store([MILLRACE, "trace", "-o", trace, "--", "cat", f"{self.root}/val/words.txt"])
        self.assertEqual(done.stdout, (self.plain / "val" / "words.txt").read_bytes(), done.stderr)
        done = subprocess.run([MILLRACE, "report", trace, "--by", "file", "--csv"], capture_output=True)
        self.assertIn(b"words.txt", done.stdout, done.stderr)
        self.assertNotIn(b"/tree/", done.stdout)

    def test_a_traced_program_starts_others_while_files_are_open(self):
        code = ("import subprocess, sys; file = open(sys.argv[1]); print(file.read(4), subprocess.run(['cat'], stdin=file).args);"
                "file = open(sys.argv[1]); subprocess.run(['true']); print(file.read(4), file.seek(0), len(file.read()))")
        done = self.run_in_store([MILLRACE, "trace", "-o", self.node.folder / "trace", "--",
                                  sys.executable, "-c", code, f"{self.root}/val/words.txt"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"pear 0 1150", done.stdout)


class RefusalTest(ClientTest):
    def test_the_dataset_is_read_only(self):
        code = """
import os, errno
calls = {
    "append": lambda: open(root + "/zero", "a"),
    "update": lambda: open(root + "/large.bin", "r+b"),
    "unlink": lambda: os.unlink(root + "/zero"),
    "rmdir": lambda: os.rmdir(root + "/empty"),
    "rename": lambda: os.rename(root + "/zero", root + "/new"),
    "chmod": lambda: os.chmod(root + "/zero", 0o600),
    "utime": lambda: os.utime(root + "/zero"),
    "truncate": lambda: os.truncate(root + "/large.bin", 3),
    "fchmod": lambda: os.fchmod(os.open(root + "/zero", os.O_RDONLY), 0),
    "futimens": lambda: os.utime(os.open(root + "/zero", os.O_RDONLY)),
}
for name, call in calls.items():
    try:
        call()
        print(name, "worked")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
os.makedirs(root + "/val", exist_ok=True)
for name, call in {"mkdir": lambda: os.mkdir(root + "/val"), "below": lambda: os.mkdir(root + "/no/no"),
                   "link": lambda: os.link(root + "/zero", "/tmp/no"), "unlink": lambda: os.unlink(root + "/no"),
                   "exclusive": lambda: open(root + "/zero", "x")}.items():
    try:
        call()
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"""
        done = self.run_in_store([sys.executable, "-c", f"root = {str(self.root)!r}\n" + code])
        lines = done.stdout.decode().split("\n")
        self.assertEqual(lines[:10], [line.split()[0] + " EROFS" for line in lines[:10]], done.stderr)
        self.assertEqual(lines[10:], ["mkdir EEXIST", "below ENOENT", "link EXDEV", "unlink ENOENT", "exclusive EEXIST", ""])
        self.assertEqual((self.plain / "zero").stat().st_size, 0)


class FailureTest(ClientTest):
    def read(self, name: str, **settings) -> subprocess.CompletedProcess:
        return self.run_in_store(["cat", f"{self.root}/{name}"], **settings)

    def test_each_file_is_asked_for_once(self):
        for _ in range(3):
            self.assertEqual(self.read("large.bin").returncode, 0)
        self.assertEqual(len(self.node.requests), 1)
        self.assertEqual(self.node.counters()["opens"], 3)

    def test_listing_asks_for_nothing(self):
        self.run_in_store(["ls", "-lR", str(self.root)])
        self.assertEqual(self.node.requests, [])

    def test_without_a_service_the_origin_is_read(self):
        self.node = self.make_node(origin=str(self.plain))
        self.node.stop()
        done = self.run_in_store(["cat", f"{self.root}/val/with space", f"{self.root}/val/words.txt"])
        self.assertEqual(done.stdout, b"needle\n" + (self.plain / "val" / "words.txt").read_bytes())
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertIn(b"is not running: reading " + bytes(self.plain) + b"/val/with space instead", done.stderr)
        self.assertEqual(self.node.counters()["fallbacks"], 2)
        done = self.run_in_store([sys.executable, "-c", "import os, sys; f = open(sys.argv[1]); s = os.stat(sys.argv[1]);"
                                  "assert os.path.samestat(os.fstat(f.fileno()), s)", f"{self.root}/val/words.txt"])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_origin_that_has_changed_is_an_error_that_names_the_file(self):
        origin = Path(tempfile.mkdtemp(prefix="mr-"))
        self.addCleanup(shutil.rmtree, origin, True)
        shutil.copytree(self.plain, origin, symlinks=True, dirs_exist_ok=True)
        words = (origin / "val" / "words.txt").read_bytes()
        self.node = self.make_node(origin=str(origin))
        self.node.stop()
        # Other bytes with the old length and time; another length; the same bytes with another time; a directory.
        kept = (origin / "val" / "words.txt").stat()
        (origin / "val" / "words.txt").write_bytes(words[:-2] + b"?\n")
        os.utime(origin / "val" / "words.txt", ns=(kept.st_atime_ns, kept.st_mtime_ns))
        (origin / "val" / "with space").write_bytes(b"longer than it was")
        os.utime(origin / "train" / "class1" / "0001.bin")
        (origin / "train" / "class2" / "0002.bin").unlink()
        (origin / "train" / "class2" / "0002.bin").mkdir()
        for name, reason in (("val/words.txt", b"has other bytes in the origin"), ("val/with space", b"has another size in the origin"),
                             ("train/class2/0002.bin", b"is no file in the origin")):
            with self.subTest(name):
                done = self.read(name)
                self.assertEqual((done.returncode, done.stdout), (1, b""))
                self.assertIn(b"Input/output error", done.stderr)
                self.assertIn(name.encode() + b" is not available, and " + reason, done.stderr)
        self.assertEqual(self.read("train/class1/0001.bin").stdout, (self.plain / "train" / "class1" / "0001.bin").read_bytes())

    def test_without_an_origin_it_is_an_error_that_names_the_file(self):
        self.node.stop()
        done = self.read("val/words.txt")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"Input/output error", done.stderr)
        self.assertIn(b"val/words.txt is not available, and there is no origin", done.stderr)
        self.assertEqual(self.node.counters()["errors"], 1)

    def test_a_silent_service_costs_one_deadline(self):
        self.node = self.make_node(origin=str(self.plain))
        self.node.delay_s = 60
        begin = time.monotonic()
        done = self.run_in_store(["md5sum", *(str(self.root / "train" / f"class{i}" / f"{i:04}.bin") for i in range(4))],
                                 env={"MILLRACE_STORE_DEADLINE_MS": "500"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"did not answer in time", done.stderr)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(len(self.node.requests), 1)

    def test_an_error_of_the_service_leads_to_the_origin(self):
        self.node = self.make_node(origin=str(self.plain))
        self.node.error = 28
        done = self.read("large.bin")
        self.assertEqual(done.stdout, (self.plain / "large.bin").read_bytes())
        self.assertIn(b"has no room left", done.stderr)

    def test_a_directory_that_is_no_node_is_reported_and_changes_nothing(self):
        done = self.run_in_store(["cat", f"{self.plain}/zero"], env={"MILLRACE_STORE": str(self.plain)})
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"the store at {self.plain} cannot be used".encode(), done.stderr)

    def test_a_node_that_is_gone_is_not_mentioned(self):
        """After `store down`, the shell still exports its name: not a reason to warn at each command."""
        done = self.run_in_store(["cat", f"{self.plain}/zero"], env={"MILLRACE_STORE": "/nonexistent/node"})
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, b"")

    def test_a_message_that_nobody_reads_does_not_end_the_program(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(["cat", f"{self.plain}/zero"], env=self.environment(MILLRACE_STORE=str(self.plain)),
                              stdout=subprocess.DEVNULL, stderr=writer, timeout=100)
        os.close(writer)
        self.assertEqual(done.returncode, 0)

    def test_it_can_be_switched_off(self):
        self.assertEqual(self.read("zero", env={"MILLRACE_STORE": "0"}).returncode, 1)
        self.assertEqual(self.node.requests, [])


add_fast_mode(globals())

if __name__ == "__main__":
    unittest.main()
