#!/usr/bin/env python3
"""The commands of commands.txt on a store and in a plain directory: the same exit code, output and files.

    MILLRACE=build/release/bin/millrace tests/store/commands_test.py --count

runs all of them and prints how many are equal in each way of serving a dataset. As a test, it runs every EVERY-th one;
MILLRACE_EVERY=1 runs all. What is not installed is skipped, and named."""

import os
import re
import subprocess
import sys
import unittest
from collections import Counter
from pathlib import Path

import mount_test
from programs_test import Comparison, difference, files_below

LIST = Path(__file__).with_name("commands.txt")
EVERY = int(os.environ.get("MILLRACE_EVERY", "6"))
MODES = ("default", "fast", "save", "fuse")
LIMIT_S = 60

# Why a command may differ from the plain directory. Each is a row of docs/guide/store.md.
REASONS = {
    "read-only": "a mount is read-only",
    "names of the dataset": "names of the dataset are read-only: EROFS",
    "hard links": "each name of a file in the dataset is a file of its own",
    "static": "static programs do not load the library",
    "shared libraries": "the loader of the C library does not ask the store",
    "device": "the dataset is a device of its own, as a mount is",
    "parent": "the parent directory does not have the dataset",
    "times of directories": "directories of the dataset keep their times",
    "variables": "two variables are set",
    "epoll": "the kernel accepts epoll for all files of FUSE",
    "link to the dataset": "a file of the dataset cannot get another name",
}

# What commands.txt needs besides the dataset of programs_test.py. Run in the dataset by Python.
MORE = r"""
import gzip, json, lzma, shutil, sqlite3, subprocess, zipfile
from pathlib import Path
def write(name, data, mode=0o644):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    path.chmod(mode)
def run(*words, **more):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, **more)
write("text/a.txt", "".join(f"line {i}\n" for i in range(1, 10)))
write("text/b.txt", "".join(f"line {i}\n" for i in range(1, 10) if i != 4) + "a longer line at the end of the file\n")
write("text/c.txt", "line 1\nline two\n")
write("text/long.txt", "".join(f"{i:05} text {i * i % 97}\n" for i in range(400)))
write("text/words.pat", "^00042\n^00399\n")
write("text/pairs.txt", "a b\nb c\n")
write("text/numbers.txt", "1\n1024\n5000\n")
write("text/a.patch", subprocess.run(["diff", "-u", "text/a.txt", "text/b.txt"], stdout=subprocess.PIPE).stdout)
long = Path("text/long.txt").read_bytes()
write("text/log.gz", gzip.compress(long, mtime=1))
write("text/log.xz", lzma.compress(long))
if shutil.which("zstd"):
    write("text/log.zst", subprocess.run(["zstd", "-q", "-c", "text/long.txt"], stdout=subprocess.PIPE).stdout)
write("meta/labels.csv", "".join(f"{i},{'cat dog bird'.split()[i % 3]}\n" for i in range(9)))
write("meta/names.csv", "".join(f"{i},name{i}\n" for i in range(5)))
write("meta/info.json", json.dumps({"n": 7, "names": ["a", "b"]}))
write("meta/vars.sh", "NAME=data\nSIZE=5\n")
write("meta/x.m4", "include(`numbers.txt')N\n")
with sqlite3.connect("meta/base.sqlite") as base:
    base.execute("create table t (n)")
    base.executemany("insert into t values (?)", [(i % 10,) for i in range(1000)])
base.close()
write("meta/key.pub", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS somebody\n")
with zipfile.ZipFile("meta/lib.zip", "w") as file:
    file.writestr(zipfile.ZipInfo("zipped.py"), "NAME = 'zipped'\n")
write("names/-dash", "dash\n")
write("names/new\nline", "line\n")
write("names/\u00fcn\u00ef", "letters\n")
write(b"names/\xff".decode(errors="surrogateescape"), "bytes\n")
write(".config/settings", "hidden\n")
write(".hidden", "hidden\n")
write("private", "mine\n", 0o600)
write("readonly", "kept\n", 0o444)
write("dup/a", "twice\n" * 100)
Path("dup/b").hardlink_to("dup/a")
Path("links").mkdir()
for name, target in {"links/up": "../text/a.txt", "links/dir": "../train/class2", "broken": "nothing", "loop": "loop",
                     "outside": "/etc/passwd"}.items():
    Path(name).symlink_to(target)
with open("sparse.img", "wb") as file:
    file.truncate(1 << 20)
    file.seek(300_000)
    file.write(b"data")
write("bin/hello", "#!/bin/sh\necho hello from ${0##*/} \"$@\"\n", 0o755)
write("bin/count.py", "#!/usr/bin/env python3\nimport sys\nprint(len(open(sys.argv[1]).readlines()), sys.argv[0])\n", 0o755)
write("bin/rows", "#!/usr/bin/awk -f\nEND {print NR}\n", 0o755)
write("bin/tool", Path("/bin/echo").read_bytes(), 0o755)
write("src/util.h", "int twice(int);\n")
write("src/util.c", '#include "util.h"\nint twice(int n) { return 2 * n; }\n')
write("src/main.c", '#include <stdio.h>\n#include "util.h"\nint main(void) { printf("%d\\n", twice(21)); return 0; }\n')
write("src/Makefile", "BUILD = build\n$(BUILD)/main: main.c util.c util.h\n\t@mkdir -p $(BUILD)\n"
      "\tcc -o $@ main.c util.c\nclean:\n\trm -r $(BUILD)\n")
write("src/cm/CMakeLists.txt", "cmake_minimum_required(VERSION 3.13)\nproject(main C)\n"
      "add_executable(main ../main.c ../util.c)\n")
write("src/x.go", "package main\n\nfunc main() {}\n")
write("src/mod.py", "NAME = 'module'\nif __name__ == '__main__':\n    print(NAME)\n")
write("src/pack/__init__.py", "")
write("src/pack/part.py", "NAME = 'part'\n")
write("static.c", "#include <stdio.h>\nint main(int n, char** v) { FILE* f = fopen(v[1], \"r\"); int c;\n"
      "if (!f) { perror(v[1]); return 1; }\nwhile ((c = getc(f)) != EOF) putchar(c);\nreturn 0; }\n")
subprocess.run(["cc", "-static", "-o", "bin/static", "static.c"], stderr=subprocess.DEVNULL)  # without it, it is not run
try:
    import numpy
    numpy.save("meta/a.npy", numpy.arange(1000.0))
except ImportError:
    pass
git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
run(*git, "init", "-q", "repo")
write("repo/file", "a line\n")
run(*git, "add", ".", cwd="repo")
run(*git, "commit", "-qm", "the first", cwd="repo")
for sums, tool in {"MD5SUMS": "md5sum", "SHA256SUMS": "sha256sum"}.items():
    write(sums, subprocess.run(f"{tool} text/* large.bin", shell=True, stdout=subprocess.PIPE).stdout)
"""


