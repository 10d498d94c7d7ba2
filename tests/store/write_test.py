#!/usr/bin/env python3
"""Files that programs create below the root of a store: ordinary files of one ordinary directory."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
PATIENCE_S = 60


def contents(folder: Path) -> dict:
    """What is in a folder: bytes of files, targets of links, None for directories."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
    return found


class WriteTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))  # short, for the socket's path
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.local = self.folder / "local"
        self.local.mkdir()
        self.source = self.folder / "source"
        for name in ("train/0", "train/1", "val/2", "README"):
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            (self.source / name).write_text(name + "\n")
        self.before = contents(self.source)
        self.root = self.folder / "data"
        self.save = self.folder / "save"
        self.packs = self.folder / "packs"
        self.environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment.pop("MILLRACE_STORE", None)
        self.store("pack", self.source, "-o", self.packs)
        self.args = ["--pack", self.packs, "--at", self.root, "--local", self.local]

    def store(self, *words, code=0, environment=None):
        done = subprocess.run([MILLRACE, "store", *map(str, words)], capture_output=True, text=True,
                              env=environment or self.environment, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def run_in_store(self, *command, words=(), code=0, cwd=None):
        done = subprocess.run([MILLRACE, "store", "run", *map(str, self.args), *map(str, words), "--",
                               *map(str, command)], capture_output=True, text=True, env=self.environment,
                              timeout=PATIENCE_S, cwd=cwd)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def shell(self, script: str, **more):
        return self.run_in_store("bash", "-ec", script.replace("ROOT", str(self.root)), **more)

    def python(self, script: str, **more):
        return self.run_in_store(sys.executable, "-c", f"import os\nroot = {str(self.root)!r}\n" + script, **more)

    def saved(self) -> dict:
        """What the save directory has, which is the origin here, besides the dataset."""
        return {name: found for name, found in contents(self.source).items() if name not in self.before}

    def assert_clean(self):
        """Nothing is left on the node, and the dataset is as it was."""
        left = [path for top in self.local.glob("millrace-store-*") for path in top.iterdir()]
        self.assertEqual(left, [])
        now = contents(self.source)
        self.assertEqual({name: now.get(name) for name in self.before}, self.before)


class OneNodeTest(WriteTest):
    def test_a_file_is_seen_at_once_and_saved_at_the_end(self):
        done = self.shell("""
echo one > ROOT/new.txt
cat ROOT/new.txt
mkdir -p ROOT/train/sub/deep
echo two > ROOT/train/sub/deep/file
echo more >> ROOT/new.txt
ls ROOT; ls ROOT/train
cat ROOT/train/sub/deep/file ROOT/train/0
test -w ROOT && test ! -e ROOT/missing
""")
        self.assertEqual(done.stdout, "one\nREADME\nnew.txt\ntrain\nval\n0\n1\nsub\ntwo\ntrain/0\n")
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.saved(), {"new.txt": b"one\nmore\n", "train/sub": None, "train/sub/deep": None,
                                        "train/sub/deep/file": b"two\n"})
        self.assert_clean()

    def test_every_way_to_list_names_finds_new_files_in_both_modes(self):
        script = '''
import sys
from ctypes import *
libc = CDLL(None)
root = sys.argv[1]
import os
os.makedirs(root + "/train/sub/deep")
for name in ("/new", "/train/sub/one", "/train/sub/deep/two"):
    open(root + name, "w").write(name)
os.symlink("one", root + "/train/sub/link")
VISIT = CFUNCTYPE(c_int, c_char_p, c_void_p, c_int, c_void_p)
for start, flags in (("", 1), ("", 8), ("", 0), ("/train/sub", 1), ("/train/sub", 1 | 4)):  # PHYS, DEPTH, CHDIR
    found = []
    def visit(path, status, kind, place):
        found.append((path.decode()[len(root):], kind))
        return 0
    print(libc.nftw((root + start).encode(), VISIT(visit), 20, flags), sorted(found))
class Entry(Structure):
    _fields_ = [("before", c_void_p * 5), ("accpath", c_char_p), ("path", c_char_p), ("errno", c_int), ("symfd", c_int),
                ("pathlen", c_ushort), ("namelen", c_ushort), ("ino", c_ulong), ("dev", c_ulong), ("nlink", c_ulong),
                ("level", c_short), ("info", c_ushort)]
libc.fts_open.restype = c_void_p
libc.fts_close.argtypes = [c_void_p]
libc.fts_read.argtypes, libc.fts_read.restype = [c_void_p], POINTER(Entry)
for options in (4 | 16, 4 | 2):  # FTS_NOCHDIR with FTS_PHYSICAL or FTS_LOGICAL
    stream = libc.fts_open((c_char_p * 2)(root.encode(), None), options, None)
    found = []
    while entry := libc.fts_read(stream):
        found.append((entry.contents.path.decode()[len(root):], entry.contents.info))
    print(libc.fts_close(stream), sorted(found))
class Globbed(Structure):
    _fields_ = [("count", c_size_t), ("paths", POINTER(c_char_p)), ("rest", c_void_p * 16)]
for pattern in ("/*", "/train/s*/*", "/train/sub/deep/t?o", "/nothing*"):
    globbed = Globbed()
    code = libc.glob((root + pattern).encode(), 0, None, byref(globbed))
    print(code, [globbed.paths[i].decode()[len(root):] for i in range(globbed.count)])
class Name(Structure):
    _fields_ = [("ino", c_ulong), ("off", c_long), ("length", c_ushort), ("type", c_ubyte), ("name", c_char * 256)]
for folder in ("", "/train", "/train/sub", "/train/sub/deep"):
    names = POINTER(POINTER(Name))()
    count = libc.scandir((root + folder).encode(), byref(names), None, None)
    print(sorted((names[i].contents.name.decode(), names[i].contents.type) for i in range(count)))
print(sorted((where[len(root):], sorted(folders), sorted(files)) for where, folders, files in os.walk(root)))
import glob, pathlib
print(sorted(name[len(root):] for name in glob.glob(root + "/**", recursive=True)))
print(sorted(str(name)[len(root):] for name in pathlib.Path(root).rglob("*")))
print([open(root + name).read() for name in ("/new", "/train/sub/link", "/train/sub/deep/two")])
'''
        plain = self.folder / "plain"
        shutil.copytree(self.source, plain, symlinks=True)
        wanted = subprocess.run([sys.executable, "-c", script, plain], capture_output=True, text=True, check=True).stdout
        self.assertIn("('/train/sub/deep/two', 0)", wanted)
        self.assertIn("'two'", wanted)
        for mode in ((), ("--fast",)):
            done = self.run_in_store(sys.executable, "-c", script, self.root, words=mode)
            self.assertEqual(done.stdout, wanted, (mode, done.stderr))
            for path in (self.source / "new", self.source / "train/sub"):  # the next run creates them again
                path.unlink() if path.is_file() else shutil.rmtree(path)

    def test_a_working_directory_that_leaves_the_root(self):
        done = self.python("""
out = os.path.dirname(root)
os.mkdir(root + "/new")
os.chdir(root + "/new")
print(os.getcwd() == root + "/new")
os.rename(root + "/new", out + "/moved")
print(os.getcwd() == out + "/moved")
""")
        self.assertEqual((done.stdout, done.stderr), ("True\nTrue\n", ""))

    def test_a_link_to_the_root_does_not_become_a_file(self):
        self.python("""
side = os.path.dirname(root) + "/side"
os.symlink(root, side)
os.symlink(side, side + "2")
for name in (side, side + "2"):
    for make in (lambda: open(name, "w"), lambda: os.open(name, os.O_WRONLY | os.O_CREAT), lambda: os.open(name, os.O_CREAT)):
        try:
            make()
            print("created")
        except IsADirectoryError:
            pass
    with open(name + "/new", "w") as file:
        file.write("through the link\\n")
with open(side + "3", "w") as file:
    file.write("outside\\n")
assert sorted(os.listdir(root)) == ["README", "new", "train", "val"], os.listdir(root)
""", words=("--save", self.save))
        self.assertFalse(os.path.lexists(self.root))
        self.assertEqual(contents(self.save), {"new": b"through the link\n"})
        self.assertEqual((self.folder / "side3").read_text(), "outside\n")

    def test_a_directory_is_listed_by_a_number_that_was_closed_behind_our_back(self):
        done = self.python("""
import ctypes
import platform
libc = ctypes.CDLL(None)
os.mkdir(root + "/train/new")  # so the directory is one of --save
for number in (os.open(root + "/train/0", os.O_RDONLY), os.open(root + "/train/0", os.O_RDONLY)):
    libc.syscall({"x86_64": 3, "aarch64": 57}[platform.machine()], number)
    print(sorted(os.listdir(root + "/train")))
""", words=("--save", self.save, "--fast"))
        self.assertEqual(done.stdout, "['0', '1', 'new']\n" * 2)

    def test_the_dataset_is_read_only(self):
        script = """
import errno
calls = {
    "append": lambda: open(root + "/README", "a"), "write": lambda: open(root + "/README", "w"),
    "unlink": lambda: os.unlink(root + "/README"), "rmdir": lambda: os.rmdir(root + "/val"),
    "rename": lambda: os.rename(root + "/README", root + "/new"),
    "over": lambda: os.rename(root + "/mine", root + "/README"),
    "directory": lambda: os.rename(root + "/val", root + "/new"),
    "chmod": lambda: os.chmod(root + "/README", 0), "truncate": lambda: os.truncate(root + "/README", 0),
    "link": lambda: os.link(root + "/README", root + "/new"),
}
open(root + "/mine", "w").close()
for name, call in calls.items():
    try:
        call()
        print(name, "worked")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"""
        done = self.python(script)
        self.assertEqual(done.stdout.split(), " EROFS ".join(
            "append write unlink rmdir rename over directory chmod truncate link".split()).split() + ["EROFS"])
        self.assertEqual(self.saved(), {"mine": b""})
        self.assert_clean()

    def compare_programs(self, script: str, names=None):
        """The same script in a plain directory leaves the same files and prints the same."""
        plain = self.folder / "plain"
        shutil.copytree(self.source, plain, symlinks=True)
        expected = subprocess.run(["bash", "-ec", script.replace("ROOT", str(plain))], capture_output=True, text=True,
                                  timeout=PATIENCE_S, env=self.environment)
        self.assertEqual(expected.returncode, 0, expected.stdout + expected.stderr)
        done = self.shell(script)
        self.assertEqual(done.stdout.replace(str(self.root), "ROOT"), expected.stdout.replace(str(plain), "ROOT"))
        wanted = {name: found.replace(str(plain), str(self.root)) if isinstance(found, str) else found
                  for name, found in contents(plain).items()}
        found = contents(self.source)
        self.assertEqual(set(found), set(wanted))
        self.assertEqual([name for name in found if found[name] != wanted[name]], [])
        self.assert_clean()

    def test_shell_tools(self):
        work = self.folder / "work"
        work.mkdir()
        self.compare_programs(f"""
mkdir ROOT/d; seq 1000 > ROOT/d/a; cp -r ROOT/d ROOT/e; mv ROOT/e/a ROOT/e/b; ln -s b ROOT/e/l; cat ROOT/e/l | md5sum
ln ROOT/d/a ROOT/d/hard; rm ROOT/d/a; tar --mtime=@1 -cf ROOT/t.tar -C ROOT d train; mkdir ROOT/x; tar -xf ROOT/t.tar -C ROOT/x
find ROOT -type f | sort; grep -r train ROOT | sort; du -s --apparent-size ROOT/x/train > /dev/null
cp -r ROOT/train ROOT/copy; rm -r ROOT/x; sort -o ROOT/d/sorted ROOT/d/hard; sed -i s/1/one/ ROOT/d/sorted
cd ROOT/d; pwd; echo here > here; cat ../train/0 here; ls ..; cd ../train; ls ../d; echo x > ../e/x; mkdir y; cd y; pwd
realpath . ../../e/l ../../d/../e/b; touch -d @1000000000 z; stat -c '%Y %s %a %F' z; chmod 600 z; stat -c %a z
truncate -s 10 z; test $(stat -c %s z) = 10; mkdir -p a/b/c; rmdir a/b/c; rm -r a; mktemp -d tmpXXXXXX > /dev/null
rmdir tmp*; ln -s ROOT/d/hard abs; wc -l abs; ln -s ../0 cat0; cat cat0; echo "$(ls -A | sort | tr '\\n' ' ')"; rm abs
dd if=/dev/zero of=big bs=1M count=3 status=none; cmp -n 100 big /dev/zero; split -b 1M big part; cat part* | cmp - big
mv ROOT/e ROOT/train/moved; ls ROOT/train/moved; mv ROOT/d/here {work}/out; mv {work}/out ROOT/back; cat ROOT/back
if command -v rsync > /dev/null; then rsync -a ROOT/train/ ROOT/synced/ && diff -r ROOT/train ROOT/synced; rm -r ROOT/synced; fi
install -m 640 ROOT/README ROOT/installed; stat -c %a ROOT/installed
""")

    def test_python_modules(self):
        self.compare_programs(f"""{sys.executable} - <<'END'
import logging, os, pathlib, pickle, shutil, sqlite3, tempfile, zipfile, glob
root = pathlib.Path("ROOT")
(root / "runs" / "1").mkdir(parents=True)
with open(root / "runs/1/ck.tmp", "wb") as file:
    pickle.dump(list(range(1000)), file)
os.replace(root / "runs/1/ck.tmp", root / "runs/1/ck")
print(len(pickle.load(open(root / "runs/1/ck", "rb"))))
logging.basicConfig(filename=root / "runs/log", format="%(message)s")
logging.warning("started")
with tempfile.TemporaryDirectory(dir=root) as folder:
    pathlib.Path(folder, "x").write_text("x")
    print(os.listdir(folder), os.path.dirname(folder) == str(root))
with tempfile.NamedTemporaryFile(dir=root / "train", delete=False) as file:
    file.write(b"named")
os.rename(file.name, root / "train" / "named")
with tempfile.TemporaryFile(dir=root) as file:
    file.write(b"none")
with zipfile.ZipFile(root / "runs/z.zip", "w") as file:
    file.writestr(zipfile.ZipInfo("a"), "b")
shutil.copytree(root / "train", root / "again")
shutil.move(root / "again", root / "val" / "again")
shutil.rmtree(root / "val" / "again")
base = sqlite3.connect(root / "runs/base.db")
base.execute("create table t(a)")
base.executemany("insert into t values (?)", [(i,) for i in range(100)])
base.commit()
print(base.execute("select sum(a) from t").fetchone())
base.close()
print(sorted(os.path.relpath(p, root) for p in glob.glob(str(root / "**"), recursive=True)))
print(sorted(e.name for e in os.scandir(root) if e.is_dir()), sorted(p.name for p in (root / "runs").iterdir()))
os.chdir(root / "runs")
print(os.getcwd(), os.path.realpath("1/ck"), os.path.exists("../train/0"), sorted(os.listdir("..")))
os.symlink(root / "runs/1", "latest")
print(sorted(os.listdir("latest")), os.path.getsize("latest/ck"), os.path.samefile("latest/ck", "1/ck"))
fd = os.open(root, os.O_RDONLY)
with open(os.open("by_fd", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd), "w") as file:
    file.write("x")
print(os.stat("by_fd", dir_fd=fd).st_size, sorted(os.listdir(fd)))
os.unlink("by_fd", dir_fd=fd)
END
""")

    def test_arrays_and_checkpoints(self):
        modules = [name for name in ("numpy", "h5py", "torch") if subprocess.run(
            [sys.executable, "-c", f"import {name}"], capture_output=True).returncode == 0]
        if not modules:
            self.skipTest("no numpy, h5py or torch")
        done = self.python(f"modules = {modules!r}\n" + """
if "numpy" in modules:
    import numpy
    numpy.save(root + "/a.npy", numpy.arange(10000))
    mapped = numpy.lib.format.open_memmap(root + "/m.npy", mode="w+", dtype="f4", shape=(1000,))
    mapped[:] = 7
    mapped.flush()
    print(numpy.load(root + "/a.npy", mmap_mode="r").sum(), numpy.load(root + "/m.npy").sum())
if "h5py" in modules:
    import h5py
    with h5py.File(root + "/h.h5", "w") as file:
        file["x"] = list(range(1000))
    with h5py.File(root + "/h.h5", "a") as file:
        file["y"] = 3
        print(file["x"][:].sum())
if "torch" in modules:
    import torch
    os.mkdir(root + "/ckpt.tmp")
    torch.save({"w": torch.arange(1000)}, root + "/ckpt.tmp/0.pt")
    os.rename(root + "/ckpt.tmp", root + "/ckpt")
    print(torch.load(root + "/ckpt/0.pt")["w"].sum().item())
""")
        expected = {"numpy": "49995000 7000.0\n", "h5py": "499500\n", "torch": "499500\n"}
        self.assertEqual(done.stdout, "".join(expected[name] for name in modules), done.stderr)
        files = {"numpy": {"a.npy", "m.npy"}, "h5py": {"h.h5"}, "torch": {"ckpt", "ckpt/0.pt"}}
        self.assertEqual(set(self.saved()), set().union(*(files[name] for name in modules)))
        if "numpy" in modules:
            import numpy
            self.assertEqual(numpy.load(self.source / "m.npy").sum(), 7000)
        self.assert_clean()

    def test_files_of_earlier_jobs_are_there_and_are_changed_like_any_others(self):
        self.shell("mkdir ROOT/runs; echo one > ROOT/runs/log; ln ROOT/runs/log ROOT/runs/second; echo x > ROOT/val/new",
                   words=["--save", self.save])
        done = self.shell("""
cat ROOT/runs/log; ls ROOT/runs ROOT/val
echo two >> ROOT/runs/second; cat ROOT/runs/log; mv ROOT/runs ROOT/kept
(set -C; ! echo no > ROOT/val/new) 2> /dev/null; cat ROOT/val/new
""", words=["--save", self.save])
        self.assertEqual(done.stdout, f"one\n{self.root}/runs:\nlog\nsecond\n\n{self.root}/val:\n2\nnew\none\ntwo\nx\n")
        self.assertEqual(contents(self.save), {"kept": None, "kept/log": b"one\ntwo\n", "kept/second": b"one\ntwo\n",
                                               "val": None, "val/new": b"x\n"})
        self.assert_clean()

    def test_two_jobs_that_append_to_one_file_keep_all_lines(self):
        script = f"for i in $(seq 200); do echo $0 $i >> {self.root}/log; done"
        jobs = [subprocess.Popen([MILLRACE, "store", "run", *map(str, self.args), "--save", str(self.save), "--", "bash",
                                  "-c", script, name], env=self.environment) for name in ("a", "b")]
        self.assertEqual([job.wait(timeout=PATIENCE_S) for job in jobs], [0, 0])
        lines = (self.save / "log").read_text().split("\n")[:-1]
        self.assertEqual(sorted(lines), sorted(f"{name} {i}" for name in "ab" for i in range(1, 201)))

    def test_a_name_of_the_pack_is_the_packs(self):
        """Even if --save has a file, or something of another kind, under that name."""
        (self.save / "train" / "1").mkdir(parents=True)
        (self.save / "train" / "0").write_text("another")
        (self.save / "val").write_text("a file")
        before = contents(self.save)
        done = self.shell("cat ROOT/train/0 ROOT/train/1; ls ROOT/train ROOT/val; ! rm ROOT/train/0; "
                          "! mv ROOT/train ROOT/t; ! echo x > ROOT/train/0; ! echo x > ROOT/val/x",
                          words=["--save", self.save])
        self.assertEqual(done.stdout, f"train/0\ntrain/1\n{self.root}/train:\n0\n1\n\n{self.root}/val:\n2\n")
        self.assertEqual(contents(self.save), before)

    def test_without_a_place_for_new_files_creating_one_is_refused_with_one_line(self):
        shutil.rmtree(self.source)
        done = self.python("""
import errno
for attempt in (lambda: open(root + "/a", "w"), lambda: os.mkdir(root + "/d"), lambda: os.symlink("x", root + "/l"),
                lambda: os.open(root, os.O_TMPFILE | os.O_RDWR)):
    try:
        attempt()
    except OSError as error:
        print(errno.errorcode[error.errno], end=" ")
print(os.access(root, os.W_OK), os.path.exists(root + "/a"), sorted(os.listdir(root)))
""")
        self.assertEqual(done.stdout, "EROFS EROFS EROFS EROFS False False ['README', 'train', 'val']\n")
        self.assertEqual(done.stderr.count("millrace:"), 1)
        self.assertIn(f"nothing can be created below {self.root}: the store has no origin. Start it with --save DIR",
                      done.stderr)

    def test_a_killed_service_has_no_part_in_it(self):
        script = ('pid=$("$0" store status --json | python3 -c \'import json, sys; '
                  'print(json.load(sys.stdin)["stores"][0]["pid"])\'); echo a > ROOT/a; kill -9 $pid; echo b > ROOT/b')
        self.run_in_store("bash", "-c", script.replace("ROOT", str(self.root)), MILLRACE, words=["--save", self.save])
        self.assertEqual(contents(self.save), {"a": b"a\n", "b": b"b\n"})

    def test_a_full_disk_is_the_writers_error(self):
        self.save.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.save], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("cannot mount a small file system")
        self.addCleanup(subprocess.run, ["umount", "-l", self.save])
        done = self.shell("! head -c 4000000 /dev/zero > ROOT/a; rm ROOT/a; echo b > ROOT/b", words=["--save", self.save])
        self.assertIn("No space left", done.stderr)
        self.assertEqual(contents(self.save), {"b": b"b\n"})

    def test_save_below_the_root_is_refused(self):
        done = subprocess.run([MILLRACE, "store", "run", *map(str, self.args), "--save", str(self.root / "out"), "--",
                               "true"], capture_output=True, text=True, env=self.environment)
        self.assertEqual(done.returncode, 1)
        self.assertIn("choose another --save", done.stderr)


if __name__ == "__main__":
    unittest.main()
