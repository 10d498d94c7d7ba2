#!/usr/bin/env python3
"""Programs that read a dataset through libmillrace_store.so see what they see in the plain directory.

Every program runs twice: on a directory, and on a root that does not exist, with the library and a node. Their names
have the same length, and the output must be the same except for that name."""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from node_stand_in import Node

MILLRACE = os.environ["MILLRACE"]
LIBRARY = os.path.join(os.environ["MILLRACE_BUILD"], "lib", "libmillrace_store.so")
PLAIN, STORE = b"/plain/", b"/store/"


MAKERS = (
    "import numpy; numpy.save('array.npy', numpy.arange(5000.0).reshape(50, 100))",
    "import torch; torch.save({'x': torch.arange(1000)}, 'set.pt')",
    "import h5py, zipfile; from PIL import Image\n"
    "with h5py.File('set.h5', 'w') as file: file['x'] = range(1000)\n"
    "with zipfile.ZipFile('set.zip', 'w') as file: file.writestr('a', 'b' * 99)\n"
    "Image.new('RGB', (50, 40), (1, 200, 3)).save('image.png')",
)


def make_dataset(root: Path) -> None:
    generator = random.Random(3)
    for i in range(40):
        path = root / "train" / f"class{i % 4}" / f"{i:04}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(generator.randbytes(generator.randrange(1, 30_000)))
    (root / "large.bin").write_bytes(generator.randbytes(3_000_000))
    (root / "val").mkdir()
    (root / "val" / "words.txt").write_text("pear\napple\nplum needle\n" * 50)
    (root / "val" / "with space").write_text("needle\n")
    (root / "val" / ".hidden").write_text("hidden\n")
    with open(os.fsencode(root) + b"/val/\xff\xfe", "w") as file:
        file.write("bytes\n")
    (root / "empty").mkdir()
    (root / "zero").touch()
    (root / "script.sh").write_text("#!/bin/sh\necho it runs\n")
    (root / "script.sh").chmod(0o755)
    (root / "to_file").symlink_to("val/words.txt")
    (root / "to_folder").symlink_to("train/class1")
    (root / "val" / "up").symlink_to("../train/class2/0002.bin")
    (root / "broken").symlink_to("nothing")
    (root / "outside").symlink_to("/etc/hostname")
    for code in MAKERS:  # what is not installed is not tested
        subprocess.run([sys.executable, "-c", code], cwd=root, check=False, stderr=subprocess.DEVNULL)
    for i, path in enumerate(sorted(root.rglob("*"), reverse=True)):
        if not path.is_symlink():
            os.utime(path, ns=(1_700_000_000_000_000_000 + i,) * 2)
    os.utime(root, ns=(1_700_000_000_000_000_007,) * 2)


FOLDER = Path(tempfile.mkdtemp(prefix="millrace-client-"))
MEMORY = Path(tempfile.mkdtemp(prefix="millrace-client-", dir="/dev/shm"))


def setUpModule():
    unittest.addModuleCleanup(shutil.rmtree, FOLDER, True)
    unittest.addModuleCleanup(shutil.rmtree, MEMORY, True)
    plain = FOLDER / "plain" / "data"
    plain.mkdir(parents=True)
    (FOLDER / "store").mkdir()
    make_dataset(plain)
    subprocess.run([MILLRACE, "store", "pack", plain, "-o", FOLDER / "pack", "--partitions", "2"],
                   check=True, capture_output=True)


class ClientTest(unittest.TestCase):
    fast = False  # `store run --fast`; every class below runs in both modes
    folder = FOLDER
    plain = FOLDER / "plain" / "data"
    root = FOLDER / "store" / "data"  # does not exist

    def setUp(self):
        self.node = self.make_node()

    def make_node(self, **settings) -> Node:
        node = Node(MILLRACE, FOLDER / "pack", MEMORY / f"node{time.monotonic_ns()}", self.root,
                    fast=self.fast, **settings)
        self.addCleanup(node.stop)
        return node

    def environment(self, **more) -> dict:
        return {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "LD_PRELOAD": LIBRARY,
                "MILLRACE_STORE": str(self.node.folder), **more}

    def run_in_store(self, command, **more) -> subprocess.CompletedProcess:
        settings = more.pop("env", {})
        return subprocess.run(command, capture_output=True, env=self.environment(**settings), timeout=100, **more)

    def check_same(self, command: list, edit=lambda text: text, cwd=None, code=0) -> bytes:
        """ROOT in the words is the root, OUT a new directory."""
        results = []
        for root in (self.plain, self.root):
            out = Path(tempfile.mkdtemp(dir=self.folder))
            self.addCleanup(shutil.rmtree, out, True)
            words = [word.replace("ROOT", str(root)).replace("OUT", str(out)) for word in command]
            environment = self.environment() if root is self.root else {**self.environment(), "LD_PRELOAD": ""}
            done = subprocess.run(words, capture_output=True, env=environment, timeout=100,
                                  cwd=cwd and str(cwd).replace("ROOT", str(self.plain)))
            text = done.stdout.replace(bytes(out), b"OUT") + done.stderr.replace(bytes(out), b"OUT")
            results.append((done.returncode, edit(text.replace(PLAIN, STORE))))
        self.assertEqual(results[1], results[0])
        self.assertEqual(results[0][0], code, results[0][1])
        return results[0][1]

    def python(self, code: str, **more) -> bytes:
        return self.check_same([sys.executable, "-c", "root = 'ROOT'; out = 'OUT'\n" + code], **more)


