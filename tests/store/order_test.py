#!/usr/bin/env python3
"""`store warm --order`: programs that do not use our loader, on a store with less room than data."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
PATIENCE_S = 120
FILES = 80
ROOM = 20

READ = """
import hashlib, sys
digest = hashlib.md5()
for line in sys.stdin:
    with open(line.rstrip("\\n"), "rb") as file:
        digest.update(file.read())
print(digest.hexdigest())
"""


class WarmOrder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))  # short, for the socket's path
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.source = self.folder / "source"
        self.root = self.folder / "data"
        self.names = [f"{'ab'[i % 2]}/{i}" for i in range(FILES)]
        for name in self.names:
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            (self.source / name).write_bytes(os.urandom(4096))
        (self.source / "link").symlink_to("a/0")
        self.environment = {name: value for name, value in os.environ.items() if name != "MILLRACE_STORE"}
        self.store("pack", self.source, "-o", self.folder / "packs")

    def store(self, *words, code=0, **options):
        done = subprocess.run([MILLRACE, "store", *map(str, words)], capture_output=True, text=True,
                              env=self.environment, timeout=PATIENCE_S, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def up(self, *words) -> None:
        (self.folder / "local").mkdir(exist_ok=True)
        lines = self.store("up", "--pack", self.folder / "packs", "--at", self.root, "--local", self.folder / "local",
                           "--capacity", ROOM * 4096, *words).stdout.splitlines()
        exports = dict(line.removeprefix("export ").split("=", 1) for line in lines)
        self.exports = {name: value.strip("'") for name, value in exports.items()}
        self.node = self.exports["MILLRACE_STORE"]
        self.addCleanup(subprocess.run, [MILLRACE, "store", "down", "--node", self.node], capture_output=True)

    def status(self) -> dict:
        (found,) = json.loads(self.store("status", "--json", "--node", self.node).stdout)["stores"]
        return found

    def epochs(self, count: int, seed: int = 1) -> list:
        generator = random.Random(seed)
        return [name for _ in range(count) for name in generator.sample(self.names, FILES)]

    def warm(self, order: list, name: str = "order") -> subprocess.Popen:
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in order))
        process = subprocess.Popen([MILLRACE, "store", "warm", "--order", path, "--node", self.node],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def read(self, order: list) -> None:
        """As a program that knows nothing of this, and compares with the plain directory."""
        paths = "".join(f"{self.root}/{name}\n" for name in order)
        done = subprocess.run([sys.executable, "-c", READ], input=paths, capture_output=True, text=True,
                              env={**self.environment, **self.exports}, timeout=PATIENCE_S)
        whole = b"".join((self.source / name).read_bytes() for name in order)
        self.assertEqual(done.stdout.strip(), hashlib.md5(whole).hexdigest(), done.stderr)

    def is_within_room(self, status: dict) -> None:
        self.assertLessEqual(status["materialised"], ROOM)
        there = [path for path in Path(self.node, "tree").rglob("*") if path.is_file() and not path.is_symlink()]
        self.assertLessEqual(len(there), ROOM)

    def test_files_make_room_by_the_order(self):
        self.up()
        order = self.epochs(3)
        warming = self.warm(order)
        self.wait_for(order[0])
        self.read(order)
        end = time.monotonic() + PATIENCE_S
        while self.status()["replaced"] == 0 and time.monotonic() < end:  # the order may lag behind the program
            time.sleep(0.05)
        status = self.status()
        self.assertGreater(status["replaced"], 0)
        self.assertEqual(status["errors"], 0)
        self.is_within_room(status)
        self.store("down", "--node", self.node)
        self.assertRegex(warming.communicate(timeout=PATIENCE_S)[0], r"\d+ of 240 reads of the order")
        self.assertEqual(warming.returncode, 0)

    def test_ends_with_the_order(self):
        self.up()
        order = [*self.names[:ROOM], f"{self.root}/link", f"{self.root}/a/../{self.names[1]}"]
        warming = self.warm(order)
        self.wait_for(self.names[ROOM - 1])
        self.read(order[:ROOM])
        self.read(["a/0", self.names[1]])
        out, _ = warming.communicate(timeout=PATIENCE_S)
        self.assertEqual(out, f"{self.root}: 22 of 22 reads of the order\n")
        self.read(self.names)  # what is there stays, the rest comes from the origin
        self.assertEqual(self.status()["replaced"], 0)

    def test_reads_the_order_from_a_pipe(self):
        self.up()
        warming = subprocess.Popen([MILLRACE, "store", "warm", "--order", "-", "--node", self.node], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment)
        self.addCleanup(warming.kill)
        for name in self.names[:8]:
            warming.stdin.write(name + "\n")
            warming.stdin.flush()
            self.wait_for(name)
            self.read([name])
        out, _ = warming.communicate(timeout=PATIENCE_S)
        self.assertIn("8 of 8 reads", out)

    def wait_for(self, name: str) -> None:
        """Until the service has fetched it. Nobody asked for it."""
        subprocess.run(["sh", "-c", 'until [ -e "$0" ]; do sleep 0.01; done', f"{self.node}/tree/{name}"], check=True,
                       timeout=PATIENCE_S)

    def test_two_programs_with_different_orders(self):
        self.up()
        orders = [self.epochs(2, seed) for seed in (1, 2)]
        for number, order in enumerate(orders):
            self.warm(order, f"order{number}")
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(self.read, orders))
        self.is_within_room(self.status())

    def test_a_killed_service_ends_it_and_the_program_reads_on(self):
        self.up()
        order = self.epochs(3)
        warming = self.warm(order)
        self.wait_for(order[0])
        os.kill(self.status()["pid"], signal.SIGKILL)
        self.read(order)
        out, _ = warming.communicate(timeout=PATIENCE_S)
        self.assertIn("the service has ended", out)

    def test_killed_itself_it_leaves_what_is_there(self):
        self.up()
        order = self.epochs(3)
        warming = self.warm(order)
        self.wait_for(order[ROOM - 1])
        warming.kill()
        warming.communicate()
        self.read(order)
        self.is_within_room(self.status())
        self.assertEqual(list(Path(self.node).glob("order-*")), [])

    def test_lines_that_are_no_files_are_named(self):
        self.up()
        (self.folder / "wrong").write_text("\nnobody\n/etc/passwd\n")
        done = self.store("warm", "--order", self.folder / "wrong", "--node", self.node, code=1)
        self.assertIn("wrong:2: 'nobody' is not a file of the store", done.stderr)
        self.assertIn("names no file of the store", done.stderr)
        done = self.store("warm", "--order", self.folder / "missing", "--node", self.node, code=1)
        self.assertIn("missing", done.stderr)
        for name, message in ((self.folder, "cannot read it: is a directory"),
                              ("/dev/zero", "/dev/zero: line 1 is longer than 65536 bytes")):
            done = self.store("warm", "--order", name, "--node", self.node, code=1)
            self.assertIn(message, done.stderr)
        done = self.store("warm", "--order", self.folder / "wrong", "a/**", "--node", self.node, code=2)
        self.assertIn("GLOB and --order are alternatives", done.stderr)
        self.store("down", "--node", self.node)
        self.up("--fast")
        done = self.store("warm", "--order", self.folder / "wrong", "--node", self.node, code=1)
        self.assertIn("without --fast", done.stderr)


if __name__ == "__main__":
    unittest.main()
