#!/usr/bin/env python3
"""What programs create below the root of a store, compared with a plain directory after each of many random operations.

    model_test.py                                     what ./test runs: all settings, a minute
    model_test.py --setting save --mode fast --seeds 0-999
    model_test.py --setting same --minutes 60         new seeds for an hour
    model_test.py --setting save --script FILE        the operations of a file, as a failure prints them

A store is the dataset, which cannot be changed, and an ordinary directory for all other names. So whatever a program does
must have the result that it has in a plain copy of the dataset, except that the store refuses to change the dataset
(operations.Judge). The same program (driver.c) does the same operations in both. A run that differs is made shorter, as
long as it still differs, and printed.
"""

import argparse
import os
import shlex
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Optional

import operations
from operations import BAD_PATH_ERRORS, SLASH_ERRORS, Judge, generate
from places import Driver, DriverError, HostsStore, Plain, Store

DRIVER = os.environ.get("MILLRACE_MODEL_DRIVER", str(Path(os.environ.get("MILLRACE_BUILD", ".")) / "bin" / "store_model_driver"))
OPERATIONS = 200
SHOWN = 8
NOT_BUFFERED = {"EBUSY", "EOPNOTSUPP"}  # a file that is open for writing cannot become an ordinary one
COUNTS = ("operations", "failed", "refused", "skipped")
SETTINGS = ("save", "origin", "same")
MODES = ("default", "fast")
MUTANTS = ("append", "exclusive", "truncate", "list", "rename")