def sorted_lines(text: bytes) -> bytes:
    return b"\n".join(sorted(text.split(b"\n")))


def without_directory_sizes(text: bytes) -> bytes:
    """What depends on the file system: the size of directories, and so the total."""
    text = re.sub(rb"(?m)^total .*$", b"total", text)
    return re.sub(rb"(?m)^(d\S+ +\d+ \S+ +\S+) +\d+", rb"\1 SIZE", text)


class CommandTest(ClientTest):
    def test_ls(self):
        self.check_same(["ls", "-lR", "--time-style=full-iso", "ROOT"], edit=without_directory_sizes)
        self.check_same(["ls", "-a", "ROOT/val"])
        self.check_same(["ls", "ROOT/missing"], code=2)

    def test_stat(self):
        self.check_same(["stat", "-c", "%n %s %a %F %Y %h %b %u %g", "ROOT/large.bin", "ROOT/to_file", "ROOT/train"])

    def test_find(self):
        self.check_same(["find", "ROOT", "-printf", "%P %y %m %T@ %l\n"], edit=sorted_lines)
        self.check_same(["find", "-L", "ROOT", "-type", "f", "-name", "*.bin"], edit=sorted_lines)
        self.check_same(["find", "ROOT", "-type", "f", "-exec", "md5sum", "{}", "+"], edit=sorted_lines)

    def test_cat_and_head(self):
        self.check_same(["cat", "ROOT/val/words.txt", "ROOT/to_file", "ROOT/to_folder/0001.bin", "ROOT/val/up"])
        self.check_same(["head", "-c", "100", "ROOT/large.bin"])
        self.check_same(["tail", "-n", "2", "ROOT/val/words.txt"])
        self.check_same(["cat", "ROOT/missing"], code=1)
        self.check_same(["cat", "ROOT/val"], code=1)
        self.check_same(["cat", "ROOT/broken"], code=1)
        self.check_same(["cat", "ROOT/outside"])
        self.check_same(["cat", "ROOT/val/../val/./words.txt"])

    def test_cp(self):
        self.check_same(["sh", "-c", "cp -r ROOT OUT/a && cp -a ROOT OUT/b && cd OUT && find . -printf '%p %y %l\n' "
                         "-type f -exec md5sum {} ';'"], edit=sorted_lines)
        self.check_same(["sh", "-c", "cp ROOT/large.bin OUT/x && cmp ROOT/large.bin OUT/x && cp ROOT/zero OUT/x"])

    def test_tar(self):
        self.check_same(["tar", "--sort=name", "-C", "ROOT", "-cf", "-", "."])
        self.check_same(["sh", "-c", "tar -cf - -C ROOT . | tar -tvf -"], edit=sorted_lines)

    def test_grep(self):
        self.check_same(["grep", "-r", "needle", "ROOT"], edit=sorted_lines)
        self.check_same(["grep", "-c", "plum", "ROOT/val/words.txt"])

    def test_du(self):
        self.check_same(["du", "-ab", "ROOT"], edit=sorted_lines)

    def test_checksums_and_sort(self):
        self.check_same(["md5sum", "ROOT/large.bin", "ROOT/zero", "ROOT/val/with space"])
        self.check_same(["sort", "ROOT/val/words.txt"])
        self.check_same(["wc", "ROOT/val/words.txt", "ROOT/large.bin"])
        self.check_same(["cmp", "ROOT/large.bin", "ROOT/val/words.txt"], code=1)
        self.check_same(["diff", "-r", "ROOT/train/class1", "ROOT/to_folder"])

    def test_text_tools(self):
        self.check_same(["perl", "-e", "open(F, '<', 'ROOT/val/words.txt'); print <F>; print join(' ', glob('ROOT/*'))"])
        self.check_same(["awk", "END {print NR}", "ROOT/val/words.txt"])
        self.check_same(["sed", "-n", "3p", "ROOT/to_file"])
        self.check_same(["sh", "-c", "gzip -c ROOT/large.bin | zcat | md5sum; xargs -a ROOT/val/words.txt -n 99 echo"])
        self.check_same(["sh", "-c", "dd if=ROOT/large.bin bs=4k iflag=direct status=none | md5sum"])

    def test_changes_are_refused_and_leave_no_trace(self):
        for command in ("rm -rf ROOT/train", "mv ROOT/zero OUT", "touch ROOT/zero", "echo x > ROOT/zero",
                        "cp /etc/hosts ROOT/zero"):
            done = self.run_in_store(["sh", "-c", command.replace("ROOT", str(self.root)).replace("OUT", str(MEMORY))])
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(b"Read-only file system", done.stderr)
        self.check_same(["find", "ROOT", "-printf", "%P %y %m %T@ %l\n"], edit=sorted_lines)

    def test_shell(self):
        self.check_same(["sh", "-c", "md5sum < ROOT/large.bin; while read line; do echo $line; done < ROOT/val/words.txt"])
        self.check_same(["bash", "-c", "exec 7< ROOT/val/words.txt; cat <&7; echo ROOT/train/*/0*.bin ROOT/v*/*"])
        self.check_same(["bash", "-c", "cd ROOT/train && pwd && ls && cd class1 && pwd && cat 0001.bin | md5sum && "
                         "md5sum ../class2/*.bin && /bin/pwd && cd .. && cd ../.. && ls data"])
        self.check_same(["sh", "-c", "test -f ROOT/zero && test -d ROOT/val && test -r ROOT/large.bin && test -L ROOT/broken "
                         "&& ! test -e ROOT/broken && ! test -x ROOT/zero && test -x ROOT/script.sh && readlink ROOT/to_file "
                         "&& readlink -f ROOT/val/up && realpath ROOT/to_folder/0001.bin"])

    def test_programs_in_the_dataset_run(self):
        self.check_same(["sh", "-c", "ROOT/script.sh && env -i ROOT/script.sh"])

    def test_a_cleared_environment_keeps_the_store(self):
        self.check_same(["env", "-i", "/bin/cat", "ROOT/val/words.txt"])


