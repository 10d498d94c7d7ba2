#!/usr/bin/env python3
"""`millrace replay` of a real job: the replay is traced too, and the two traces are compared call by call."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from collections import Counter, defaultdict
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
JOB = Path(os.environ["MILLRACE_SOURCE"]) / "tests" / "replay" / "job.c"
SIZES = [20000 + 1111 * number for number in range(8)]
# Calls whose effect the replay has without making them: a mapping is replayed with madvise. With statx, the replay makes
# sure that a file is what it expects.
NOT_REPLAYED = {"mmap", "munmap", "madvise", "mapped", "fork", "start", "exit", "statx", "fdopen", "fdopendir"}
# The replay makes these relative to the open directory.
RELATIVE = {"openat": "open", "fopen": "open", "opendir": "open", "fstatat": "stat", "mkdirat": "mkdir",
            "renameat": "rename", "unlinkat": "unlink", "fprintf": "fwrite"}
O_PATH = 0o10000000


def run(*command, code=0, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **more)
    assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    return done


class Traced:
    """The events of a trace below a directory, by thread."""

    def __init__(self, trace: Path, directory: Path, scratch: Path):
        table = scratch / "events.csv"
        run(MILLRACE, "export", trace, "--to", "csv", "-o", table)
        self.threads = defaultdict(list)
        with open(table, encoding="utf-8") as file:
            rows = sorted(csv.DictReader(file), key=lambda row: int(row["begin_ns"]))
        for row in rows:
            if not row["file"].startswith(str(directory)) or row["call"] in NOT_REPLAYED:
                continue
            if row["call"] == "openat" and int(row["detail"]) & O_PATH:
                continue  # finds a directory
            self.threads[(row["pid"], row["tid"])].append(self.what(row, directory))

    @staticmethod
    def what(row, directory):
        name = os.path.relpath(row["file"], directory)
        failed = int(row["result"]) < 0
        call = RELATIVE.get(row["call"], row["call"])
        moved = row["result"] if call != "open" else ""
        size = row["size"] if row["call"] not in ("fprintf", "fwrite") else ""
        return (call, name, row["offset"], size, "failed" if failed else moved)


class ReplayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.base = Path(holder.name).resolve()
        run("cc", "-O1", "-pthread", JOB, "-o", cls.base / "job")
        cls.work = cls.base / "work"
        (cls.work / "data").mkdir(parents=True)
        for number, size in enumerate(SIZES):
            (cls.work / "data" / str(number)).write_bytes(os.urandom(size))
        cls.trace = cls.base / "t"
        run(MILLRACE, "trace", "-o", cls.trace, "--", cls.base / "job", cls.work)

    def setUp(self):
        self.onto = self.base / "onto"
        self.addCleanup(shutil.rmtree, self.onto, ignore_errors=True)

    def replay(self, *options, code=0):
        done = run(MILLRACE, "replay", self.trace, "--onto", self.onto, "--root", self.work, "--json", *options,
                   code=code)
        return json.loads(done.stdout)

    def check_same_calls(self, *options):
        again = self.base / "again"
        self.addCleanup(shutil.rmtree, again, ignore_errors=True)
        done = run(MILLRACE, "trace", "-o", again, "--", MILLRACE, "replay", self.trace, "--onto", self.onto,
                   "--root", self.work, *options)
        recorded = Traced(self.trace, self.work, self.base)
        replayed = Traced(again, self.onto, self.base)
        made = Counter(tuple(calls) for calls in replayed.threads.values())
        # main, reader, writer, and the child, whose only call is a pread on an inherited descriptor
        self.assertEqual(len(recorded.threads), 4)
        for thread, calls in recorded.threads.items():
            closest = max(replayed.threads.values(), key=lambda other: len(set(other) & set(calls)))
            self.assertTrue(tuple(calls) in made, f"{thread}: {calls}\nclosest: {closest}\n{done.stdout}")

    def test_the_same_calls_in_the_same_order(self):
        self.check_same_calls()

    def test_the_same_calls_at_the_recorded_times(self):
        self.check_same_calls("--timing", "as-recorded")

    def test_the_files_are_those_of_the_job(self):
        report = self.replay()
        self.assertEqual(report["failed_only_here"], 0)
        self.assertEqual(report["calls"], report["planned_calls"])
        functions = {entry["function"]: entry for entry in report["functions"]}
        for entry in functions.values():
            self.assertEqual(entry["short"], 0, entry)
            self.assertEqual(entry["recorded"]["bytes"], entry["replayed"]["bytes"], entry)
        self.assertEqual(functions["open"]["failed_in_both"], 1)
        self.assertEqual([(self.onto / "data" / str(n)).stat().st_size for n in range(8)], SIZES)

    def mark(self):
        self.onto.mkdir()
        (self.onto / ".millrace-replay").touch()

    def test_a_second_replay_finds_what_the_first_prepared(self):
        self.assertEqual(self.replay()["prepared"]["files"], 8)
        self.assertEqual(sorted(os.listdir(self.onto)), [".millrace-replay", "data"])
        again = self.replay()
        self.assertEqual((again["failed_only_here"], again["prepared"]["files"]), (0, 0))
        self.assertEqual(again["prepared"]["existing_files"], 8)

    def test_what_somebody_put_into_the_folder_stays(self):
        self.replay()
        (self.onto / "out").mkdir()
        (self.onto / "out" / "0").write_text("mine")
        for options in ((), ("--clean",)):
            refused = run(MILLRACE, "replay", self.trace, "--onto", self.onto, "--root", self.work, *options, code=1)
            self.assertRegex(refused.stderr, "out exists, and the trace modifies it, but a replay changes only what it")
            self.assertEqual((self.onto / "out" / "0").read_text(), "mine")

    def test_clean_removes_everything(self):
        self.mark()
        (self.onto / "mine").write_text("kept")
        self.replay("--clean", "--fill")
        self.assertEqual(sorted(os.listdir(self.onto)), [".millrace-replay", "mine"])
        shutil.rmtree(self.onto)
        self.replay("--clean")
        self.assertFalse(self.onto.exists())

    def test_a_part_of_the_trace(self):
        report = self.replay("--function", "read,pread", "--transfer-size", "60..100")
        counts = {entry["function"]: entry["calls"] for entry in report["functions"]}
        self.assertEqual(counts, {"pread": 8})
        self.assertGreater(report["not_replayed"]["filtered"], 50)

    def test_existing_files_are_read_as_they_are(self):
        self.mark()
        (self.onto / "data").mkdir()
        (self.onto / "data" / "0").write_bytes(b"short")
        report = self.replay()
        self.assertEqual(report["prepared"]["existing_too_small"], 1)
        self.assertEqual(report["prepared"]["files"], 7)
        reads = next(entry for entry in report["functions"] if entry["function"] == "read")
        self.assertGreater(reads["short"], 0)
        self.assertEqual((self.onto / "data" / "0").read_bytes(), b"short")

    def test_a_call_that_fails_only_here_gives_exit_code_1(self):
        self.mark()
        (self.onto / "data").mkdir()
        (self.onto / "data" / "0").write_bytes(b"")
        (self.onto / "data" / "0").chmod(0)
        if os.access(self.onto / "data" / "0", os.R_OK):
            self.skipTest("root reads everything")
        report = self.replay(code=1)
        self.assertGreater(report["failed_only_here"], 0)
        self.assertIn("data/0", report["failures"][0])

    def test_nothing_is_touched_outside_of_the_folder(self):
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        log = self.base / "strace"
        run("strace", "-f", "-y", "-o", log, "-e", "trace=%file", MILLRACE, "replay", self.trace, "--onto", self.onto,
            "--root", self.work)
        changing = ("O_CREAT", "O_WRONLY", "O_RDWR", "mkdir(", "unlink(", "rename(", "truncate(", "rmdir(", " link(")
        lines = [line for line in log.read_text(errors="replace").splitlines() if any(c in line for c in changing)]
        self.assertGreater(len(lines), 10)
        # Below an open directory of the folder; and the names of threads.
        allowed = re.compile(rf'at\(\d+<{self.onto}[/>]|mkdir\("{self.onto}"|"/dev/|"/proc/self/')
        others = [line for line in lines if not allowed.search(line)]
        self.assertEqual(others, [])
        self.assertNotIn(str(self.work), log.read_text(errors="replace").replace(f'"--root", "{self.work}"', ""))

    def test_ctrl_c_prints_what_was_done(self):
        slow = self.base / "slow"
        run(MILLRACE, "trace", "-o", slow, "--", "/usr/bin/python3", "-S", "-c",
            f"import os, time; os.stat('{self.work}/data/0'); time.sleep(1)\n"
            f"for n in range(8): os.stat(f'{self.work}/data/{{n}}')")
        with subprocess.Popen([MILLRACE, "replay", slow, "--onto", self.onto, "--root", self.work,
                               "--timing", "as-recorded"], stdout=subprocess.PIPE, text=True) as process:
            while not self.onto.exists() or len(os.listdir(self.onto)) == 0:
                time.sleep(0.01)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            out = process.communicate()[0]
        shutil.rmtree(slow)
        if process.returncode == 0:
            self.skipTest("the machine was too slow to interrupt the replay")
        self.assertEqual(process.returncode, 1)
        self.assertIn("interrupted", out)


if __name__ == "__main__":
    unittest.main()