class Difference(Exception):
    """The store and the plain directory differ. `kind` is the operation that shows it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Run:
    """A list of operations in two places at once."""

    def __init__(self, plain: Plain, store, several_hosts: bool = False, tolerated: tuple = ()) -> None:
        self.plain, self.store, self.tolerated = plain, store, tolerated
        self.judge = Judge(plain.root, plain.outside, plain.kept, several_hosts, getattr(store, "setting", "") == "same")
        self.counts = dict.fromkeys(COUNTS, 0)

    def where(self, model: Driver, descriptor: str) -> Optional[str]:
        """The directory of a descriptor of the model's driver."""
        try:
            if descriptor == "-":
                return os.readlink(f"/proc/{model.number}/cwd")
            return os.readlink(f"/proc/{model.number}/fd/{model.ask('slots').split()[int(descriptor)]}")
        except OSError:
            return None

    def holds(self, model: Driver, slot: str) -> Optional[str]:
        """The name below the root of what a slot has open."""
        path = self.where(model, slot) if slot != "-" else None
        if path == self.plain.root:
            return ""
        return path[len(self.plain.root) + 1:] if path and path.startswith(self.plain.root + "/") else None

    def changes_open_file(self, model: Driver, words: list[str]) -> bool:
        """Whether a file would be opened for writing that somebody has open already. In a buffer it may have been copied
        meanwhile: whoever has it open goes on with the bytes that were there."""
        words = words[1:] if words[0] in ("fork", "thread") else words
        where = {"open": ("-", 2, 3), "creat": ("-", 2, 0), "fopen": ("-", 1, 2), "openat": (words[2:3], 3, 4),
                 "truncate": ("-", 1, 0)}.get(words[0].split(":")[0])
        is_stream = words[0].startswith("fopen")
        if where is None or not (where[2] == 0 or is_stream and words[where[2]] != "r" or
                                 not is_stream and int(words[where[2]]) & (os.O_TRUNC | operations.WRITES)):
            return False
        base = self.where(model, "".join(where[0])) or ""
        name = operations.find(self.plain.root, self.plain.outside, base, words[where[1]], True).name
        return any(name == self.holds(driver, str(slot)) for driver in self.plain.drivers for slot in range(operations.SLOTS))

    def step(self, index: int, line: str) -> tuple[str, str]:
        """(wanted, answer); equal if both are right."""
        model, driver = self.plain.drivers[index], self.store.drivers[index]
        verdict = self.judge.judge(line.split(), lambda d: self.where(model, d), lambda s: self.holds(model, s))
        self.counts["operations"] += 1
        if (verdict.skip or verdict.refused and isinstance(self.store, Plain) or
                getattr(self.store, "is_buffered", False) and self.changes_open_file(model, line.split())):
            self.counts["skipped"] += 1
            return "", ""
        answer = driver.ask(line)
        if getattr(self.store, "is_buffered", False) and set(answer.split()) & (NOT_BUFFERED | {"EXDEV"} if "link_open" in line else NOT_BUFFERED):
            self.counts["skipped"] += 1
            return "", ""
        if verdict.refused:
            self.counts["refused"] += 1
            return (answer, answer) if answer in verdict.refused else (" or ".join(sorted(verdict.refused)), answer)
        wanted = model.ask(line)
        if getattr(self.store, "is_buffered", False):  # a removed file keeps its other name until the queue is done
            wanted, answer = wanted.replace("links 0", "links 1"), answer.replace("links 0", "links 1")
        self.counts["failed"] += wanted[:1] == "E"
        right = (answer in verdict.also or verdict.bad_paths and {wanted, answer} <= set(BAD_PATH_ERRORS) or
                 "/ " in line + " " and are_errors(wanted, answer, SLASH_ERRORS) or f"{wanted}/{answer}" in self.tolerated)
        return (answer, answer) if right else (wanted, answer)

    def begin(self, seed: int) -> None:
        self.plain.wipe()
        self.store.wipe()
        if seed % 3 == 0:
            for place in (self.plain, self.store):
                place.plant("n", "of an earlier job")
        if seed % 5 == 0 and isinstance(self.store, Store):
            self.store.hide()

    def perform(self, seed: int, lines: list[tuple[int, str]]) -> None:
        """Raises Difference."""
        self.begin(seed)
        done: list[str] = []
        for number, (index, line) in enumerate(lines):
            try:
                wanted, answer = self.step(index, line)
            except DriverError as error:
                raise self.difference(number, index, line, "an answer", str(error), done) from error
            if wanted != answer:
                raise self.difference(number, index, line, wanted, answer, done)
            done.append(f"  {index}: {line}    # {answer[:200]}")
        self.compare_ends(done)

    def compare_ends(self, done: list[str]) -> None:
        wanted = self.plain.drivers[0].ask("tree @")
        for index, driver in enumerate(self.store.drivers):
            found = driver.ask("tree @")
            if found != wanted:
                raise self.difference(len(done), index, "tree @", *only_different(wanted, found), done)
        if getattr(self.store, "is_buffered", False):
            for driver in self.store.drivers:
                driver.ask("reset")  # what is open for writing is not saved
        self.store.flush()
        wanted, found = self.plain.created(), self.store.created()
        wanted = {name: with_signs(what, self.plain) for name, what in wanted.items()}
        found = {name: with_signs(what, self.store) for name, what in found.items()}
        names = sorted(name for name in {**wanted, **found} if wanted.get(name) != found.get(name))
        if names:
            raise self.difference(len(done), 0, "the upper directory", *(
                str({name: place.get(name) for name in names})[:500] for place in (wanted, found)), done)

    @staticmethod
    def difference(number: int, index: int, line: str, wanted: str, answer: str, done: list[str]) -> Difference:
        return Difference(line.removeprefix("fork ").removeprefix("thread ").split()[0].split(":")[0], "\n".join([f"operation {number}, of driver {index}: {line}", f"  plain: {wanted}", f"  store: {answer}",
                          "the last operations:", *done[-SHOWN:]]))


def are_errors(wanted: str, answer: str, errors: tuple) -> bool:
    """Whether both are the same but for these errors."""
    ours, theirs = wanted.split(" "), answer.split(" ")
    return len(ours) == len(theirs) and all(a == b or {a, b} <= set(errors) for a, b in zip(ours, theirs))


def with_signs(what: Optional[tuple], place) -> Optional[tuple]:
    """The target of a link with @ and %, as in the operations."""
    if not what or what[0] != "l":
        return what
    return (*what[:4], what[4].replace(place.root, "@").replace(place.outside, "%"))


def only_different(left: str, right: str) -> tuple[str, str]:
    """The parts of two trees that differ."""
    ours, theirs = left.split("\t"), right.split("\t")
    return ("\t".join(part for part in ours if part not in theirs), "\t".join(part for part in theirs if part not in ours))


