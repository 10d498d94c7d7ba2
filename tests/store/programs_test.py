#!/usr/bin/env python3
"""Every kind of program that reads a dataset, on a store and on the plain directory: the same output.

    MILLRACE=build/dev/bin/millrace tests/store/programs_test.py --table > docs/store-programs.md

prints a table instead of testing. What is not installed is skipped. MILLRACE_TENSORFLOW names the Python of an
environment that has TensorFlow."""

import difflib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from pathlib import Path

MILLRACE = os.path.abspath(os.environ.get("MILLRACE", "build/dev/bin/millrace"))
KEPT = os.path.join(os.environ.get("MILLRACE_BUILD", "build/dev"), "programs_differences.txt")
MODES = {"default": [], "fast": ["--fast"]}
HEAD = """# Programs on a store

The output of each program on `millrace store`, compared with its output on the plain directory: **same** means byte by byte, except
for the sizes of directories. The right columns are the two modes of [the store](guide/store.md). Made by

    MILLRACE=build/release/bin/millrace tests/store/programs_test.py --table > docs/store-programs.md

which is also a test. `MILLRACE_TENSORFLOW` names a Python that has TensorFlow.

| program | what it does | default | fast |
|---|---|---|---|"""

SAMPLES = """
import os, random, sys, zipfile, tarfile
random.seed(3)
for i in range(24):
    path = f"train/class{i % 4}/{i:04}.bin"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(random.randbytes(random.randrange(1, 200_000)))
open("large.bin", "wb").write(random.randbytes(3_000_000))
os.makedirs("val")
os.makedirs("empty")
open("val/words.txt", "w").write("pear\\napple\\nplum needle\\n" * 500)
open("val/with space", "w").write("needle\\n")
open("zero", "w")
os.symlink("val/words.txt", "to_file")
os.symlink("train/class1", "to_folder")
with zipfile.ZipFile("set.zip", "w") as file:
    file.write("val/words.txt")
with tarfile.open("set.tar", "w") as file:
    file.add("val")
"""
MORE_SAMPLES = {
    "numpy": "import numpy; numpy.save('array.npy', numpy.arange(5000.0).reshape(50, 100))",
    "PIL": "from PIL import Image; Image.effect_noise((120, 80), 50).convert('RGB').save('image.png')",
    "h5py": "import h5py\nwith h5py.File('set.h5', 'w') as f: f.create_dataset('x', data=list(range(5000)), chunks=(500,))",
    "torch": "import torch; torch.save({'x': torch.arange(1000)}, 'set.pt')",
}

