"""Runs tests/trace/coverage.c under the recorder: each call that was made ten times is recorded exactly
ten times, with its file, offset, size and result.

Usage: coverage_test.py COVERAGE_PROGRAM LIBRARY"""

import collections
import os
import shutil
import subprocess
import sys
import tempfile

import recording

GROUPS = ("open openat relative read pread write append from to splice map sync stat attributes name xattr aio "
          "stream dprintf").split()


def make_files(directory):
    for group in GROUPS:
        with open(os.path.join(directory, group), "wb") as file:
            file.write(b"0123456789abcdef" * 256)
    with open(os.path.join(directory, "lines"), "wb") as file:
        for number in range(1000):
            file.write(b"%07d\n" % number)
    with open(os.path.join(directory, "large"), "wb") as file:
        file.truncate(5 << 30)  # a size of more than 32 bits; nothing is allocated
    os.mkdir(os.path.join(directory, "sub"))
    open(os.path.join(directory, "sub", "file"), "w").close()
    shutil.copy(shutil.which("true"), os.path.join(directory, "program"))


def main():
    program, library = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = os.path.realpath(scratch)
        directory = os.path.join(scratch, "files")
        os.mkdir(directory)
        make_files(directory)
        trace = os.path.join(scratch, "trace")
        environment = dict(os.environ, LD_PRELOAD=library, MILLRACE_TRACE_DIR=trace)
        run = subprocess.run([program, directory], env=environment, stdout=subprocess.PIPE, text=True)
        assert run.returncode == 0, run.returncode
        problems = compare(run.stdout, recording.events(trace))
    for problem in problems[:50]:
        print(problem)
    if problems:
        sys.exit("%d problems" % len(problems))


def compare(expectations, events):
    wanted = collections.defaultdict(list)
    for line in expectations.splitlines():
        call, file, offset, size, result = line.split("\t")
        wanted[call, file].append(tuple(None if x == "-" else int(x) for x in (offset, size, result)))
    found = collections.defaultdict(list)
    for event in events:
        found[event.call, event.file].append(
            (-1 if event.offset is None else event.offset, event.size, event.result))
    problems = []
    if len(wanted) < 100:
        problems.append("only %d kinds of calls were made" % len(wanted))
    for key, expected in wanted.items():
        left = list(found[key])
        for each in expected:
            match = next((e for e in left if all(w is None or w == g for w, g in zip(each, e))), None)
            if match is None:
                problems.append("%s of %s: %s was not recorded; left: %s" % (*key, each, left[:3]))
            else:
                left.remove(match)
        if left:
            problems.append("%s of %s: %d more were recorded than made: %s" % (*key, len(left), left[:3]))
    print("%d kinds of calls, %d events" % (len(wanted), sum(map(len, wanted.values()))))
    return problems


main()