class PythonTest(ClientTest):
    def test_open_and_stat(self):
        self.python("""
import os, hashlib
for name in ("large.bin", "zero", "to_file", "val/up", "val/with space"):
    path = os.path.join(root, name)
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        print(name, hashlib.md5(file.read()).hexdigest(), file.tell(), status.st_size, status.st_mtime_ns)
        assert (status.st_ino, status.st_dev) == (os.stat(path).st_ino, os.stat(path).st_dev)
        copy = os.dup(file.fileno())
        assert os.path.sameopenfile(copy, file.fileno()) and os.path.samestat(os.fstat(copy), os.stat(path))
print(open(root + "/val/words.txt").readlines()[:3])
for name in ("missing", "val", "zero/x", "broken"):
    try:
        open(os.path.join(root, name))
    except OSError as error:
        print(error)
""")

    def test_walks(self):
        self.python("""
import os, pathlib, glob, fnmatch
for folder, folders, files in sorted(os.walk(root)):
    print(folder, sorted(folders), sorted(map(os.fsencode, files)))
found = []
for folder, folders, files, fd in os.fwalk(root, follow_symlinks=True):
    found.append(sorted((os.fsencode(f), os.stat(f, dir_fd=fd, follow_symlinks=False).st_size) for f in files))
print(sorted(found))
print(sorted(os.fsencode(str(p)) for p in pathlib.Path(root).rglob("*")))
print(sorted(glob.glob(root + "/**/*.bin", recursive=True)), sorted(glob.glob(root + "/tr*/class[12]/*")))
print(sorted((os.fsencode(e.name), e.is_file(), e.is_dir(), e.is_symlink()) for e in os.scandir(root + "/val")))
inodes = {e.name: e.inode() for e in os.scandir(root)}
assert all(os.lstat(os.path.join(root, name)).st_ino == inode for name, inode in inodes.items())
print(sorted(os.listdir(root)), pathlib.Path(root, "to_folder").resolve(), os.path.realpath(root + "/val/up"))
print(os.access(root, os.R_OK | os.X_OK), os.path.exists(root + "/broken"), os.path.lexists(root + "/broken"))
""")

    def test_working_directory(self):
        self.python("""
import os, subprocess
os.chdir(root + "/train")
print(os.getcwd(), sorted(os.listdir()), len(open("class1/0001.bin", "rb").read()), os.path.abspath("class1"))
os.chdir("class1")
print(os.getcwd(), os.stat("../class2/0002.bin").st_size, os.path.exists("../../zero"))
print(subprocess.run(["ls", "-a"], capture_output=True, text=True).stdout)
print(subprocess.run(["cat", "words.txt"], cwd=root + "/val", capture_output=True).stdout, os.getcwd())
fd = os.open(root + "/val", os.O_RDONLY)
os.fchdir(fd)
print(os.getcwd(), open("words.txt").read(5), os.readlink("up"), sorted(map(os.fsencode, os.listdir(fd))))
os.chdir("../..")
print(sorted(os.listdir("data")), os.path.isfile("data/zero"), os.path.isdir("./data/val"))
""", cwd="ROOT")

    def test_links_from_outside(self):
        self.python("""
import os, glob, pathlib, subprocess
os.chdir(out)
os.symlink(root, "data")
os.mkdir("deep")
os.symlink("../data/val", "deep/val")
print(open("data/val/words.txt").read(9), open("deep/val/words.txt").read(4), sorted(os.listdir("data")))
print(os.stat("data/zero").st_size, os.path.islink("data"), os.path.isdir("data"), os.path.realpath("deep/val"))
print(sorted(glob.glob("data/train/*/*")), os.path.exists("data/no"), os.path.exists("no/no"))
print(subprocess.run(["cat", "data/to_file"], capture_output=True).stdout[:20])
os.chdir("data/val")
print(os.getcwd(), open("words.txt").read(6))
""")

    def test_spawn(self):
        self.python("""
import os
pid = os.posix_spawn("/usr/bin/md5sum", ["md5sum"], os.environ, file_actions=[
    (os.POSIX_SPAWN_OPEN, 0, root + "/large.bin", os.O_RDONLY, 0)])
print(os.waitpid(pid, 0)[1])
""")

    def test_copytree_and_archives(self):
        self.python("""
import os, shutil, tarfile, hashlib
shutil.copytree(root, out + "/copy", symlinks=True)
shutil.copytree(root + "/train", out + "/train", symlinks=False)
shutil.copyfile(root + "/large.bin", out + "/large")
for folder, folders, files in sorted(os.walk(out)):
    for name in sorted(map(os.fsencode, files)):
        path = os.path.join(os.fsencode(folder), name)
        status = os.lstat(path)
        print(path, status.st_mode, os.path.islink(path) or
              (status.st_size, hashlib.md5(open(path, "rb").read()).hexdigest()))
with tarfile.open(out + "/x.tar", "w") as tar:
    tar.add(root, "set")
with tarfile.open(out + "/x.tar") as tar:
    print(sorted((os.fsencode(m.name), m.size, m.mtime, m.type, m.linkname) for m in tar if not m.isdir()))
""")

    def test_map_and_threads_and_processes(self):
        self.python("""
import os, mmap, threading, hashlib, glob
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
with open(root + "/large.bin", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
    print(hashlib.md5(mapped).hexdigest(), os.pread(file.fileno(), 10, 1000))
paths = sorted(glob.glob(root + "/train/*/*"))
read = lambda path: hashlib.md5(open(path, "rb").read()).hexdigest()
with ThreadPoolExecutor(8) as pool:
    print(list(pool.map(read, paths)))
pid = os.fork()
if pid == 0:
    os._exit(0 if read(root + "/val/words.txt") and len(os.listdir(root)) > 5 else 1)
print(os.waitpid(pid, 0)[1])
""")

    def test_numpy(self):
        if not (self.plain / "array.npy").exists():
            self.skipTest("numpy is not installed")
        self.python("""
import numpy
print(numpy.load(root + "/array.npy").sum(), numpy.load(root + "/array.npy", mmap_mode="r")[7, 9])
print(numpy.fromfile(root + "/large.bin", dtype="u1").sum(), numpy.memmap(root + "/large.bin", mode="r").sum())
""")

    def test_fts(self):
        shown = self.python("""
from ctypes import *
libc = CDLL(None, use_errno=True)
class Entry(Structure):
    pass
Entry._fields_ = [("cycle", POINTER(Entry)), ("parent", POINTER(Entry)), ("link", POINTER(Entry)), ("number", c_long),
                  ("pointer", c_void_p), ("accpath", c_char_p), ("path", c_char_p), ("errno", c_int), ("symfd", c_int),
                  ("pathlen", c_ushort), ("namelen", c_ushort), ("ino", c_ulong), ("dev", c_ulong),
                  ("nlink", c_ulong), ("level", c_short), ("info", c_ushort), ("flags", c_ushort),
                  ("instr", c_ushort), ("statp", c_void_p), ("name", c_char * 1)]
libc.fts_open.restype = c_void_p
libc.fts_close.argtypes = [c_void_p]
libc.fts_read.argtypes, libc.fts_read.restype = [c_void_p], POINTER(Entry)
libc.fts_children.argtypes, libc.fts_children.restype = [c_void_p, c_int], POINTER(Entry)
libc.fts_set.argtypes = [c_void_p, POINTER(Entry), c_int]
def name(entry):
    return string_at(addressof(entry) + Entry.name.offset)
COMPARE = CFUNCTYPE(c_int, POINTER(POINTER(Entry)), POINTER(POINTER(Entry)))
@COMPARE
def backwards(a, b):
    a, b = name(a.contents.contents), name(b.contents.contents)
    return (a < b) - (a > b)
for options in (4 | 16, 4 | 2, 4 | 16 | 1):  # FTS_NOCHDIR, FTS_PHYSICAL, FTS_LOGICAL, FTS_COMFOLLOW
    paths = (c_char_p * 3)((root + "/to_folder").encode(), root.encode(), None)
    stream = libc.fts_open(paths, options, backwards)
    while found := libc.fts_read(stream):
        entry = found.contents
        print(entry.path, entry.accpath, name(entry), entry.info, entry.level, entry.pathlen, entry.namelen)
        if name(entry) == b"val" and entry.info == 1:
            child = libc.fts_children(stream, 0)
            while child:
                print("child", name(child.contents))
                child = child.contents.link
        if name(entry) == b"class3" and entry.info == 1:
            libc.fts_set(stream, found, 4)  # FTS_SKIP
        if name(entry) == b"up" and entry.info == 12:
            libc.fts_set(stream, found, 2)  # FTS_FOLLOW
    print(get_errno(), libc.fts_close(stream))
""")
        self.assertEqual(shown.count(b"child b'words.txt'"), 3)

    def test_h5py_and_images_and_archives(self):
        if not (self.plain / "set.h5").exists():
            self.skipTest("h5py or Pillow is not installed")
        self.python("""
import h5py, zipfile
from PIL import Image
with h5py.File(root + "/set.h5") as file:
    print(file["x"][500:510])
print(Image.open(root + "/image.png").getpixel((3, 4)), zipfile.ZipFile(root + "/set.zip").read("a"))
""")

    def test_torch(self):
        if not (self.plain / "set.pt").exists():
            self.skipTest("torch is not installed")
        script = self.folder / "read.py"
        script.write_text("""
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
    root = sys.argv[1]
    print(torch.load(root + "/set.pt")["x"].sum(), torch.from_file(root + "/large.bin", size=99, dtype=torch.uint8).sum())
    for start in ("fork", "spawn"):
        print(start, [b.tolist() for b in DataLoader(Files(root), 8, num_workers=2, multiprocessing_context=start)])
""")
        self.check_same([sys.executable, str(script), "ROOT"])

    def test_the_c_library(self):
        self.python("""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
seen = []
VISIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int * 2))
def visit(path, status, kind, place):
    seen.append((path, kind, place.contents[0], place.contents[1]))
    return 0
for flags in (0, 1, 8, 9):  # FTW_PHYS, FTW_DEPTH
    seen = []
    print(libc.nftw(root.encode(), VISIT(visit), 20, flags), flags, sorted(seen) if flags & 1 else len(seen))
class Glob(ctypes.Structure):
    _fields_ = [("count", ctypes.c_size_t), ("paths", ctypes.POINTER(ctypes.c_char_p)), ("rest", ctypes.c_char * 200)]
for pattern in ("/train/*/00[12]*", "/v*/*", "/{zero,large.bin}", "/none*"):
    found = Glob()
    code = libc.glob((root + pattern).encode(), 1 << 10, None, ctypes.byref(found))
    print(pattern, code, [found.paths[i] for i in range(found.count)])
    libc.globfree(ctypes.byref(found))
names = ctypes.POINTER(ctypes.POINTER(ctypes.c_char))()
count = libc.scandir((root + "/val").encode(), ctypes.byref(names), None, libc.alphasort)
print(count, [ctypes.string_at(ctypes.addressof(names[i].contents) + 19) for i in range(count)])
buffer = ctypes.create_string_buffer(4096)
libc.realpath.restype = libc.canonicalize_file_name.restype = ctypes.c_char_p
print(libc.realpath((root + "/val/up").encode(), buffer), libc.canonicalize_file_name((root + "/to_folder").encode()))
print(libc.euidaccess((root + "/zero").encode(), 4), libc.eaccess((root + "/missing").encode(), 4))
libc.fopen.restype = ctypes.c_void_p
print(libc.fopen((root + "/zero").encode(), b"r") is not None, libc.fopen((root + "/missing").encode(), b"r"))
""")