C_PROGRAM = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
static unsigned long sum(const unsigned char* bytes, size_t size) {
  unsigned long total = 7;
  for (size_t i = 0; i < size; ++i) total = total * 31 + bytes[i];
  return total;
}
static int compare(const FTSENT** a, const FTSENT** b) { return strcmp((*a)->fts_name, (*b)->fts_name); }
static long visited, visited_bytes;
static int visit(const char* path, const struct stat* status, int kind, struct FTW* at) {
  ++visited;
  if (kind == FTW_F) visited_bytes += status->st_size;
  return path[0] == 0 || at->level > 99;
}
static const char* in(const char* root, const char* name) {
  static char text[PATH_MAX];
  snprintf(text, sizeof(text), "%s/%s", root, name);
  return text;
}
int main(int argc, char** argv) {
  const char *what = argv[1], *root = argv[2];
  static unsigned char bytes[4000000];
  if (strcmp(what, "stdio") == 0) {
    FILE* file = fopen(in(root, "val/words.txt"), "r");
    char line[100], word[100];
    int lines = 0;
    while (fgets(line, sizeof(line), file)) lines += line[0] == 'p';
    rewind(file);
    fseek(file, 5, SEEK_SET);
    int c = fgetc(file);
    ungetc(c, file);
    int scanned = fscanf(file, "%99s", word);
    printf("%d %c %d %s %ld\n", lines, c, scanned, word, ftell(file));
    fclose(file);
    file = fopen(in(root, "large.bin"), "rb");
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    printf("%zu %lx %d\n", size, sum(bytes, size), feof(file));
    fclose(file);
  } else if (strcmp(what, "read") == 0) {
    int fd = open(in(root, "large.bin"), O_RDONLY);
    size_t size = 0;
    for (ssize_t got; (got = read(fd, bytes + size, 65536)) > 0;) size += (size_t)got;
    printf("%zu %lx %ld", size, sum(bytes, size), (long)lseek(fd, -100, SEEK_END));
    printf(" %zd %lx", pread(fd, bytes, 5000, 12345), sum(bytes, 5000));
    const unsigned char* mapped = mmap(NULL, 3000000, PROT_READ, MAP_PRIVATE, fd, 0);
    printf(" %lx\n", sum(mapped, 3000000));
    int copy = dup(fd);
    close(fd);
    printf("%zd %lx\n", read(copy, bytes, 200), sum(bytes, 100));
  } else if (strcmp(what, "nftw") == 0) {
    int code = nftw(root, visit, 20, FTW_PHYS);
    printf("%d %ld %ld\n", code, visited, visited_bytes);
  } else if (strcmp(what, "fts") == 0) {
    char* paths[] = {argv[2], NULL};
    FTS* walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, compare);
    for (FTSENT* at; (at = fts_read(walk));) printf("%s %d\n", at->fts_path, at->fts_info);
    fts_close(walk);
  } else if (strcmp(what, "glob") == 0) {
    glob_t found;
    int code = glob(in(root, "train/*/00[01]*"), 0, NULL, &found);
    for (size_t i = 0; code == 0 && i < found.gl_pathc; ++i) puts(found.gl_pathv[i]);
  } else if (strcmp(what, "scandir") == 0) {
    struct dirent** list;
    int count = scandir(root, &list, NULL, alphasort);
    for (int i = 0; i < count; ++i) printf("%s %d\n", list[i]->d_name, list[i]->d_type);
  } else if (strcmp(what, "realpath") == 0) {
    puts(realpath(in(root, "to_folder/../class1/0001.bin"), NULL));
    puts(realpath(in(root, "to_file"), NULL));
  }
  return argc == 3 ? 0 : 1;
}
"""
CXX_PROGRAM = r"""
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
int main(int, char** argv) {
  const std::string root = argv[2];
  if (std::string(argv[1]) == "streams") {
    std::ifstream lines(root + "/val/words.txt");
    size_t count = 0, bytes = 0;
    for (std::string line; std::getline(lines, line); ++count) bytes += line.size();
    std::ifstream file(root + "/large.bin", std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    file.clear();
    file.seekg(1000);
    std::cout << count << ' ' << bytes << ' ' << std::hash<std::string>()(all) << ' ' << file.get() << '\n';
  } else {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      names.insert(entry.path().string() + (entry.is_regular_file() ? std::to_string(entry.file_size()) : ""));
    }
    for (const auto& name : names) std::cout << name << '\n';
  }
}
"""
LOADER = """
import sys, os, torch
from torch.utils.data import DataLoader, Dataset
class Files(Dataset):
    def __init__(self, root):
        self.paths = sorted(os.path.join(f, n) for f, _, names in os.walk(root + "/train") for n in names)
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, i):
        return sum(open(self.paths[i], "rb").read())
if __name__ == "__main__":
    print([b.tolist() for b in DataLoader(Files(sys.argv[2]), 8, num_workers=2, multiprocessing_context=sys.argv[1])])
