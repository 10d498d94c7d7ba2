#!/usr/bin/env python3
"""Created files of ordinary users, on poor machines: little storage, ramfs, no inotify, limits of processes.

In each, programs get what they get in a plain directory in the same place (model_test.py)."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Optional

from places import MILLRACE

MODEL = Path(__file__).absolute().parent / "model_test.py"
NOBODY = 65534
PATIENCE_S = 600
AS_USER = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
NO_INOTIFY = ["unshare", "--user", "--map-root-user", "sh", "-ec",
              'for name in instances watches; do echo 0 > /proc/sys/user/max_inotify_$name; done; exec "$@"', "sh"]


def python_of(before: tuple) -> Optional[str]:
    """A Python that can be started like this; None if the user may not even read this test."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run([*before, python, str(MODEL), "--help"], capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


class UsersTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.folder.chmod(0o755)

    def mount(self, kind: str, options: str = "") -> Path:
        place = self.folder / kind
        place.mkdir()
        done = subprocess.run(["mount", "-t", kind, *(("-o", options) if options else ()), kind, place], capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"cannot mount {kind}")
        self.addCleanup(subprocess.run, ["umount", "-l", place])
        place.chmod(0o1777)
        return place

    def model(self, *words, before: tuple = (), seeds: str = "0-9"):
        """model_test.py, started by `before`."""
        python = python_of(before)
        if python is None:
            self.skipTest("another user cannot read this directory, or there are no namespaces of users")
        more = os.environ.get("MILLRACE_MODEL_WORDS", "").split()  # for example: --without fts
        done = subprocess.run([*before, python, str(MODEL), "--seeds", seeds, *map(str, words), *more], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False, env={**os.environ, "HOME": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"})
        print(done.stdout[-3000:], end="", flush=True)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])

    def test_an_ordinary_user(self):
        for setting in ("save", "same"):
            self.model("--setting", setting, before=AS_USER)

    def test_an_ordinary_user_with_fast_mode(self):
        self.model("--setting", "origin", "--mode", "fast", before=AS_USER)

    def test_on_ramfs(self):
        self.model("--setting", "save", "--folder", self.mount("ramfs"))

    def test_without_inotify(self):
        self.model("--setting", "save", before=NO_INOTIFY)

    def test_with_a_limit_of_the_size_of_files(self):
        self.model("--setting", "save", "--prefix", "prlimit --fsize=6000 --")
        self.model("--setting", "save", "--mode", "fast", "--prefix", "prlimit --fsize=6000 --")

    def test_with_few_descriptors(self):
        self.model("--setting", "save", "--prefix", "prlimit --nofile=24 --")

    def test_64_mb_of_storage(self):
        """The dataset is larger than that, and so is what the program writes."""
        if python_of(AS_USER) is None:
            self.skipTest("another user cannot read this directory")
        local = self.mount("tmpfs", "size=64m")
        source, save = self.folder / "source", self.folder / "save"
        source.mkdir()
        save.mkdir()
        os.chown(save, NOBODY, NOBODY)
        generator = random.Random(5)
        for index in range(20):
            (source / f"{index}").write_bytes(generator.randbytes(5 << 20))
        subprocess.run([MILLRACE, "store", "pack", source, "-o", self.folder / "packs"], check=True, capture_output=True)
        script = f"""cd {self.folder}/root; md5sum $(ls | sort -n); mkdir new; cat 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 > new/large
md5sum < new/large; mv new/large new/moved; stat -c %s new/moved"""
        plain = self.folder / "root"
        shutil.copytree(source, plain)
        wanted = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=True).stdout
        shutil.rmtree(plain)
        done = subprocess.run([*AS_USER, MILLRACE, "store", "run", "--pack", self.folder / "packs", "--at", plain, "--local", local,
                               "--save", save, "--", "bash", "-ec", script], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, wanted), done.stderr)
        self.assertEqual((save / "new" / "moved").stat().st_uid, NOBODY)

    def test_an_upper_directory_that_the_user_may_not_write(self):
        if python_of(AS_USER) is None:
            self.skipTest("another user cannot read this directory")
        source, save = self.folder / "source", self.folder / "save"
        for place in (source, save):
            place.mkdir()
        (source / "a").write_text("a\n")
        save.chmod(0o555)
        subprocess.run([MILLRACE, "store", "pack", source, "-o", self.folder / "packs"], check=True, capture_output=True)
        local = self.mount("tmpfs", "size=16m")
        done = subprocess.run([*AS_USER, MILLRACE, "store", "run", "--pack", self.folder / "packs", "--at", self.folder / "root", "--local",
                               local, "--save", save, "--", "sh", "-c", f"cat {self.folder}/root/a; echo x > {self.folder}/root/b; echo $?"],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.stdout.splitlines()[0], "a", done.stderr)
        self.assertNotEqual(done.stdout.splitlines()[1], "0", done.stderr)
        self.assertIn("ermission denied", done.stderr)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: needs root, to become other users and to mount")
        sys.exit(77)
    unittest.main()
