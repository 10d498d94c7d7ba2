#!/usr/bin/env python3
"""No trace can do harm: what is there is the same before and after `replay` and `advise --try`, whatever the trace says.

Run as any user. Root is the interesting one, because modes do not stop it.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
MAKE_TRACE = sys.argv.pop(1)
HAS_STORE = "--without-store" not in sys.argv
if not HAS_STORE:
    sys.argv.remove("--without-store")
PATIENCE_S = 60
FILES = 30
FAILED = -13
READ, WRITE, CREATE, EXCLUSIVE, TRUNCATE, APPEND = 0, 1, 0o100, 0o200, 0o1000, 0o2000


def call(function, file, *, other="", offset="", size=0, result=0, detail=0):
    return "\t".join(str(field) for field in (function, file, other, offset, size, result, detail)) + "\n"


def reads_of(path, size=1000):
    return [call("open", path, result=3, detail=READ), call("fstat", path, size=size),
            call("read", path, offset=0, size=size, result=size), call("close", path)]


def changes_of(data, result):
    """A changing call of each kind on files that are there, and on ones that are not."""
    done = result == 0
    moved = 100 if done else result
    name = [f"{data}/class{i % 3}/{i}" for i in range(FILES)]
    number = 3 if done else result
    return [
        call("unlink", name[0], result=result), call("unlinkat", name[1], result=result),
        call("remove", name[2], result=result), call("rename", name[3], other=name[4], result=result),
        call("renameat2", name[5], other=f"{data}/renamed", result=result),
        call("truncate", name[6], size=0, result=result), call("truncate", name[7], size=1 << 62, result=result),
        call("open", name[8], result=number, detail=WRITE | TRUNCATE),
        call("openat", name[9], result=number, detail=2 | CREATE | TRUNCATE), call("creat", name[10], result=number, detail=0o1101),
        call("fopen", name[11], result=result, detail=WRITE | CREATE | TRUNCATE),
        call("fopen", name[12], result=result, detail=WRITE | CREATE | APPEND),
        call("open", name[13], result=number, detail=2), call("write", name[13], offset=0, size=100, result=moved),
        call("pwrite", name[14], offset=10, size=100, result=moved), call("ftruncate", name[15], size=0, result=result),
        call("fallocate", name[16], offset=0, size=500, result=result, detail=3),
        call("sendfile", name[17], other=name[18], offset=0, size=100, result=moved),
        call("copy_file_range", name[17], other=name[19], offset=0, size=100, result=moved),
        call("fwrite", name[20], offset=0, size=100, result=moved),
        call("link", name[21], other=f"{data}/linked", result=result),
        call("link", name[21], other=name[22], result=result),
        call("mkdir", f"{data}/made", result=result), call("mkdir", f"{data}/class1", result=result),
        call("rmdir", f"{data}/empty", result=result), call("unlink", f"{data}/empty", result=result),
        call("open", f"{data}/new", result=number, detail=WRITE | CREATE | EXCLUSIVE),
        call("mkstemp", f"{data}/new2", result=number), call("unlink", f"{data}/link", result=result),
        call("open", f"{data}/link", result=number, detail=WRITE | TRUNCATE),
        call("open", f"{data}/pipe", result=number, detail=WRITE),
        call("open", f"{data}/out/precious", result=number, detail=WRITE | TRUNCATE),
        call("unlink", f"{data}/out/precious", result=result),
        call("unlink", f"{data}/class0/../../outside/precious", result=result),
        call("open", f"{data}/../outside/precious", result=number, detail=WRITE | TRUNCATE),
        call("rename", f"{data}/class0", other=f"{data}/class9", result=result),
    ]


class HarmTest(unittest.TestCase):
    def setUp(self):
        self.base = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp")).resolve()
        self.addCleanup(shutil.rmtree, self.base, ignore_errors=True)
        self.data = self.base / "data"
        self.outside = self.base / "outside"
        for i in range(FILES):
            path = self.data / f"class{i % 3}" / str(i)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(1000 + i))
            path.chmod(0o444)
        (self.data / "empty").mkdir()
        self.outside.mkdir()
        (self.outside / "precious").write_text("mine")
        self.tries = self.base / "tries"
        self.tries.mkdir()

    def add_traps(self):
        (self.data / "link").symlink_to("../outside/precious")
        (self.data / "out").symlink_to("../outside")
        os.mkfifo(self.data / "pipe")

    def trace(self, calls):
        path = self.base / "t.mrt"
        path.unlink(missing_ok=True)
        subprocess.run([MAKE_TRACE, path], input="".join(calls), text=True, check=True)
        return path

    def reads(self):
        return [line for i in range(FILES) for line in reads_of(f"{self.data}/class{i % 3}/{i}")]

    def millrace(self, *words):
        return subprocess.run([MILLRACE, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE_S,
                              stdin=subprocess.DEVNULL)

    def state(self):
        """All that a replay could have changed below the dataset and beside it."""
        found = {}
        for top in (self.data, self.outside):
            for path in [top, *top.rglob("*")]:
                status = path.lstat()
                content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(status.st_mode) else ""
                found[str(path)] = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns, status.st_ino,
                                    status.st_ctime_ns, content)
        return found

    def pack(self):
        packs = self.base / "packs"
        if not packs.exists():
            self.assertEqual(self.millrace("store", "pack", self.data, "-o", packs).returncode, 0)
        return packs

    def check_nothing_changes(self, trace, succeeds=False):
        listed = self.base / "list"
        listed.write_text("".join(f"{self.data}/class{i % 3}/{i}\n" for i in range(FILES)))
        replay = ("replay", trace, "--onto", self.data)
        run = ("store", "run", "--pack", self.pack(), "--at", self.data, "--")
        in_store = (("advise", trace, "--try", "--scratch", self.tries),
                    (*run, MILLRACE, *replay, "--root", self.data),
                    (*run, MILLRACE, *replay, "--root", self.data, "--existing"))
        for words in (*(in_store if HAS_STORE else ()), replay, (*replay, "--root", "/"),
                      *((*replay, "--root", self.data, *more) for more in (
                          (), ("--existing",), ("--fill",), ("--clean",), ("--fill", "--clean", "--drop-cache"),
                          ("--existing", "--drop-cache"), ("--timing", "as-recorded"), ("--files-from", listed),
                          ("--files-from", listed, "--existing"), ("--function", "posix"))),
                      ("replay", trace, "--onto", self.base / "new", "--clean"),
                      ("replay", trace, "--onto", self.base / "new", "--root", "/", "--fill", "--clean")):
            with self.subTest(" ".join(map(str, words))):
                before = self.state()
                done = self.millrace(*words)
                after = self.state()
                changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
                self.assertEqual(sorted(changed), [], done.stdout + done.stderr)
                self.assertEqual(list(self.tries.iterdir()), [])
                self.assertGreaterEqual(done.returncode, 0, "ended by a signal")
                if succeeds and "/" not in words:
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_calls_that_failed_change_nothing(self):
        self.check_nothing_changes(self.trace(self.reads() + changes_of(self.data, FAILED)), succeeds=True)

    def test_calls_that_succeeded_change_nothing(self):
        self.check_nothing_changes(self.trace(self.reads() + changes_of(self.data, 0)))

    def test_calls_that_change_are_made_in_a_new_folder(self):
        huge = str(1 << 62)
        trace = self.trace(self.reads() + [line for line in changes_of(self.data, 0) if huge not in line])
        before = self.state()
        new = self.base / "new"
        done = self.millrace("replay", trace, "--onto", new, "--json")
        functions = {entry["function"]: entry for entry in json.loads(done.stdout)["functions"]}
        for name in ("unlink", "rename", "truncate", "write", "ftruncate", "fallocate", "link", "mkdir", "mkstemp"):
            made = functions[name]["calls"] - functions[name]["failed_only_here"]
            self.assertGreater(made, 0, done.stdout)
        self.assertEqual(self.millrace("replay", trace, "--onto", new, "--clean").stderr, "")
        self.assertEqual(self.state(), before)

    def test_links_and_pipes_change_nothing(self):
        self.add_traps()
        self.check_nothing_changes(self.trace(self.reads() + changes_of(self.data, FAILED)))
        self.check_nothing_changes(self.trace(changes_of(self.data, 0)))


if __name__ == "__main__":
    unittest.main()
