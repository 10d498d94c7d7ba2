#!/usr/bin/env python3
"""Power cuts: what was reported as durable is there after any of them, and nothing else is damaged. Needs root.

    power_cut_test.py                       what ./test runs: a few cuts
    power_cut_test.py --cuts 200 --seed 7 [--option=--buffer=ck/*]

--local and --save are ext4 on disks whose every write is logged (disk.c). A program writes checkpoints for a while. A cut
is a moment of that time: each disk has what was written before its last flush, and a random part of what came later. The
images of many moments are made from one run, mounted where the disks were, and looked at.
"""

import argparse
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import NamedTuple

import operations
from fault_test import pattern
from places import Driver, MILLRACE

BUILD = Path(os.environ.get("MILLRACE_BUILD", "."))
DRIVER = os.environ.get("MILLRACE_MODEL_DRIVER", str(BUILD / "bin" / "store_model_driver"))
DISK = os.environ.get("MILLRACE_MODEL_DISK", str(BUILD / "bin" / "store_model_disk"))
DISK_BYTES = 48 << 20
SECTOR = 4096
PATIENCE_S = 120
OTHER_BOOT = "11111111-2222-3333-4444-555555555555\n"
FLAGS = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
EARLIER = {"earlier/a": b"a" * 70_000, "earlier/b": b"b" * 3, "ck/0": pattern(20_000, 0), "ck/latest": b"ck/0"}


def sh(*words, check: bool = True) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Cut(NamedTuple):
    """A moment: how many acknowledgements there were before the logs were measured, how long the logs were, and how many
    acknowledgements there were after that: this thread may have been stopped in between."""
    acknowledged: int
    sizes: dict
    acknowledged_later: int


