#!/usr/bin/env python3
"""The loader on a store: every sample compared with the plain directory; resume; a killed service or loader; too little room."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
PATIENCE_S = 120

# Prints a line of JSON: what the loader gave, and what it counted.
LOAD = """
import hashlib, json, os, signal, sys
import millrace

options = json.loads(sys.argv[1])
kind = options.pop("kind")
stop_at = options.pop("stop_at", None)
kill_at = options.pop("kill_at", None)
kills_itself_at = options.pop("kills_itself_at", None)
forks_at = options.pop("forks_at", None)
state = options.pop("state", None)
epochs = options.pop("epochs", 1)
rank = options.pop("rank", None)
if rank is not None:
    options["world"] = millrace.World(rank=rank, size=2)
data = getattr(millrace, kind)(*options.pop("arguments"), **options.pop("dataset", {}))
loader = millrace.DataLoader(data, output="numpy", **options)
if state is not None:
    loader.load_state_dict(state)
batches, saved = [], None
for epoch in range(epochs):
    for number, batch in enumerate(loader):
        arrays = batch if isinstance(batch, (tuple, list)) else [batch]
        batches.append([hashlib.md5(str(getattr(a, "shape", "")).encode() + bytes(memoryview(a).cast("B")
                        if hasattr(a, "dtype") else repr(a).encode())).hexdigest() for a in arrays])
        if kill_at is not None and number == kill_at:
            os.kill(int(os.environ["SERVICE"]), signal.SIGKILL)
        if forks_at is not None and number == forks_at:
            child = os.fork()
            if child == 0:
                sys.exit(0)  # not os._exit: the loader ends in the child, too
            assert os.waitpid(child, 0)[1] == 0
        if kills_itself_at is not None and number == kills_itself_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if stop_at is not None and number == stop_at:
            saved = loader.state_dict()
            break
print(json.dumps({"batches": batches, "state": saved, "classes": list(getattr(data, "classes", [])),
                  "count": len(data)}))