class DescriptorTest(ClientTest):
    """What programs do with descriptors, where fast mode must not be noticed."""

    def test_parent_and_child_share_the_offset(self):
        self.python("""
import os
fd = os.open(root + "/large.bin", os.O_RDONLY)
print(os.read(fd, 10))
pid = os.fork()
if pid == 0:
    os.read(fd, 1000)
    os._exit(0)
os.waitpid(pid, 0)
print(os.lseek(fd, 0, os.SEEK_CUR), os.read(fd, 10))
""")

    def test_copies_share_the_offset(self):
        self.python("""
import os, fcntl
fd = os.open(root + "/large.bin", os.O_RDONLY)
os.read(fd, 100)
copy = os.dup(fd)
print(os.read(copy, 5), os.read(fd, 5))
other = os.open(root + "/val/words.txt", os.O_RDONLY)
os.dup2(fd, other)                                  # replaces a descriptor of the store
print(os.read(other, 5), os.lseek(fd, 0, os.SEEK_CUR))
os.dup2(os.open("/etc/passwd", os.O_RDONLY), other) # and again, by one of another file
print(os.read(other, 5), os.fstat(other).st_size)
os.close(fd)
print(os.read(copy, 5), fcntl.fcntl(copy, fcntl.F_DUPFD, 40), os.read(40, 5))
""")

    def test_flags(self):
        self.python("""
import os, fcntl
for flags in (0, os.O_CLOEXEC, os.O_NOFOLLOW | os.O_NONBLOCK, os.O_CREAT):
    fd = os.open(root + "/large.bin", os.O_RDONLY | flags)
    print(fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD), os.isatty(fd), os.get_inheritable(fd))
    os.set_inheritable(fd, True)
    print(fcntl.fcntl(fd, fcntl.F_GETFD), os.fpathconf(fd, "PC_NAME_MAX"))
""")

    def test_inherited_descriptors(self):
        self.python("""
import os, subprocess, sys
fd = os.open(root + "/val/words.txt", os.O_RDONLY)
os.read(fd, 5)
print(subprocess.run(["sh", "-c", f"head -n 1 <&{fd}; head -c 3 /dev/fd/{fd}"], pass_fds=[fd], capture_output=True))
with open(root + "/val/words.txt") as file:
    print(subprocess.run(["md5sum"], stdin=file, capture_output=True))
    print(subprocess.run(["md5sum"], stdin=file, capture_output=True, preexec_fn=lambda: None))
print(os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_CUR) > 5, flush=True)
os.set_inheritable(fd, True)
os.lseek(fd, 11, os.SEEK_SET)
os.system(f"head -c 4 <&{fd}")
print(os.popen(f"echo from; head -c 4 <&{fd}", "r").read(), flush=True)
os.execl("/bin/sh", "sh", "-c", f"head -n 2 <&{fd}; cat <&9 2>&1 | wc -l")
""", edit=lambda text: re.sub(rb"fd/\d+|<&\d+|pass_fds=\[\d+\]", b"FD", text))

    def test_the_lowest_number_is_used_for_standard_descriptors(self):
        self.python("""
import os
with open(root + "/zero"):
    pass
os.close(0)
print(os.open(root + "/val/words.txt", os.O_RDONLY), os.read(0, 4))
os.set_inheritable(0, True)
os.execl("/bin/cat", "cat")
""")

    def test_other_calls(self):
        self.python("""
import os, select, mmap, socket, fcntl, ctypes, errno, array
fd = os.open(root + "/large.bin", os.O_RDONLY)
os.lseek(fd, 4096, os.SEEK_SET)
print(select.select([fd], [], [], 0)[0] == [fd])
fd = os.open(root + "/large.bin", os.O_RDONLY)
poll = select.poll()
poll.register(fd, select.POLLIN)
print([event for _, event in poll.poll(0)])
try:
    select.epoll().register(os.open(root + "/large.bin", os.O_RDONLY))
except OSError as error:
    print(error)
fd = os.open(root + "/large.bin", os.O_RDONLY)
print(mmap.mmap(fd, 100, prot=mmap.PROT_READ, offset=8192)[:20])
fd = os.open(root + "/large.bin", os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_SH)
fd = os.open(root + "/large.bin", os.O_RDONLY)
pair = socket.socketpair()
socket.send_fds(pair[0], [b"x"], [fd])
received = socket.recv_fds(pair[1], 1, 1)[1][0]
print(os.read(received, 10), os.lseek(fd, 0, os.SEEK_CUR))
print(os.read(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY), 10), os.path.getsize(f"/dev/fd/{fd}"))
fd = os.open(root + "/large.bin", os.O_RDONLY)
print(os.preadv(fd, [bytearray(10), bytearray(20)], 5), os.readv(fd, [memoryview(bytearray(10))]), os.posix_fadvise(fd, 0, 0, 1))
for call in (lambda: os.write(fd, b"x"), lambda: os.ftruncate(fd, 0), lambda: os.lseek(fd, -1, 0), lambda: os.listdir(fd),
             lambda: os.fchdir(fd), lambda: os.pread(fd, 1, -1), lambda: fcntl.ioctl(fd, 0x5401, b"x" * 60),
             lambda: os.open("x", 0, dir_fd=fd), lambda: os.getxattr(fd, "user.x"), lambda: os.lseek(fd, 3_000_000, os.SEEK_DATA)):
    try:
        print(call())
    except OSError as error:
        print(error)
print(os.lseek(fd, 1 << 42, os.SEEK_SET), os.read(fd, 1), os.lseek(fd, 0, os.SEEK_HOLE))
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(root + "/large.bin", os.O_RDONLY)
print(libc.read(fd, None, 10), ctypes.get_errno(), libc.read(fd, ctypes.create_string_buffer(10), 0))
os.close(fd)
for call in (os.fstat, os.dup, os.close, lambda fd: os.read(fd, 1), lambda fd: fcntl.fcntl(fd, fcntl.F_GETFD), os.isatty,
             lambda fd: os.lseek(fd, 0, 0)):
    try:
        print(call(fd))
    except OSError as error:
        print(error)
fds = [os.open(root + "/val/words.txt", os.O_RDONLY) for _ in range(200)]
print({os.read(fd, 3) for fd in fds}, len(set(fds)))
os.closerange(fds[50], fds[150])
bad = 0
for fd in fds:
    try:
        os.close(fd)
    except OSError:
        bad += 1
print(bad, open(root + "/val/words.txt").read(8), os.read(os.open("/etc/passwd", os.O_RDONLY), 4))
""")

    def test_a_number_that_was_closed_by_a_raw_system_call(self):
        """It belongs to whatever the kernel has there now."""
        self.python("""
import ctypes, os, platform, socket, tempfile
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
libc.fileno.argtypes = [ctypes.c_void_p]
close = {"x86_64": 3, "aarch64": 57}[platform.machine()]
pair = socket.socketpair()
def pipe():
    numbers = os.pipe()
    os.write(numbers[1], b"from a pipe")
    return numbers[0]
def sockets():
    one, other = socket.socketpair()
    other.send(b"from a socket")
    return one.detach()
def memory():
    fd = os.memfd_create("x")
    os.write(fd, b"in memory")
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
def temporary():
    fd, name = tempfile.mkstemp(dir=out)
    os.write(fd, b"written")
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
def received():
    sent = os.open("/etc/passwd", os.O_RDONLY)
    os.dup2(sent, 90)
    os.close(sent)
    socket.send_fds(pair[0], [b"x"], [90])
    return socket.recv_fds(pair[1], 1, 1)[1][0]
makers = (pipe, sockets, memory, temporary, received, lambda: os.open("/etc/passwd", os.O_RDONLY), lambda: os.dup(90),
          lambda: os.eventfd(7), lambda: libc.fileno(libc.fopen(b"/etc/passwd", b"r")),
          lambda: os.open(root + "/val/words.txt", os.O_RDONLY | os.O_NOATIME))
for make in makers:
    fd = os.open(root + "/large.bin", os.O_RDONLY)
    os.read(fd, 3)
    libc.syscall(close, fd)
    new = make()
    print(new == fd, os.read(new, 8), os.fstat(new).st_size)
""")

    def test_numbers_that_were_closed_do_not_count(self):
        self.python("""
import os, resource
fds = [os.open(root + "/val/words.txt", os.O_RDONLY) for _ in range(20)]
resource.setrlimit(resource.RLIMIT_NOFILE, (max(fds) + 1, max(fds) + 1))
for fd in fds:
    os.close(fd)
pipes = [os.pipe() for _ in range(9)]
files = [os.open("/etc/passwd", os.O_RDONLY) for _ in range(2)]
try:
    os.pipe()
except OSError as error:
    print(error)
os.close(files[0])
print(open(root + "/val/words.txt").read(4), len(os.read(files[1], 4)))
""")

    def test_a_fork_without_handlers_shares_the_offset(self):
        self.python("""
import ctypes, os
libc = ctypes.PyDLL(None)
if not hasattr(libc, "_Fork"):
    raise SystemExit(print("not in this C library"))
fd = os.open(root + "/large.bin", os.O_RDONLY)
os.read(fd, 10)
pid = libc._Fork()
if pid == 0:
    os.read(fd, 1000)
    os._exit(0)
os.waitpid(pid, 0)
print(os.lseek(fd, 0, os.SEEK_CUR))
""")

    def test_threads_close_while_others_read(self):
        self.python("""
import os, threading, glob, hashlib
paths = sorted(glob.glob(root + "/train/*/*"))
known = {hashlib.md5(open(path, "rb").read()).digest() for path in paths}
wrong = []
def work(number):
    for i in range(400):
        fd = os.open(paths[(i * 7 + number) % len(paths)], os.O_RDONLY)
        if i % 50 == number:
            os.close(os.dup(fd))
        parts = []
        while part := os.read(fd, 5000):
            parts.append(part)
        os.close(fd)
        if hashlib.md5(b"".join(parts)).digest() not in known:
            wrong.append(i)
threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
[t.start() for t in threads], [t.join() for t in threads]
print(wrong)
""")


