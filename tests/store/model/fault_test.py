#!/usr/bin/env python3
"""Calls that fail in the programs of a store, in its service and in its launcher: one call at a time, every one of them.

    fault_test.py                                    what ./test runs: some calls
    fault_test.py --all                              every call with every error
    fault_test.py --target client --call fsync --error EIO --at 3

strace lets the n-th call of a kind fail, for n = 1, 2, ... until no call fails any more. A program meanwhile writes
checkpoints with the usual steps. What calls reported as saved has to be there at the end, or it is kept on the node and
the command that ends the job names it. Nothing is damaged, and nothing hangs.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import operations
from places import MILLRACE, snapshot

DRIVER = os.environ.get("MILLRACE_MODEL_DRIVER", str(Path(os.environ.get("MILLRACE_BUILD", ".")) / "bin" / "store_model_driver"))
PATIENCE_S = 90  # strace is slow, and so is a busy machine
STRACE = shutil.which("strace")
TARGETS = ("client", "service", "run")
# System calls by what they do. Each is of one machine or another.
CALLS = {
    "open": "?open,openat", "write": "write,pwrite64", "fsync": "fsync,fdatasync", "rename": "?rename,?renameat,renameat2",
    "mkdir": "?mkdir,mkdirat", "mmap": "mmap", "link": "?link,linkat", "unlink": "?unlink,unlinkat", "lock": "flock",
    "size": "ftruncate,fallocate", "copy": "copy_file_range,sendfile", "stat": "?newfstatat,statx,fstat", "symlink": "?symlink,symlinkat",
    "socket": "socket,connect,sendmsg,recvmsg",
}
# The kernel never refuses this write: the counter of the event has room. Whoever waits for it would wait for ever.
NEVER_FAILS = "<anon_inode:[eventfd]>"
ERRORS = ("ENOSPC", "EIO", "EXDEV", "ESTALE", "EMFILE")
QUICK = (("client", "open", "EMFILE"), ("client", "write", "ENOSPC"), ("client", "fsync", "EIO"), ("client", "rename", "ESTALE"),
         ("client", "mkdir", "ENOSPC"), ("service", "write", "ENOSPC"), ("service", "fsync", "EIO"), ("service", "rename", "EXDEV"),
         ("run", "mkdir", "EIO"), ("run", "rename", "EXDEV"))
FLAGS = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
APPEND = os.O_CREAT | os.O_WRONLY | os.O_APPEND


def pattern(size: int, tag: int) -> bytes:
    """As in driver.c."""
    return bytes(ord("a") + (tag * 7 + i + i // 251) % 26 for i in range(size))


F_OF_A = operations.random.Random("a/f").randbytes(operations.FILES["a/f"][0])  # of the dataset
# (lines, name, content after them). A file is wanted if all of its lines succeeded.
STEPS = (
    ((f"mkdir @/ck {0o755}", f"open 0 @/ck/1.tmp {FLAGS} {0o644}", "write 0 9000 1", "write 0 9000 2", "fsync 0", "close 0",
      "rename @/ck/1.tmp @/ck/1"), "ck/1", pattern(9000, 1) + pattern(9000, 2)),
    ((f"open 0 @/ck/latest.tmp {FLAGS} {0o644}", "write 0 100 3", "fsync 0", "close 0", "rename @/ck/latest.tmp @/ck/latest"),
     "ck/latest", pattern(100, 3)),
    ((f"open 1 @/a/2.tmp {FLAGS} {0o600}", "write 1 4096 4", "fsync 1", "close 1", "rename @/a/2.tmp @/a/old"), "a/old", pattern(4096, 4)),
    ((f"open 2 @/log {APPEND} {0o644}", "write 2 7 5", "close 2"), "log", b"earlier" + pattern(7, 5)),
    ((f"open 0 @/ck/3.tmp {FLAGS} {0o644}", "ftruncate 0 5000", "write 0 5000 6", "fsync 0", "close 0", "link @/ck/3.tmp @/ck/3",
      "unlink @/ck/3.tmp"), "ck/3", pattern(5000, 6)),
    ((f"open 0 @/a/4 {FLAGS} {0o644}", "open 3 @/a/f 0 0", "copy_range 3 0 5000", "fsync 0", "close 0", "close 3"), "a/4",
     F_OF_A),
)
COUNTS = {"write": 2, "copy_range": 3}  # which word is the number of bytes that it answers
LOOKS = ("lstat @/ck/1", "open 3 @/a/f 0 0", "read 3 9000", "tree @/a")
BEFORE = {"a/old": b"old" * 500, "log": b"earlier", "kept": b"of an earlier job" * 900}


class Job:
    """A store and a program in it, of which one call fails."""

    def __init__(self, target: str, call: str, error: str, at: int, words: tuple = ()) -> None:
        self.target, self.call, self.at, self.words = target, call, at, words
        self.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/dev/shm"))
        for name in ("origin", "save/a", "local", "out"):
            (self.folder / name).mkdir(parents=True)
        operations.make_dataset(str(self.folder / "origin"))
        for name, content in BEFORE.items():
            (self.folder / "save" / name).write_bytes(content)
        self.log = self.folder / "strace"
        which = f"inject={CALLS[call]}:error={error}:when={at}"
        self.strace = [STRACE, "-f", "-qq", "-y", "-o", str(self.log), "-e", f"trace={CALLS[call]}", "-e", which, "--"]
        self.text = ""
        subprocess.run([MILLRACE, "store", "pack", self.folder / "origin", "-o", self.folder / "packs"], check=True, capture_output=True)
        self.dataset = snapshot(str(self.folder / "origin"))

    def arguments(self) -> list[str]:
        return ["--pack", str(self.folder / "packs"), "--at", str(self.folder / "root"), "--local", str(self.folder / "local"),
                "--save", str(self.folder / "save"), *self.words]

    def perform(self) -> list[str]:
        """The answers of the program, which may end early."""
        script = "".join(line + "\n" for lines, _, _ in STEPS for line in lines) + "\n".join(LOOKS) + "\n"
        program = [DRIVER, str(self.folder / "root"), str(self.folder / "out")]
        (self.folder / "script").write_text(script)
        if self.target == "service":
            return self.with_service(program)
        run = [MILLRACE, "store", "run", *self.arguments(), "--"]
        command = [*run, *self.strace, *program] if self.target == "client" else [*self.strace, *run, *program]
        return self.drive(command, dict(os.environ))

    def drive(self, command: list, environment: dict) -> list[str]:
        """Runs a program that reads operations one by one."""
        answers = []
        with open(self.folder / "errors", "w", encoding="utf-8") as errors:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment,
                                       start_new_session=True)
            alarm = Alarm(process)
            try:
                for line in (self.folder / "script").read_text().splitlines():
                    process.stdin.write(line + "\n")
                    process.stdin.flush()
                    answer = process.stdout.readline()
                    if not answer:
                        break
                    answers.append(answer.rstrip("\n"))
                process.stdin.close()
            except BrokenPipeError:
                pass
            self.code = alarm.wait()
            process.stdout.close()
        self.text += (self.folder / "errors").read_text()
        return answers

    def with_service(self, program: list[str]) -> list[str]:
        """The service of `up` is traced, and so it is strace that ends when the service does."""
        with open(self.folder / "up", "w", encoding="utf-8") as out:
            up = subprocess.Popen([*self.strace, MILLRACE, "store", "up", *self.arguments()], stdout=out, stderr=out,
                                  stdin=subprocess.DEVNULL, start_new_session=True)
        until = time.monotonic() + PATIENCE_S
        answers = []
        while "export LD_PRELOAD" not in (self.folder / "up").read_text() and up.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        exports = dict(line.removeprefix("export ").split("=", 1) for line in (self.folder / "up").read_text().splitlines()
                       if line.startswith("export "))
        if "LD_PRELOAD" in exports:
            environment = {**os.environ, **{name: value.strip("'") for name, value in exports.items()}}
            answers = self.drive(program, environment)
            down = subprocess.Popen([MILLRACE, "store", "down", "--node", environment["MILLRACE_STORE"]], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, start_new_session=True)
            alarm = Alarm(down)
            self.text += down.stdout.read()
            self.code = alarm.wait()
            down.stdout.close()
        else:
            self.code = 1
        Alarm(up).wait()
        self.text += (self.folder / "up").read_text()
        return answers

    def injected(self) -> str:
        """The line of the call that failed; empty if none did."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return next((line for line in text.splitlines() if "(INJECTED)" in line), "")

    def check(self, answers: list[str]) -> list[str]:
        """What is wrong."""
        wrong = []
        saved = snapshot(str(self.folder / "save"))
        place = 0
        for lines, name, content in STEPS:
            mine = answers[place:place + len(lines)]
            place += len(lines)
            good = len(mine) == len(lines) and not any(answer.startswith("E") for answer in mine[1 if lines[0].startswith("mkdir") else 0:])
            good = good and all(answer == line.split()[COUNTS[line.split()[0]]] for line, answer in zip(lines, mine)
                                if line.split()[0] in COUNTS)
            found = saved[name][4] if name in saved else None
            # The program goes on after an error: what was written is saved.
            written = b"".join(pattern(*map(int, line.split()[2:])) for line, answer in zip(lines, mine)
                               if line.startswith("write") and answer == line.split()[2])
            right = [content] if good else [content, BEFORE.get(name), written]
            if name == "log" and not good:
                right.append(BEFORE["log"])
            if name == "ck/3" and not good:
                right.append(bytes(5000))  # made longer, but not written
            if found in right or good and self.is_kept(name, content):
                continue
            wrong.append(f"{name}: the program saved {mine}; saved is {found[:40] if found is not None else None!r}, "
                         f"{len(found or b'')} B")
        if saved.get("kept", [None] * 5)[4] != BEFORE["kept"]:
            wrong.append("the file of an earlier job has changed")
        if snapshot(str(self.folder / "origin")) != self.dataset:
            wrong.append("the dataset has changed")
        extra = {name for name in saved if name not in {"ck", "a", "kept", "ck/1.tmp", "ck/latest.tmp", "a/2.tmp", "ck/3.tmp", *BEFORE,
                                                        *(step[1] for step in STEPS)}}
        if extra:
            wrong.append(f"left in the upper directory: {sorted(extra)}")
        wrong += self.check_reads(answers[place:])
        # A program that cannot write its answers ends without a word, and so does the dynamic loader, before main().
        has_message = any(words in self.text for words in ("millrace", "out of memory", "error while loading shared libraries",
                                                           "cannot allocate TLS data structures"))
        # The loader's first one is for its list of libraries; without it, it ends without a word.
        has_message = has_message or self.call == "mmap" and self.at == 1
        if self.code != 0 and not has_message and not answers and self.target != "client":
            wrong.append(f"exit code {self.code} without a message: {self.text!r}")
        return wrong

    def check_reads(self, answers: list[str]) -> list[str]:
        """Bytes of the dataset are right, or reading fails."""
        for line, answer in zip(LOOKS, answers):
            if line.startswith("read") and not answer.startswith("E") and not answer.startswith(f"{len(F_OF_A)}:"):
                return [f"a/f: {answer}"]
        return []

    def is_kept(self, name: str, content: bytes) -> bool:
        """On the node, and named."""
        kept = any(path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content
                   for path in (self.folder / "local").rglob("*"))
        return kept and name in self.text and self.code != 0

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Hang(Exception):
    """A process did not end."""