"""
TENSORFLOW = """
import os
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # its messages have times
import hashlib, tensorflow as tf
data = tf.io.read_file(root + "/large.bin").numpy()
print(hashlib.md5(data).hexdigest(), sorted(tf.io.gfile.glob(root + "/train/*/0*")), sorted(tf.io.gfile.listdir(root + "/val")))
files = tf.data.Dataset.list_files(root + "/train/*/*.bin", shuffle=False)
print([len(x) for x in files.map(tf.io.read_file, num_parallel_calls=2).as_numpy_iterator()])
print(sum(1 for _ in tf.data.TextLineDataset(root + "/val/words.txt")))
print(tf.io.decode_png(tf.io.read_file(root + "/image.png")).shape if os.path.exists(root + "/image.png") else 0)
print([len(x) for x in tf.data.FixedLengthRecordDataset(root + "/large.bin", 1_000_000).as_numpy_iterator()])
"""


def without_directory_sizes(text: bytes) -> bytes:
    text = re.sub(rb"(?m)^total .*$", b"total", text)
    return re.sub(rb"(?m)^(d\S+ +\d+ \S+ +\S+) +\d+", rb"\1 SIZE", text)


def sorted_lines(text: bytes) -> bytes:
    return b"\n".join(sorted(text.split(b"\n")))


def python(code: str) -> list:
    return [sys.executable, "-c", "import sys; root, out = sys.argv[1:]\n" + code, "ROOT", "OUT"]


def shell(text: str) -> list:
    return ["bash", "-c", text]


# Name, what it does, the command, a sample that it needs, and how to make its output comparable.
# In commands, ROOT is the dataset, OUT a new directory, and HERE the one with the compiled programs.
PROGRAMS = [
    ("Python", "open().read()", python("""
import hashlib, os
for f, d, names in sorted(os.walk(root)):
    d.sort()
    for n in sorted(names):
        with open(os.path.join(f, n), "rb") as file: print(n, hashlib.md5(file.read()).hexdigest(), file.tell())
"""), None, None),
    ("Python", "os: stat, scandir, pread, dup, sendfile", python("""
import os
print(sorted((e.name, e.is_dir(), e.is_symlink(), e.stat().st_size if e.is_file() else 0) for e in os.scandir(root)))
fd = os.open(root + "/large.bin", os.O_RDONLY)
s = os.stat(root + "/large.bin")
print(os.path.samestat(os.fstat(fd), s), s.st_size, s.st_mtime_ns, os.pread(fd, 20, 1_000_000), os.read(os.dup(fd), 9))
with open(out + "/x", "wb") as o: print(os.sendfile(o.fileno(), fd, 100, 500))
print(open(out + "/x", "rb").read())
"""), None, None),
    ("Python", "pathlib", python("""
import pathlib
p = pathlib.Path(root)
print(sorted(x.relative_to(p) for x in p.rglob("*.bin")), (p / "to_file").resolve().name, (p / "zero").stat().st_size)
print((p / "val/words.txt").read_text()[:20], (p / "nothing").exists(), sorted(x.name for x in p.iterdir()))
"""), None, None),
    ("Python", "glob", python("import glob; print(sorted(glob.glob(root + '/**/*', recursive=True)))"), None, None),
    ("Python", "shutil: copytree, copyfile", python("""
import shutil, filecmp
shutil.copytree(root, out + "/copy", symlinks=True)
shutil.copyfile(root + "/large.bin", out + "/one")
print(filecmp.cmp(root + "/large.bin", out + "/one", shallow=False), filecmp.dircmp(root, out + "/copy").diff_files)
"""), None, None),
    ("Python", "mmap", python("""
