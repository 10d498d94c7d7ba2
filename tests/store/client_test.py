#!/usr/bin/env python3
"""Command-line programs and Python on a store: client_case.py."""

import sys
import unittest

from client_case import MEMORY, ClientTest, setUpModule, add_fast_mode, sorted_lines, without_directory_sizes


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

    def test_paths_that_leave_the_root(self):
        self.check_same(["bash", "-c", "cat ROOT/../data/to_file ROOT/../../*/data/none ROOT/../data/../data/val/words.txt; cd ROOT/val;"
                         "cat ../../data/zero ../../data/train/../to_file; ls ../../data/ ../../data/to_folder/; cat ../../data/zero/;"
                         "cd ../../data/train; pwd; stat -c %F ../../data; realpath ../../data/to_file"], edit=sorted_lines, code=0)
        self.python("""
import os
for side in (os.path.dirname(root), os.path.dirname(os.path.dirname(root))):
    with open(side + "/beside", "w") as file:
        file.write(file.name)
os.chdir(root + "/train")
print(open(root + "/../beside").read(), open("../../beside").read(), open("../../../beside").read(), os.listdir("../../data/empty"))
fd = os.open("class1", os.O_RDONLY)
print(os.read(os.open("../../../data/val/words.txt", os.O_RDONLY, dir_fd=fd), 9), os.stat("../../..", dir_fd=fd) == os.stat("../.."))
for side in ("../../", "../../../"):
    os.rename(side + "beside", side + "moved")
    os.unlink(side + "moved")
""")

    def test_names_of_the_process_in_proc(self):
        self.python("""
import os, subprocess
os.chdir(root + "/train/class1")
fd = os.open(root + "/val/words.txt", os.O_RDONLY)
folder = os.open(root + "/val", os.O_RDONLY)
os.dup2(fd, 0)
own = f"/proc/{os.getpid()}"
for name in ("/proc/self/cwd", own + "/cwd", "/proc/thread-self/cwd", f"/proc/self/fd/{fd}", f"/dev/fd/{folder}", own + f"/fd/{fd}"):
    status = os.stat(name)
    print(os.readlink(name), os.path.realpath(name), status.st_size if os.path.isfile(name) else sorted(map(os.fsencode, os.listdir(name))),
          os.path.islink(name), os.path.samestat(status, os.stat(os.readlink(name))))
proc = os.open("/proc/self/fd", os.O_RDONLY)
print(os.readlink(str(fd), dir_fd=proc), os.path.realpath("/dev/stdin"), os.path.samefile("/dev/stdin", root + "/to_file"))
print(len(open("/proc/self/cwd/0001.bin", "rb").read()), open(f"/proc/self/fd/{folder}/with space").read(), open("/dev/stdin").read(4))
print(os.path.exists("/proc/self/cwd/../class2/0002.bin"), os.path.exists(f"/dev/fd/{fd}/x"), os.path.exists("/proc/self/cwd/missing"))
print(subprocess.run("readlink /proc/self/cwd; readlink -f /proc/self/cwd/0001.bin; ls -l /proc/self/fd | grep -o 'words.*'; ls /proc/self/cwd/"
                     "; cat /dev/stdin | wc; readlink /proc/$$/cwd; cd /proc/self/cwd; pwd -P; test /dev/stdin -ef ../../to_file; echo $?",
                     shell=True, stdin=fd, capture_output=True, text=True).stdout)
import ctypes
libc = ctypes.CDLL(None)
for size in (3, 10, 300):
    buffer = ctypes.create_string_buffer(300)
    print(libc.readlink(b"/proc/self/cwd", buffer, size), buffer.value.replace(b"/plain/", b"/store/"))
os.chdir("/")
print(os.readlink("/proc/self/cwd"), os.readlink("/proc/self/exe") == os.path.realpath("/proc/self/exe"))
""")

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
        # On a busy machine, torch prints the errors of workers that it ends, with and without a store.
        self.check_same([sys.executable, str(script), "ROOT"], edit=lambda text: text[:text.rindex(b"]]") + 2])

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


add_fast_mode(globals())

if __name__ == "__main__":
    unittest.main()