class Alarm:
    """Waits for a process and the group that it leads."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process = process

    def wait(self) -> int:
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise Hang(f"{self.process.args} did not end in {PATIENCE_S} s") from error


def perform(target: str, call: str, error: str, at: int, words: tuple) -> tuple[bool, list[str]]:
    """(a call failed, what is wrong)."""
    job = Job(target, call, error, at, words)
    try:
        try:
            answers = job.perform()
        except Hang as hang:
            return True, [] if NEVER_FAILS in job.injected() else [str(hang), job.injected()]
        wrong = job.check(answers)
        if wrong:
            wrong.append(f"exit code {job.code}, output: {job.text}")
        return bool(job.injected()), wrong
    finally:
        job.close()


def explore(target: str, call: str, error: str, words: tuple = (), first: int = 1, last: int = 1 << 30,
            is_test: bool = False) -> list[str]:
    """All calls of one kind. Returns what is wrong."""
    wrong = []
    at = first
    while at <= last:
        failed, found = perform(target, call, error, at, words)
        if found:
            replay = f"fault_test.py --target {target} --call {call} --error {error} --at {at} {' '.join(f'--option={w}' for w in words)}"
            wrong.append("\n  ".join([replay, *found]))
        if not failed:
            break
        at += 1
    if at == 1 and is_test:
        wrong.append(f"{target} {call} {error}: no call failed, so nothing was tested; can strace trace here?")
    print(f"{target} {call} {error}: {at - first} calls failed, {len(wrong)} of them with a loss", flush=True)
    return wrong


class FaultTest(unittest.TestCase):
    def test_a_failed_call_loses_nothing(self):
        for target, call, error in QUICK:
            with self.subTest(target=target, call=call, error=error):
                self.assertEqual(explore(target, call, error, last=8, is_test=True), [])

    def test_a_failed_call_loses_nothing_in_a_buffer(self):
        for target, call, error in QUICK:
            with self.subTest(target=target, call=call, error=error):
                self.assertEqual(explore(target, call, error, ("--buffer=ck/*", "--buffer=a/*"), last=8, is_test=True), [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--call", choices=CALLS)
    parser.add_argument("--error", choices=ERRORS)
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--option", action="append", default=[], help="one more word for the store: --option=--buffer=ck/*")
    arguments = parser.parse_args()
    wrong: list[str] = []
    for target in TARGETS if not arguments.target else (arguments.target,):
        for call in CALLS if not arguments.call else (arguments.call,):
            for error in ERRORS if not arguments.error else (arguments.error,):
                found = explore(target, call, error, tuple(arguments.option), arguments.at or 1, arguments.at or 1 << 30)
                print("\n".join(found), end="\n" if found else "", flush=True)
                wrong += found
    return bool(wrong)


if __name__ == "__main__":
    if STRACE is None:
        print("skipped: strace is missing")
        sys.exit(77)
    if len(sys.argv) > 1:
        sys.exit(main())
    unittest.main()