class FastModeTest(ClientTest):
    fast = True

    def test_reads_need_no_real_file(self):
        code = "import os, sys; f = open(sys.argv[1], 'rb'); print(len(f.read()), os.pread(f.fileno(), 3, 9), f.seek(7))"
        done = self.run_in_store([sys.executable, "-c", code, f"{self.root}/large.bin"])
        self.assertIn(b"3000000", done.stdout, done.stderr)
        self.assertEqual(len(self.node.requests), 1)
        self.assertFalse((self.node.folder / "tree" / "large.bin").exists())

    def test_an_uncovered_call_fails_and_gives_no_bytes(self):
        code = """
import ctypes, errno, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(8)
fd = os.open(sys.argv[1], os.O_RDONLY)
number = {"x86_64": 0, "aarch64": 63}[platform.machine()]
print(libc.syscall(number, fd, buffer, 8), errno.errorcode[ctypes.get_errno()], buffer.raw)
"""
        done = self.run_in_store([sys.executable, "-c", code, f"{self.root}/large.bin"])
        self.assertEqual(done.stdout, b"-1 EBADF " + repr(bytes(8)).encode() + b"\n", done.stderr)

    def test_a_program_goes_on_when_the_service_has_died(self):
        code = "import os, sys; r = lambda: len(open(sys.argv[1], 'rb').read()); print(r(), flush=True); input(); print(r())"
        with subprocess.Popen([sys.executable, "-c", code, f"{self.root}/large.bin"], env=self.environment(),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            self.assertEqual(program.stdout.readline(), b"3000000\n")
            self.node.stop()
            self.assertEqual(program.communicate(b"\n")[0], b"3000000\n")

    def test_files_that_were_refused_are_read_as_real_files(self):
        self.node.is_full = True
        done = self.run_in_store(["cat", f"{self.root}/val/words.txt"])
        self.assertEqual(done.stdout, (self.plain / "val" / "words.txt").read_bytes(), done.stderr)
        self.assertTrue((self.node.folder / "tree" / "val" / "words.txt").exists())


class CourtesyTest(ClientTest):
    def test_calls_that_succeed_keep_errno(self):
        code = """
import ctypes, sys
libc, root = ctypes.CDLL(None, use_errno=True), sys.argv[1].encode()
libc.fopen.restype = libc.opendir.restype = libc.readdir.restype = libc.open_memstream.restype = ctypes.c_void_p
libc.realpath.restype = ctypes.c_char_p
status, out = ctypes.create_string_buffer(500), ctypes.create_string_buffer(5000)
def call(name, *arguments):
    ctypes.set_errno(77)
    arguments = [ctypes.c_void_p(a) if isinstance(a, int) and a > 1 << 32 else a for a in arguments]
    result = getattr(libc, name)(*arguments)
    assert result not in (None, -1), (name, result)
    assert ctypes.get_errno() == 77, (name, ctypes.get_errno())
    return result
fd = call("open", root + b"/large.bin", 0)
call("fstat", fd, status), call("stat", root + b"/to_file", status), call("lstat", root + b"/to_file", status)
call("fclose", call("fopen", root + b"/val/words.txt", b"r")), call("close", fd)
call("fclose", call("open_memstream", out, status))
stream = call("opendir", root + b"/val")
for _ in range(3):
    call("readdir", stream)
call("closedir", stream), call("access", root + b"/zero", 4), call("realpath", root + b"/val/up", out)
call("readlink", root + b"/to_file", out, 100), call("chdir", root + b"/train"), call("getcwd", out, 5000)
"""
        done = self.run_in_store([sys.executable, "-c", code, str(self.root)])
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_signals_do_not_disturb_a_request(self):
        self.node.delay_s = 0.2
        done = self.run_in_store([sys.executable, "-c", "import signal, sys\n"
                                  "signal.signal(signal.SIGALRM, lambda *_: None)\n"
                                  "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
                                  "print(len(open(sys.argv[1], 'rb').read()))", f"{self.root}/large.bin"])
        self.assertEqual((done.stdout, done.stderr), (b"3000000\n", b""))

    def test_the_last_descriptor_is_enough(self):
        done = self.run_in_store(["sh", "-c", f"ulimit -n 4; cat {self.root}/val/words.txt"])
        self.assertEqual(done.stdout, (self.plain / "val" / "words.txt").read_bytes(), done.stderr)


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

    def test_a_missing_node_is_reported_and_changes_nothing(self):
        done = self.run_in_store(["cat", f"{self.plain}/zero"], env={"MILLRACE_STORE": "/nonexistent/node"})
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"the store at /nonexistent/node cannot be used", done.stderr)

    def test_it_can_be_switched_off(self):
        self.assertEqual(self.read("zero", env={"MILLRACE_STORE": "0"}).returncode, 1)
        self.assertEqual(self.node.requests, [])


for name, test in list(globals().items()):
    if isinstance(test, type) and issubclass(test, ClientTest) and not test.fast:
        globals()["Fast" + name] = type("Fast" + name, (test,), {"fast": True})

if __name__ == "__main__":
    unittest.main()