def commands() -> dict:
    """For each command the modes in which it differs, and why."""
    found = {}
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith(" "):
            modes, _, reason = line.strip().partition(": ")
            for mode in MODES if modes == "all" else modes.split():
                found[text][mode] = REASONS[reason]
            continue
        text = line[2:] if line[:2] in ("+ ", "! ") else line
        found[text] = {"+ ": {"fuse": REASONS["read-only"]},
                       "! ": dict.fromkeys(MODES, REASONS["names of the dataset"])}.get(line[:2], {})
    return found


class Commands(Comparison):
    """The dataset in the ways of MODES, and in a plain directory."""

    def __init__(self):
        super().__init__(MORE)
        self.dataset = files_below(self.plain)
        self.kept = self.folder / "kept"  # the dataset once more, to restore what a command has changed
        self.origin = self.folder / "origin"
        self.save = self.folder / "save"
        self.mounted = self.folder / "mount" / "data"
        self.home = self.folder / "home"
        for copy in (self.kept, self.origin):
            subprocess.run(["cp", "-a", self.plain, copy], check=True)
        for folder in (self.save, self.mounted, self.home, self.folder / "nothing"):
            folder.mkdir(parents=True)
        # Where programs create files, what is there before, and its root.
        self.places = {"plain": (self.plain, self.kept, self.plain), "fuse": (None, None, self.mounted),
                       "default": (self.origin, self.kept, self.root), "fast": (self.origin, self.kept, self.root),
                       "save": (self.save, self.folder / "nothing", self.root)}
        self.environments["plain"] = dict(os.environ)

    def start(self, mode: str) -> None:
        if mode == "fuse":
            self.store("mount", "--pack", self.folder / "packs", self.mounted, "--background")
            self.environments[mode] = dict(os.environ)
        else:
            words = {"default": [], "fast": ["--fast"], "save": ["--save", self.save]}[mode]
            self.up(mode, "--origin", self.origin, *words)

    def stop(self) -> None:
        subprocess.run(["umount", "-l", self.mounted], stderr=subprocess.DEVNULL)
        for mode in ("plain", "fuse"):
            self.environments.pop(mode, None)  # they have no service
        super().stop()

    def seen(self, mode: str, text: str) -> tuple:
        """Exit code, standard output, standard error, and the files that the command has made or changed."""
        upper, before, root = self.places[mode]
        environment = {**self.environments[mode], "LC_ALL": "C.UTF-8", "HOME": str(self.home), "TMPDIR": str(self.home),
                       "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"], "PAGER": "cat"}
        code, *texts, files = self.output(
            ["timeout", "-k", "5", str(LIMIT_S), "bash", "-c", f"cd ROOT || exit\n{text}"], root, environment, None)
        output, errors = (text.replace(b"/mount/", b"/store/") for text in texts)
        files = {name: value.replace("/mount/", "/store/") for name, value in files.items()}
        return code, output, errors, {**files, **(self.changes(upper, before) if upper else {})}

    def changes(self, upper: Path, before: Path) -> dict:
        """What a command has made or changed there. Then it is as before."""
        now, then = files_below(upper), files_below(before)
        for name in [name for name in now if now[name].startswith("d") and self.dataset.get(name, "").startswith("d")]:
            del now[name]  # `--save` has directories of the dataset in which files are made; their times change too
            then.pop(name, None)
        found = {f"ROOT/{name}": now.get(name, "removed") for name in {*now, *then} if now.get(name) != then.get(name)}
        if found or upper == self.save:
            subprocess.run(["rsync", "-aH", "--delete", f"{before}/", f"{upper}/"], check=True)
        return found


