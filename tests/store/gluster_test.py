#!/usr/bin/env python3
"""A store whose pack is on a real shared file system: GlusterFS on loopback (benchmarks/store/store_gluster.sh), cold.

The service reads a partition to its end as soon as eight of its files were needed, and makes the files.
"""

import filecmp
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
GLUSTER = Path(__file__).resolve().parents[2] / "benchmarks" / "store" / "store_gluster.sh"
PATIENCE_S = 60
FILES = 300  # in three partitions
NEEDED = 8   # files of a partition, before it is read ahead


def why_not() -> str:
    """Empty, or why there cannot be one on this machine."""
    if os.geteuid() != 0:
        return "GlusterFS needs root"
    if shutil.which("glusterd") is None or shutil.which("glusterfs") is None:
        return "glusterfs-server is not installed"
    return "" if os.path.exists("/dev/fuse") else "there is no /dev/fuse"


def start_gluster(folder: Path) -> None:
    with open(folder / "up.log", "w+") as log:  # not a pipe: the daemons keep it
        done = subprocess.run([GLUSTER, "up", folder], stdout=log, stderr=log, timeout=PATIENCE_S)
        log.seek(0)
        if done.returncode != 0:
            raise unittest.SkipTest(f"GlusterFS does not start: {log.read().strip()}")


class GlusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))  # short, for the socket's path
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        shared = cls.folder / "gluster"
        shared.mkdir()
        cls.addClassCleanup(subprocess.run, [GLUSTER, "down", shared], capture_output=True)
        start_gluster(shared)
        cls.shared = shared
        cls.source, cls.packs = shared / "mount" / "plain", shared / "mount" / "packs"
        cls.source.mkdir()
        for i in range(FILES):
            (cls.source / f"{i:03}").write_bytes(os.urandom(16_000))
        cls.store("pack", cls.source, "-o", cls.packs, "--partitions", "3", "--codec", "none")
        # Once: it also drops what all other programs have cached.
        subprocess.run([GLUSTER, "cold", shared], check=True, timeout=PATIENCE_S)
        listed = json.loads(cls.store("list", cls.packs, "--json"))["entries"]
        cls.partitions = [[], [], []]
        for entry in listed:
            if entry["kind"] == "file":
                cls.partitions[int(entry["partition"])].append(entry["path"])

    @classmethod
    def store(cls, *words) -> str:
        return subprocess.run([MILLRACE, "store", *map(str, words)], check=True, stdout=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S).stdout

    def up(self, *flags) -> None:
        self.root, local = self.folder / "data", self.folder / "local"
        local.mkdir(exist_ok=True)
        lines = self.store("up", "--pack", self.packs, "--at", self.root, "--local", local, *flags).splitlines()
        exports = dict(line.removeprefix("export ").split("=", 1) for line in lines)
        self.environment = {**os.environ, **{name: shlex.split(value)[0] for name, value in exports.items()}}
        self.node = Path(self.environment["MILLRACE_STORE"])
        self.addCleanup(self.down)

    def down(self) -> None:
        """The mount can be removed when nobody uses it."""
        subprocess.run([MILLRACE, "store", "down", "--node", self.node], capture_output=True, timeout=PATIENCE_S)

    def status(self) -> dict:
        (found,) = json.loads(self.store("status", "--json", "--node", self.node))["stores"]
        return found

    def read(self, names: list) -> None:
        subprocess.run(["cat", *(f"{self.root}/{name}" for name in names)], check=True, env=self.environment,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE_S)

    def made(self) -> set:
        return {path.name for path in (self.node / "tree").iterdir()}

    def wait_for(self, names) -> None:
        end = time.monotonic() + PATIENCE_S
        while not self.made() >= set(names):
            self.assertLess(time.monotonic(), end, f"only {len(self.made())} of the files came")
            time.sleep(0.05)

    def test_files_of_a_partition_come_before_they_are_read(self):
        self.up("--capacity", "1GiB")
        first, second, _ = self.partitions
        self.read(first[:NEEDED - 1])
        self.read(second[:1])
        time.sleep(0.3)  # a few files are no reason to read all
        self.assertEqual(self.made(), {*first[:NEEDED - 1], second[0]})
        self.read(first[NEEDED - 1:NEEDED])
        self.wait_for(first)
        self.assertEqual(self.made(), {*first, second[0]})
        status = self.status()
        self.assertEqual((status["fallbacks"], status["errors"]), (0, 0))
        _, different, errors = filecmp.cmpfiles(self.source, self.node / "tree", first, shallow=False)
        self.assertEqual((different, errors), ([], []))

    def test_all_partitions_in_turn(self):
        self.up("--capacity", "1GiB")
        for names in self.partitions:
            self.read(names[:NEEDED])
        everything = [name for names in self.partitions for name in names]
        self.wait_for(everything)
        self.read(everything)
        self.assertEqual(self.status()["materialised"], FILES)

    def test_fast_mode_gets_its_bytes_ahead_too(self):
        self.up("--capacity", "1GiB", "--fast")
        read = ("import os, sys\nfor name in sys.argv[1:]:\n"
                "    fd = os.open(name, os.O_RDONLY)\n    os.write(1, os.read(fd, 1 << 20))\n    os.close(fd)\n")
        words = [sys.executable, "-c", read, *(f"{self.root}/{name}" for name in self.partitions[0])]
        done = subprocess.run(words, env=self.environment, stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
        self.assertEqual(done.stdout, b"".join((self.source / name).read_bytes() for name in self.partitions[0]))
        self.assertEqual(self.status()["errors"], 0)

    def test_without_room_nothing_is_made_ahead(self):
        self.up("--capacity", "1MiB")
        names = [name for names in self.partitions for name in names]
        self.read(names)
        status = self.status()
        self.assertGreater(status["fallbacks"], 0)
        self.assertEqual(status["errors"], 0)
        self.assertLessEqual(status["materialised_bytes"], 1 << 20)


if __name__ == "__main__":
    if reason := why_not():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