import mmap, hashlib
with open(root + "/large.bin", "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m: print(hashlib.md5(m).hexdigest())
"""), None, None),
    ("Python", "zipfile", python("import zipfile; print(zipfile.ZipFile(root + '/set.zip').read('val/words.txt')[-30:])"), None, None),
    ("Python", "tarfile", python("""
import tarfile
with tarfile.open(root + "/set.tar") as t: print(t.getnames(), t.extractfile("val/words.txt").read()[-30:])
"""), None, None),
    ("numpy", "load, load with mmap_mode, fromfile, memmap", python("""
import numpy
print(numpy.load(root + "/array.npy").sum(), numpy.load(root + "/array.npy", mmap_mode="r")[7, 9])
print(numpy.fromfile(root + "/large.bin", dtype="u1").sum(), numpy.memmap(root + "/large.bin", mode="r").sum())
"""), "array.npy", None),
    ("Pillow", "Image.open", python("""
from PIL import Image
with Image.open(root + "/image.png") as i: print(i.size, i.getpixel((3, 4)), hash(i.tobytes()) is not None, sum(i.tobytes()))
"""), "image.png", None),
    ("OpenCV", "cv2.imread", python("import cv2; print(cv2.imread(root + '/image.png').sum())"), "cv2", None),
    ("h5py", "a dataset in chunks", python("import h5py; print(h5py.File(root + '/set.h5', 'r')['x'][500:2500:7].tolist())"),
     "set.h5", None),
    ("PyTorch", "torch.load, from_file", python("""
import torch
print(torch.load(root + "/set.pt")["x"].sum(), torch.from_file(root + "/large.bin", size=99, dtype=torch.uint8).sum())
"""), "set.pt", None),
    ("PyTorch", "DataLoader, 2 workers by fork", [sys.executable, "HERE/loader.py", "fork", "ROOT"], "set.pt", None),
    ("PyTorch", "DataLoader, 2 workers by spawn", [sys.executable, "HERE/loader.py", "spawn", "ROOT"], "set.pt", None),
    ("TensorFlow", "read_file, list_files, TextLineDataset, FixedLengthRecordDataset",
     [os.environ.get("MILLRACE_TENSORFLOW", ""), *python(TENSORFLOW)[1:]], "tensorflow", None),
    ("C", "read, pread, lseek, mmap, dup", ["HERE/c", "read", "ROOT"], "c", None),
    ("C", "stdio", ["HERE/c", "stdio", "ROOT"], "c", None),
    *(("C", name, ["HERE/c", name, "ROOT"], "c", sorted_lines) for name in ("nftw", "fts", "glob", "scandir", "realpath")),
    ("C++", "streams", ["HERE/cxx", "streams", "ROOT"], "cxx", None),
    ("C++", "filesystem", ["HERE/cxx", "walk", "ROOT"], "cxx", None),
    ("ls", "-lR", ["ls", "-lR", "--time-style=full-iso", "ROOT"], None, without_directory_sizes),
    ("find", "-printf, -exec", shell("find ROOT -printf '%P %y %m %T@ %l\\n'; find ROOT -name '*1.bin' -exec md5sum {} +"),
     None, sorted_lines),
    ("cat", "to a pipe, to a file", shell("cat ROOT/val/words.txt ROOT/large.bin | md5sum; cat ROOT/large.bin > OUT/x; md5sum < OUT/x"),
     None, None),
    ("cp", "-r, -a", shell("cp -r ROOT OUT/a && cp -a ROOT OUT/b && cd OUT && find . -printf '%p %y %l\\n' -type f "
                          "-exec md5sum {} ';'"), None, sorted_lines),
    ("tar", "create", ["tar", "--sort=name", "-C", "ROOT", "-cf", "-", "."], None, None),
    ("grep", "-r", ["grep", "-rc", "needle", "ROOT"], None, sorted_lines),
    ("du", "-ab", shell("du -ab ROOT | grep -v -e class -e /val$ -e /train$ -e /empty$ -e /data$"), None, sorted_lines),
    ("sort", "", ["sort", "-u", "ROOT/val/words.txt"], None, None),
    ("md5sum", "", shell("cd ROOT && md5sum large.bin zero train/*/*"), None, None),
    ("rsync", "-a", shell("rsync -a ROOT/ OUT/copy/ && cd OUT/copy && find . -type f -exec md5sum {} +"), "rsync", sorted_lines),
    ("shell", "redirection, read, globs, cd", shell(
        "md5sum < ROOT/large.bin; while read line; do echo $line; done < ROOT/val/words.txt | head -3; exec 7< ROOT/val/words.txt; "
        "cat <&7 | md5sum; echo ROOT/train/*/000*; cd ROOT/train && pwd && ls && md5sum ../large.bin"), None, None),
    ("head, tail, wc, cmp, dd", "", shell("head -c 999 ROOT/large.bin | md5sum; tail -n 2 ROOT/val/words.txt; wc ROOT/val/words.txt; "
                                          "cmp ROOT/large.bin ROOT/large.bin; dd if=ROOT/large.bin bs=7777 skip=3 status=none | md5sum"),
     None, None),
    ("gzip, perl, awk", "", shell("gzip -c ROOT/large.bin | zcat | md5sum; perl -ne 'print if $. == 3' ROOT/val/words.txt; "
                                  "awk 'END {print NR}' ROOT/val/words.txt"), None, None),
]


def files_below(top: Path) -> dict:
    """Names, types, modes, links and bytes. Times only if they are not of now, so that somebody has set them."""
    found = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        value = stat.filemode(status.st_mode)
        if path.is_symlink():
            value += f" to {os.readlink(path)}"
        elif path.is_file():
            value += f" of {status.st_size} bytes with CRC {zlib.crc32(path.read_bytes()):08x}"
        if status.st_nlink > 1 and not path.is_dir():
            value += f", {status.st_nlink} links"
        if status.st_mtime < time.time() - 3600:
            value += f", from {status.st_mtime_ns}"
        found[str(path.relative_to(top))] = value
    return found


class Comparison:
    """A dataset, its pack, and a service for each mode. `more` is Python that adds files to the dataset."""

    def __init__(self, more: str = ""):
        self.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))
        self.plain, self.root = self.folder / "plain" / "data", self.folder / "store" / "data"
        self.plain.mkdir(parents=True)
        self.root.parent.mkdir()
        self.environments = {}
        subprocess.run([sys.executable, "-c", SAMPLES], cwd=self.plain, check=True)
        for code in MORE_SAMPLES.values():  # what is not installed is not compared
            subprocess.run([sys.executable, "-c", code], cwd=self.plain, check=False, stderr=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-c", more], cwd=self.plain, check=True)
        for i, path in enumerate(sorted(self.plain.rglob("*"), reverse=True)):
            if not path.is_symlink():
                os.utime(path, ns=(1_700_000_000_000_000_000 + i,) * 2)
        (self.folder / "loader.py").write_text(LOADER)
        self.compile("c", "c.c", C_PROGRAM, "CC", "cc")
        self.compile("cxx", "cxx.cc", CXX_PROGRAM, "CXX", "c++", "-std=c++17")
        self.store("pack", self.plain, "-o", self.folder / "packs", "--partitions", "2")

    def compile(self, name: str, source: str, text: str, variable: str, otherwise: str, *flags) -> None:
        compiler = shutil.which(os.environ.get(variable, otherwise))
        if compiler is None:
            return
        (self.folder / source).write_text(text)
        subprocess.run([compiler, *flags, "-O1", "-w", "-o", self.folder / name, self.folder / source], check=True)

    def store(self, *words) -> str:
        done = subprocess.run([MILLRACE, "store", *map(str, words)], check=True, capture_output=True, text=True)
        return done.stdout

    def start(self, mode: str) -> bool:
        """False if this build does not have the mode."""
        if any(flag not in self.store("--help") for flag in MODES[mode]):
            return False
        self.up(mode, *MODES[mode])
        return True

    def up(self, mode: str, *words) -> None:
        exports = self.store("up", "--pack", self.folder / "packs", "--at", self.root, *words)
        self.environments[mode] = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
                                   **{name: shlex.split(value)[0] for name, _, value in
                                      (line.removeprefix("export ").partition("=") for line in exports.splitlines())}}

    def stop(self) -> None:
        for environment in self.environments.values():
            self.store("down", "--node", environment["MILLRACE_STORE"])
        shutil.rmtree(self.folder, ignore_errors=True)

    def service(self, mode: str) -> str:
        """What the service says about itself."""
        node = self.environments[mode]["MILLRACE_STORE"]
        log = Path(node, "log")
        return self.store("status", "--node", node) + (log.read_text() if log.exists() else "its log is missing\n")

    def has(self, need) -> bool:
        if need is None or (self.plain / need).exists() or (self.folder / need).exists():
            return True
        if need == "cv2":
            return (self.plain / "image.png").exists() and subprocess.run(
                [sys.executable, "-c", "import cv2"], capture_output=True).returncode == 0
        if need == "tensorflow":
            return "MILLRACE_TENSORFLOW" in os.environ
        return shutil.which(need) is not None

    def output(self, command: list, root: Path, environment: dict, edit) -> tuple:
        out = Path(tempfile.mkdtemp(dir=self.folder))
        words = [word.replace("ROOT", str(root)).replace("OUT", str(out)).replace("HERE", str(self.folder))
                 for word in command]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, env=environment)
        files = {name: value.replace("/plain/", "/store/") for name, value in files_below(out).items()}
        shutil.rmtree(out)
        text = done.stdout.replace(bytes(out), b"OUT").replace(b"/plain/", b"/store/")
        errors = done.stderr.replace(bytes(out), b"OUT").replace(b"/plain/", b"/store/")
        return done.returncode, (edit or (lambda x: x))(text), errors, files

    def compare(self, mode: str, command: list, edit) -> tuple:
        """What the program does on the store and on the plain directory."""
        environment = self.environments[mode]
        plain = {**environment}
        del plain["LD_PRELOAD"], plain["MILLRACE_STORE"]
        return self.output(command, self.root, environment, edit), self.output(command, self.plain, plain, edit)


def difference(seen: tuple, plain: tuple) -> str:
    """What is not the same, in full."""
    lines = [f"exit code {seen[0]} on the store, {plain[0]} on the plain directory"]
    for name, ours, theirs in (("standard output", seen[1], plain[1]), ("standard error", seen[2], plain[2])):
        texts = [text.decode(errors="backslashreplace").splitlines() for text in (theirs, ours)]
        lines += difflib.unified_diff(*texts, f"{name}, plain directory", f"{name}, store", lineterm="")
    texts = [[f"{name!r}: {value}" for name, value in sorted(files.items())] for files in (plain[3], seen[3])]
    lines += difflib.unified_diff(*texts, "files, plain directory", "files, store", lineterm="", n=0)
    return "\n".join(lines)


class ProgramsTest(unittest.TestCase):
    def test_every_program_sees_the_same(self):
        comparison = Comparison()
        self.addCleanup(comparison.stop)
        for mode in MODES:
            if not comparison.start(mode):
                continue
            for name, what, command, need, edit in PROGRAMS:
                if not comparison.has(need):
                    continue
                print(f"{mode}: {name}, {what}", flush=True)  # the last line names what hangs
                with self.subTest(mode=mode, program=name, what=what):
                    seen, plain = comparison.compare(mode, command, edit)
                    if seen != plain:
                        report = f"{difference(seen, plain)}\n{comparison.service(mode)}"
                        with open(KEPT, "a") as file:
                            file.write(f"{mode}: {name}, {what}\n{report}\n")
                        self.fail(f"{report}This is kept in {KEPT}")
                    self.assertEqual(plain[0], 0, plain)


def print_table() -> None:
    comparison = Comparison()
    try:
        modes = [mode for mode in MODES if comparison.start(mode)]
        print(HEAD)
        for name, what, command, need, edit in PROGRAMS:
            cells = []
            for mode in MODES:
                if not comparison.has(need):
                    cells.append("not tried")
                elif mode not in modes:
                    cells.append("no such mode yet")
                else:
                    seen, plain = comparison.compare(mode, command, edit)
                    cells.append("same" if seen == plain and plain[0] == 0 else "**differs**")
                    if seen != plain:
                        print(name, what, mode, difference(seen, plain), comparison.service(mode), sep="\n", file=sys.stderr)
            print(f"| {name} | {what} | {' | '.join(cells)} |", flush=True)
    finally:
        comparison.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        print_table()
    else:
        unittest.main()