class Disk:
    """An ext4 file system on a disk whose writes are logged."""

    def __init__(self, folder: Path, name: str) -> None:
        self.base, self.image, self.log = folder / f"{name}.base", folder / f"{name}.image", folder / f"{name}.log"
        self.served, self.place = folder / f"{name}.fuse", folder / name
        self.served.mkdir()
        self.place.mkdir()
        with open(self.base, "wb") as file:
            file.truncate(DISK_BYTES)
        sh("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.base)
        self.loop = ""
        self.server = None

    def start(self) -> None:
        shutil.copyfile(self.base, self.image)
        self.log.touch()
        self.server = subprocess.Popen([DISK, self.image, self.log, self.served])
        until = time.monotonic() + PATIENCE_S
        while not (self.served / "disk").exists():
            if time.monotonic() > until or self.server.poll() is not None:
                raise RuntimeError("the disk did not start")
            time.sleep(0.01)
        self.attach(self.served / "disk")

    def attach(self, image: Path) -> None:
        self.loop = sh("losetup", "--find", "--show", image).strip()
        # Whoever looks for a free loop device opens it for a moment, and may keep pages of its last image in memory.
        sh("blockdev", "--flushbufs", self.loop)
        sh("mount", "-o", "noatime,commit=1", self.loop, self.place)

    def detach(self) -> None:
        """Waits for processes that are ending. A disk that stays mounted would write to the next image."""
        until = time.monotonic() + PATIENCE_S
        while self.loop and subprocess.run(["umount", self.place], capture_output=True, check=False).returncode != 0:
            if time.monotonic() > until:
                raise RuntimeError(f"{self.place} is still in use")
            time.sleep(0.01)
        if self.loop:
            sh("losetup", "-d", self.loop)
        self.loop = ""

    def stop(self) -> None:
        self.detach()
        if self.server is not None:
            sh("umount", "-l", self.served, check=False)
            try:
                self.server.wait(10)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()
            self.server = None

    def size(self) -> int:
        return self.log.stat().st_size

    def cut(self, size: int, chooser: random.Random) -> Path:
        """An image of the disk as a power cut leaves it."""
        made = self.base.with_suffix(".cut")
        shutil.copyfile(self.base, made)
        with open(made, "r+b") as image, open(self.log, "rb") as log:
            pending: list[tuple[int, bytes]] = []
            while log.tell() + 16 <= size:
                offset, length = struct.unpack("=qq", log.read(16))
                if offset < 0:
                    for place, content in pending:
                        image.seek(place)
                        image.write(content)
                    pending = []
                    continue
                content = log.read(length)
                if log.tell() > size or len(content) < length:
                    break
                pending += [(offset + i, content[i:i + SECTOR]) for i in range(0, length, SECTOR)]
            share = chooser.choice((0.0, 0.3, 0.7, 1.0))
            for place, content in pending:
                if chooser.random() < share:
                    image.seek(place)
                    image.write(content)
        return made


class Session:
    """One run of the program, and the images of its cuts."""

    def __init__(self, seed: int, words: tuple, with_store: bool = True, synced: bool = True) -> None:
        self.random = random.Random(seed)
        self.words, self.with_store, self.synced = words, with_store, synced
        self.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/dev/shm"))
        self.cuts: list[Cut] = []
        self.acknowledged: list[tuple[str, int]] = []  # (what, round)
        self.disks: dict[str, Disk] = {}
        self.buffered = any("--buffer" in word for word in words)
        self.driver = None
        self.environment: dict = {}
        try:
            self.prepare()
        except BaseException:
            self.close()
            raise

    def prepare(self) -> None:
        origin = self.folder / "origin"
        origin.mkdir()
        (self.folder / "out").mkdir()
        operations.make_dataset(str(origin))
        sh(MILLRACE, "store", "pack", origin, "-o", self.folder / "packs")
        for name in ("local", "save"):
            disk = self.disks[name] = Disk(self.folder, name)
            disk.attach(disk.base)
            if name == "save":
                for file, content in EARLIER.items():
                    (disk.place / file).parent.mkdir(exist_ok=True)
                    (disk.place / file).write_bytes(content)
            disk.detach()
            disk.start()

    def arguments(self) -> list:
        return ["--pack", self.folder / "packs", "--at", self.folder / "root", "--local", self.disks["local"].place,
                "--save", self.disks["save"].place, *self.words]

    def sample(self) -> None:
        """Remembers this moment. The disk that is written last is looked at last."""
        before = len(self.acknowledged)
        sizes = {name: self.disks[name].size() for name in ("local", "save")}
        self.cuts.append(Cut(before, sizes, len(self.acknowledged)))

    def write(self, seconds: float) -> None:
        """Lets the program write checkpoints, and samples moments."""
        root = str(self.folder / "root")
        if self.with_store:
            text = sh(MILLRACE, "store", "up", *self.arguments())
            exports = dict(line.removeprefix("export ").split("=", 1) for line in text.splitlines() if line.startswith("export "))
            self.environment = {**os.environ, **{name: value.strip("'") for name, value in exports.items()}}
        else:
            root = str(self.disks["save"].place)
        self.driver = Driver([DRIVER, root, self.folder / "out"], self.environment or dict(os.environ))
        stop = threading.Event()
        sampler = threading.Thread(target=self.sample_until, args=(stop,))
        sampler.start()
        try:
            until = time.monotonic() + seconds
            number = 0
            while time.monotonic() < until or number < 3:
                number += 1
                self.checkpoint(number)
                if self.buffered and number % 4 == 0:
                    subprocess.run([MILLRACE, "store", "flush", "--wait"], env=self.environment, check=True, capture_output=True,
                                   timeout=PATIENCE_S)
                    self.acknowledged.append(("durable", number))
        finally:
            stop.set()
            sampler.join()
        self.sample()

    def sample_until(self, stop: threading.Event) -> None:
        while not stop.wait(0.002 + 0.02 * self.random.random()):
            self.sample()

    def checkpoint(self, number: int) -> None:
        name = f"ck/{number}"
        lines = [f"open 0 @/{name}.tmp {FLAGS} {0o644}", f"write 0 20000 {number % 26}", f"write 0 {number} 1", "fsync 0", "close 0",
                 f"rename @/{name}.tmp @/{name}", f"open 1 @/ck {os.O_RDONLY | os.O_DIRECTORY} 0", "fsync 1", "close 1"]
        if not self.synced:
            lines = [line for line in lines if not line.startswith("fsync")]
        self.ask(lines)
        self.acknowledged.append(("synced", number))
        # The name of the last one is a link, as frameworks do.
        self.ask([f"symlink {number} @/ck/latest.tmp", "rename @/ck/latest.tmp @/ck/latest"])
        if number > 3:
            self.ask([f"unlink @/ck/{number - 3}"])

    def ask(self, lines: list[str]) -> None:
        for line in lines:
            answer = self.driver.ask(line)
            if answer.startswith("E"):
                raise RuntimeError(f"{line}: {answer}")

    def stop(self) -> None:
        """Ends everything, in any way: what is looked at was sampled before."""
        if self.driver is not None:
            self.driver.close()
            self.driver = None
        if self.environment:
            sh(MILLRACE, "store", "down", "--node", self.environment["MILLRACE_STORE"], check=False)
            self.environment = {}
        for disk in self.disks.values():
            disk.stop()

    # ---- after the cut ---------------------------------------------------------------------------------

    def examine(self, cut: Cut) -> list[str]:
        """Mounts the disks of a cut. Returns what is wrong."""
        wrong: list[str] = []
        try:
            for name in ("local", "save"):
                disk = self.disks[name]
                disk.attach(disk.cut(cut.sizes[name], self.random))
            told = self.acknowledged[:cut.acknowledged]
            newest = max((number for _, number in self.acknowledged[:cut.acknowledged_later]), default=0)
            wrong += self.check_files("before anything is copied", [number for what, number in told if what == "durable"], newest)
            found = self.listing()
            if self.with_store:
                wrong += self.recover()
            wrong += self.check_files("at the end", [number for what, number in told if what in ("synced", "durable")], newest)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            wrong.append(f"{type(error).__name__}: {error}")
        finally:
            for disk in self.disks.values():
                disk.detach()
        if wrong:
            wrong += ["after the cut: " + found]
        return wrong

    def listing(self) -> str:
        """What the disks have, for a message."""
        tops = [self.disks["save"].place / "ck", *self.disks["local"].place.glob("millrace-store-*/buffer-*")]
        texts = [f"{path.relative_to(self.folder)} {os.lstat(path).st_size}" for top in tops for path in sorted(top.rglob("*"))
                 if not path.is_dir()]
        journals = [path.read_bytes()[64:].decode("latin-1") for path in self.disks["local"].place.glob("*/buffer-*/journal")]
        progress = [path.read_bytes()[:48].hex() for path in self.disks["local"].place.glob("*/buffer-*/progress")]
        return f"{texts} {journals} {progress}"

    def check_files(self, when: str, wanted: list[int], newest: int) -> list[str]:
        save = self.disks["save"].place
        wrong = []
        for name in ("earlier/a", "earlier/b", "ck/0"):
            if not (save / name).exists() or (save / name).read_bytes() != EARLIER[name]:
                wrong.append(f"{when}: {name} of an earlier job is damaged")
        for number in wanted:
            if number > newest - 2 and not (save / f"ck/{number}").exists():  # older ones may be removed
                wrong.append(f"{when}: ck/{number} was durable and is missing")
        if not self.synced and not self.buffered:
            return wrong
        for path in (save / "ck").iterdir():
            if path.name.isdigit() and path.name != "0" and path.read_bytes() != self.content(int(path.name)):
                wrong.append(f"{when}: {path.name} is incomplete, {path.stat().st_size} B")
        latest = save / "ck" / "latest"
        if latest.is_symlink() and not latest.exists():
            wrong.append(f"{when}: latest is {os.readlink(latest)}, which is missing")
        return wrong

    @staticmethod
    def content(number: int) -> bytes:
        return pattern(20000, number % 26) + pattern(number, 1)

    def recover(self) -> list[str]:
        """What the user does after the machine has started again."""
        boot = self.folder / "boot_id"
        boot.write_text(OTHER_BOOT)
        in_other_boot = ["unshare", "--mount", "sh", "-c", f"mount --bind {boot} /proc/sys/kernel/random/boot_id; exec \"$@\"", "sh"]
        wrong = []
        text = sh(*in_other_boot, MILLRACE, "store", "run", *self.arguments(), "--", "true")
        for buffer in sorted(self.disks["local"].place.glob("millrace-store-*/buffer-*")):
            if buffer.name not in text:
                wrong.append(f"run does not name {buffer.name}: {text!r}")
            sh(*in_other_boot, MILLRACE, "store", "flush", "--left", buffer, check=False)
        return wrong

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def explore(seed: int, cut_count: int, words: tuple = (), **settings) -> list[str]:
    session = Session(seed, words, **settings)
    wrong = []
    try:
        session.write(max(1.0, cut_count / 40))
        session.stop()
        chosen = random.Random(seed).sample(session.cuts, min(cut_count, len(session.cuts)))
        for number, cut in enumerate(chosen):
            found = session.examine(cut)
            if found:
                wrong.append(f"cut {number} of seed {seed}, after {cut.acknowledged} acknowledgements, sizes {cut.sizes}: " + "; ".join(found))
    finally:
        session.close()
    print(f"{' '.join(words) or 'no buffer'}: {len(chosen)} cuts of {len(session.acknowledged)} acknowledgements, {len(wrong)} with a loss",
          flush=True)
    return wrong


class PowerCutTest(unittest.TestCase):
    def test_what_was_synced_is_there(self):
        self.assertEqual(explore(1, 6), [])

    def test_what_a_buffer_acknowledged_is_there(self):
        self.assertEqual(explore(4, 6, ("--buffer=ck/*",)), [])

    def test_the_test_itself_finds_nothing_on_a_plain_disk(self):
        self.assertEqual(explore(2, 6, with_store=False), [])

    def test_the_test_itself_finds_what_was_not_synced(self):
        self.assertNotEqual(explore(3, 12, with_store=False, synced=False), [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--option", action="append", default=[], help="one more word for the store: --option=--buffer=ck/*")
    arguments = parser.parse_args()
    wrong = explore(arguments.seed, arguments.cuts, tuple(arguments.option))
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    if os.geteuid() != 0 or not Path("/dev/fuse").exists() or not Path(DISK).exists():
        print("skipped: needs root, /dev/fuse and a build with libfuse, to make disks")
        sys.exit(77)
    if len(sys.argv) > 1:
        sys.exit(main())
    unittest.main()