def missing(seen: tuple) -> str:
    """The program or module that this machine does not have; empty if it has all."""
    errors = seen[2].decode(errors="replace")
    for message in (r"(\S+): (?:command )?not found", r"No module named '?(\w+)", r"failed to run command \W*(\w+)"):
        found = re.search(message, errors)
        if found:
            return found[1]
    return errors if seen[0] == 127 else ""


class CommandsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = Commands()
        cls.addClassCleanup(cls.commands.stop)
        cls.plain, without = {}, Counter()
        cls.reasons = commands()
        for text in list(cls.reasons)[::EVERY]:
            seen = cls.commands.seen("plain", text)
            if missing(seen):
                without[missing(seen)] += 1
            else:
                cls.plain[text] = seen
        print(f"{len(cls.plain)} commands; not run: {dict(without)}", flush=True)

    def test_every_command_succeeds_in_a_plain_directory(self):
        for text, plain in self.plain.items():
            self.assertEqual(plain[0], 0, f"{text}\n{plain}")

    def compare(self, mode: str):
        if mode == "fuse" and mount_test.why_not():
            self.skipTest(mount_test.why_not())
        self.commands.start(mode)
        for text, plain in self.plain.items():
            with self.subTest(mode=mode, command=text):
                seen = self.commands.seen(mode, text)
                if mode not in self.reasons[text]:
                    self.assertEqual(seen, plain, difference(seen, plain))
                else:
                    self.assertNotEqual(seen, plain, "it is equal now: remove its reason from commands.txt")

    def test_in_the_store(self):
        self.compare("default")

    def test_in_the_store_in_fast_mode(self):
        self.compare("fast")

    def test_in_the_store_with_a_directory_for_new_files(self):
        self.compare("save")

    def test_in_a_mount(self):
        self.compare("fuse")


def print_counts() -> None:
    """How many commands are equal in each mode, and why the others are not."""
    works, reasons = Commands(), commands()
    try:
        plain = {text: works.seen("plain", text) for text in reasons}
        plain = {text: seen for text, seen in plain.items() if not missing(seen)}
        print(f"{len(plain)} commands\n\n| mode | equal | the others |\n|---|---|---|")
        for mode in MODES:
            works.start(mode)
            others = Counter(reasons[text].get(mode, "not known") for text in plain if works.seen(mode, text) != plain[text])
            print(f"| {mode} | {len(plain) - others.total()} |", ", ".join(f"{n}: {why}" for why, n in others.most_common()), "|")
    finally:
        works.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["--count"]:
        print_counts()
    else:
        unittest.main()