"""


class LoaderOnStore(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))  # short, for the socket's path
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.source = self.folder / "source"
        self.local = self.folder / "local"
        self.root = self.folder / "data"
        self.local.mkdir()
        self.make_files()
        self.environment = {name: value for name, value in os.environ.items() if name != "MILLRACE_STORE"}
        self.environment["MILLRACE_STORE_DEADLINE_MS"] = "20000"

    def make_files(self) -> None:
        for i in range(120):
            path = self.source / ("train/cat" if i % 3 else "train/dog") / f"{i}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(64) * 64 if i % 2 else os.urandom(4096))
        (self.source / "train/dog/link.bin").symlink_to("../cat/1.bin")
        rows = self.source / "rows"
        rows.mkdir()
        for i in range(3):
            with open(rows / f"{i}.raw", "wb") as file:
                file.write(os.urandom(1000 * 20) if i else bytes(1000 * 20))

    def store(self, *words, code=0):
        done = subprocess.run([MILLRACE, "store", *map(str, words)], capture_output=True, text=True,
                              env=self.environment, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def pack(self, codec="auto") -> None:
        self.packs = self.folder / f"packs-{codec}"
        self.store("pack", self.source, "-o", self.packs, "--partitions", "3", "--codec", codec)

    def up(self, *words) -> Path:
        lines = self.store("up", "--pack", self.packs, "--at", self.root, "--local", self.local,
                           *words).stdout.splitlines()
        self.exports = {name: value.strip("'") for name, value in
                        (line.removeprefix("export ").split("=", 1) for line in lines)}
        node = Path(self.exports["MILLRACE_STORE"])
        self.addCleanup(subprocess.run, [MILLRACE, "store", "down", "--node", node], capture_output=True)
        return node

    def status(self, node: Path) -> dict:
        (found,) = json.loads(self.store("status", "--json", "--node", node).stdout)["stores"]
        return found

    def load(self, kind, *arguments, node=None, preload=False, service=0, code=0, **options) -> dict:
        environment = dict(self.environment, SERVICE=str(service))
        if node is not None:
            environment["MILLRACE_STORE"] = str(node)
        if preload:
            environment["LD_PRELOAD"] = self.exports["LD_PRELOAD"]
        request = json.dumps({"kind": kind, "arguments": [str(a) for a in arguments], "batch_size": 7,
                              "seed": 5, **options})
        done = subprocess.run([sys.executable, "-c", LOAD, request], capture_output=True, text=True,
                              env=environment, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.stderr = done.stderr
        return json.loads(done.stdout) if code == 0 else {}

    def load_folder(self, root, **options) -> dict:
        return self.load("RawFolder", root / "train", dataset={"shape": [4096]}, **options)

    def forget_partitions(self) -> None:
        """As if other nodes had them: the service reads the origin."""
        for path in self.packs.glob("*.pack"):
            path.unlink()

    def test_every_sample_is_that_of_the_plain_directory(self):
        plain = self.load_folder(self.source, epochs=2)
        self.assertEqual(plain["classes"], ["cat", "dog"])
        for codec in ("none", "lz4", "zstd", "auto"):
            self.pack(codec)
            node = self.up()
            for preload in (False, True):
                with self.subTest(codec=codec, preload=preload):
                    self.assertEqual(self.load_folder(self.root, node=node, preload=preload, epochs=2), plain)
            self.assertEqual(self.status(node)["materialised"], 0)

    def test_files_of_many_samples(self):
        options = {"dataset": {"format": "raw", "shape": [1000]}}
        for what in (["rows"], ["rows/0.raw"]):
            plain = self.load("Files", *[self.source / name for name in what], **options)
            self.pack()
            node = self.up()
            self.assertEqual(self.load("Files", *[self.root / name for name in what], node=node, **options), plain)
            shutil.rmtree(self.packs)

    def test_resumes_exactly_with_a_state_of_the_plain_directory(self):
        self.pack()
        node = self.up()
        plain = self.load_folder(self.source)
        begun = self.load_folder(self.source, stop_at=6)
        self.assertEqual(begun["batches"], plain["batches"][:7])
        rest = self.load_folder(self.root, node=node, state=begun["state"])
        self.assertEqual(rest["batches"], plain["batches"][7:])

    def test_other_partitions_come_through_the_service(self):
        plain = self.load_folder(self.source, epochs=2)
        self.pack()
        self.forget_partitions()
        node = self.up("--origin", self.source)
        self.assertEqual(self.load_folder(self.root, node=node, epochs=2), plain)
        status = self.status(node)
        self.assertEqual(status["materialised"], 120)
        self.assertEqual(status["fallbacks"], 0)

    def test_with_less_room_than_data_the_order_decides(self):
        plain = self.load_folder(self.source, epochs=3)
        self.pack()
        self.forget_partitions()
        room = 30 * 4096  # of 120 files with a page each
        node = self.up("--origin", self.source, "--capacity", str(room))
        loaded = self.load_folder(self.root, node=node, epochs=3, num_workers=1, prefetch_factor=1)
        self.assertEqual(loaded, plain)
        status = self.status(node)
        self.assertGreater(status["replaced"], 90)
        self.assertLessEqual(status["materialised"], 30)
        self.assertLessEqual(status["materialised_bytes"], room)
        there = [path for path in (node / "tree").rglob("*") if path.is_file() and not path.is_symlink()]
        self.assertLessEqual(sum(path.stat().st_size for path in there), room)
        # Programs without an order share what is there, and get the rest from the origin.
        files = sorted(path.relative_to(self.source) for path in (self.source / "train").rglob("*.bin"))
        command = ["sh", "-c", "cat \"$@\" | md5sum", "sh", *[str(self.root / path) for path in files]]
        read = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S,
                              env={**self.environment, **self.exports})
        whole = hashlib.md5(b"".join((self.source / path).read_bytes() for path in files)).hexdigest()
        self.assertEqual(read.stdout.split()[:1], [whole], read.stderr)

    def test_two_ranks_of_a_node_share_the_service(self):
        self.pack()
        self.forget_partitions()
        node = self.up("--origin", self.source, "--capacity", str(40 * 4096))
        plain = [self.load_folder(self.source, epochs=2, rank=rank) for rank in range(2)]
        with ThreadPoolExecutor(2) as threads:
            loaded = list(threads.map(lambda rank: self.load_folder(self.root, node=node, epochs=2, rank=rank), range(2)))
        self.assertEqual(loaded, plain)

    def test_a_killed_loader_leaves_the_service_to_others(self):
        plain = self.load_folder(self.source, epochs=2)
        self.pack()
        self.forget_partitions()
        node = self.up("--origin", self.source, "--capacity", str(30 * 4096))
        for stop_at in (0, 3):
            self.load_folder(self.root, node=node, kills_itself_at=stop_at, code=-signal.SIGKILL)
        self.assertEqual(self.load_folder(self.root, node=node, epochs=2), plain)
        self.assertEqual([path.name for path in node.glob("order-*")], [])

    def test_a_child_of_fork_leaves_the_order_to_its_parent(self):
        plain = self.load_folder(self.source, epochs=2)
        self.pack()
        self.forget_partitions()
        node = self.up("--origin", self.source, "--capacity", str(30 * 4096))
        self.assertEqual(self.load_folder(self.root, node=node, epochs=2, forks_at=3), plain)
        self.assertGreater(self.status(node)["replaced"], 30)  # also in the second epoch

    def test_a_killed_service_leaves_the_origin(self):
        plain = self.load_folder(self.source)
        self.pack()
        self.forget_partitions()
        node = self.up("--origin", self.source, "--capacity", str(30 * 4096))  # not all is fetched ahead
        service = self.status(node)["pid"]
        loaded = self.load_folder(self.root, node=node, service=service, kill_at=2, num_workers=1,
                                  prefetch_factor=1)
        self.assertEqual(loaded, plain)
        self.assertIn("from the origin", self.stderr)

    def test_without_a_service_the_path_is_an_ordinary_one(self):
        plain = self.load_folder(self.source)
        self.assertEqual(self.load_folder(self.source, node=self.folder / "gone"), plain)


if __name__ == "__main__":
    unittest.main()
