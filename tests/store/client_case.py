"""ClientTest: programs that read a dataset through libmillrace_store.so see what they see in the plain directory.

Every program runs twice: on a directory, and on a root that does not exist, with the library and a node. Their names
have the same length, and the output must be the same except for that name."""

import glob
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


def make_programs(folder: Path) -> None:
    folder.mkdir()
    shutil.copy("/bin/echo", folder / "tool")
    for library in glob.glob("/lib/*-linux-gnu/libz.so.1"):
        shutil.copy(library, folder / "libz.so")
    texts = {"named": "#!/bin/sh\necho $0 $# \"$@\"\n", "by_option": "#! /bin/sh -e \nfalse; echo it goes on\n",
             "without_line": "echo without $0 $1\n", "by_relative": "#!bin/tool one\n", "wrong": "#!/nothing/here\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "denied").write_text(texts["named"])


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
    make_programs(root / "bin")
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
    fast = False  # `store run --fast`; see add_fast_mode
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


def add_fast_mode(tests: dict) -> None:
    """Every class of a module runs in both modes. `tests` are the module's globals."""
    for name, test in list(tests.items()):
        if isinstance(test, type) and issubclass(test, ClientTest) and not test.fast:
            tests["Fast" + name] = type("Fast" + name, (test,), {"fast": True, "__module__": test.__module__})