class Bench:
    """A plain directory and a place to compare it with, for many runs. A driver that died is replaced with all the rest."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.base = Path(tempfile.mkdtemp(prefix="mr-", dir=arguments.folder))  # short, for the path of the socket
        self.hosts = None
        self.run: Optional[Run] = None
        self.counts = dict.fromkeys(COUNTS, 0)
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        arguments = self.arguments
        if arguments.hosts > 1:
            from hosts import Hosts  # pylint: disable=import-outside-toplevel
            self.hosts = Hosts(arguments.hosts)
            self.hosts.__enter__()
        count = max(arguments.hosts, arguments.drivers)
        driver = [*shlex.split(arguments.prefix), arguments.driver]
        keeps_dataset = arguments.setting != "plain"
        plain_folder = (self.hosts.shared if self.hosts else self.base) / "p"
        plain = Plain(plain_folder, driver, count, keeps_dataset)
        words = (("--fast",) if arguments.mode == "fast" else ()) + tuple(arguments.option)
        if not keeps_dataset:
            store = Plain(self.base / "s", driver, count, False, arguments.mutant)
        elif self.hosts:
            store = HostsStore(driver, count, arguments.setting, words, self.hosts)
        else:
            store = Store(self.base / "s", driver, count, arguments.setting, words, arguments.local)
        self.run = Run(plain, store, arguments.hosts > 1, tuple(arguments.tolerate.split(",")))

    def perform(self, seed: int, lines: list[tuple[int, str]]) -> Optional[Difference]:
        """What is different, or None."""
        try:
            self.run.perform(seed, lines)
            return None
        except Difference as error:
            if isinstance(error.__cause__, DriverError):
                self.restart()
            return error

    def restart(self) -> None:
        self.close(keep=True)
        self.start()

    def shorten(self, seed: int, lines: list[tuple[int, str]], kind: str) -> list[tuple[int, str]]:
        """Leaves out operations as long as the rest still differs in the same operation."""
        def differs(some: list) -> bool:
            found = self.perform(seed, some)
            return found is not None and found.kind == kind

        if not differs(lines):
            print("it does not differ again")
            return lines
        size = len(lines) // 2
        until = time.monotonic() + 60
        while size >= 1 and time.monotonic() < until:
            start, shorter = 0, False
            while start < len(lines):
                fewer = lines[:start] + lines[start + size:]
                if differs(fewer):
                    lines, shorter = fewer, True
                else:
                    start += size
            size = size // 2 if not shorter or size > 1 else size
        return lines

    def close(self, keep: bool = False) -> None:
        try:
            if self.run is not None:
                for name, count in self.run.counts.items():
                    self.counts[name] += count
                for place in (self.run.plain, self.run.store):
                    place.close()
        finally:
            self.run = None
            if self.hosts is not None:
                self.hosts.close()
                self.hosts = None
            shutil.rmtree(self.base, ignore_errors=True)
            if keep:
                self.base.mkdir()

    def replay(self, seed: int) -> str:
        arguments = self.arguments
        words = [f"--setting {arguments.setting}", f"--mode {arguments.mode}", f"--hosts {arguments.hosts}",
                 f"--drivers {arguments.drivers}", f"--operations {arguments.operations}",
                 *(f"--option={word}" for word in arguments.option), *((f"--without {arguments.without}",) if arguments.without else ())]
        return f"tests/store/model/model_test.py {' '.join(words)} --seeds {seed}-{seed}"


def explore(arguments: argparse.Namespace) -> int:
    """Runs the seeds. Returns how many differ."""
    bench = Bench(arguments)
    bad = 0
    begin = time.monotonic()
    done = 0
    try:
        seed = arguments.first
        while seed <= arguments.last and (not arguments.minutes or time.monotonic() < begin + 60 * arguments.minutes):
            lines = [(index, line) for index, line in generate(seed, arguments.operations, len(bench.run.plain.drivers))
                     if not set(line.replace(":", " ").split()) & set(arguments.without.split(","))]
            difference = bench.perform(seed, lines)
            if difference is not None:
                bad += 1
                print(f"\nseed {seed} differs; replay: {bench.replay(seed)}\n{difference}", flush=True)
                short = bench.shorten(seed, lines, difference.kind)
                print(f"a shorter one (seed {seed} decides what is there before):")
                print("\n".join(f"  {index}: {line}" for index, line in short))
                print(bench.perform(seed, short), flush=True)
                if bad >= arguments.most:
                    break
            seed += 1
            done += 1
    finally:
        bench.close()
    seconds = time.monotonic() - begin
    counts = bench.counts
    print(f"{arguments.setting} {arguments.mode} hosts {arguments.hosts} {' '.join(arguments.option)}: {done} seeds, {counts['operations']} operations "
          f"({counts['failed']} fail as in a plain directory, {counts['refused']} refused, "
          f"{counts['skipped']} skipped), {bad} seeds differ, {seconds:.1f} s", flush=True)
    return bad


def perform_script(arguments: argparse.Namespace) -> int:
    lines = []
    for line in Path(arguments.script).read_text(encoding="utf-8").splitlines():
        index, colon, words = line.split("#")[0].strip().partition(": ")
        if colon:
            lines.append((int(index), words.strip()))
    bench = Bench(arguments)
    try:
        difference = bench.perform(arguments.first, lines)
        print(difference or "no difference")
        return difference is not None
    finally:
        bench.close()


def parse(words: Optional[list] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--setting", choices=(*SETTINGS, "plain"), help="plain compares two plain directories")
    parser.add_argument("--mode", choices=MODES, default="default")
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--drivers", type=int, default=2, help="processes; on several hosts at least one a host")
    parser.add_argument("--seeds", default="0-99", help="A-B")
    parser.add_argument("--minutes", type=float, default=0, help="go on with new seeds")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help="of a seed")
    parser.add_argument("--most", type=int, default=1, help="stop after this many seeds that differ")
    parser.add_argument("--folder", default="/dev/shm", help="where the directories are; its file system is tested too")
    parser.add_argument("--mutant", choices=MUTANTS, default="", help="make a plain directory wrong")
    parser.add_argument("--option", action="append", default=[], help="one more word for `store up`: --option=--buffer")
    parser.add_argument("--local", default="", help="the storage of the node")
    parser.add_argument("--prefix", default="", help="what starts the drivers of both: prlimit --fsize=8192")
    parser.add_argument("--without", default="", help="operations to leave out, because they are known to differ: fts,link")
    parser.add_argument("--tolerate", default="", help="answers of plain directory and store that are known to differ: EEXIST/EROFS")
    parser.add_argument("--script", help="operations: lines of INDEX: OPERATION")
    parser.add_argument("--driver", default=DRIVER)
    arguments = parser.parse_args(words)
    first, _, last = arguments.seeds.partition("-")
    arguments.first, arguments.last = int(first), int(last or first)
    if arguments.minutes:
        arguments.last = max(arguments.last, 1 << 60)
    return arguments


class SelfTest(unittest.TestCase):
    """The test can fail, and does not without reason."""

    def test_two_plain_directories_are_the_same(self):
        self.assertEqual(explore(parse(["--setting", "plain", "--seeds", "0-39"])), 0)

    def test_each_mutant_is_found(self):
        for mutant in MUTANTS:
            with self.subTest(mutant):
                self.assertEqual(explore(parse(["--setting", "plain", "--seeds", "0-99", "--mutant", mutant])), 1)


class ModelTest(unittest.TestCase):
    """A few seeds of each setting."""

    def check(self, *words: str, seeds: int = 25):
        first = int(os.environ.get("MILLRACE_MODEL_SEED", "0"))
        self.assertEqual(explore(parse([*words, "--seeds", f"{first}-{first + seeds - 1}"])), 0, "see above")

    def test_one_host(self):
        for setting in SETTINGS:
            for mode in MODES:
                with self.subTest(setting=setting, mode=mode):
                    self.check("--setting", setting, "--mode", mode)

    def test_a_buffer(self):
        for setting, mode in (("save", "default"), ("same", "fast")):
            with self.subTest(setting=setting, mode=mode):
                self.check("--setting", setting, "--mode", mode, "--option=--buffer=*", seeds=12)

    def test_on_a_disk(self):
        self.check("--setting", "save", "--folder", "/var/tmp", seeds=5)

    def test_three_hosts(self):
        import hosts as cluster  # pylint: disable=import-outside-toplevel
        reason = cluster.why_not()
        if reason:
            self.skipTest(reason)
        for setting in SETTINGS:
            for mode in MODES:
                with self.subTest(setting=setting, mode=mode):
                    self.check("--setting", setting, "--mode", mode, "--hosts", "3", "--drivers", "4", seeds=10)


if __name__ == "__main__":
    if len(sys.argv) > 1 and any(word.startswith(("--setting", "--script")) for word in sys.argv[1:]):
        chosen = parse()
        sys.exit(bool(perform_script(chosen) if chosen.script else explore(chosen)))
    unittest.main()
