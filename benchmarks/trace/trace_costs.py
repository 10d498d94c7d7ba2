#!/usr/bin/env python3
"""What tracing costs a program: Millrace compared with the untraced run and, optionally, with DFTracer.

    benchmarks/trace/trace_costs.py                       # from the root, after cmake --workflow --preset bench
    benchmarks/trace/trace_costs.py --build build/release --dftracer VENV --rounds 7

Runs are interleaved, and the minimum of the rounds counts. CPU time is that of the program; `with packing` adds that of
the launcher. VENV is an environment made by benchmarks/peers.sh."""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

EVENTS = 1_000_000
FILES = 1000
OPENS = 100_000
FORKS, FORK_EVENTS = 200, 300
KILLED_AFTER = 700_000

FORKING = """
import os, sys
path, forks, events = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
fd = os.open(path, os.O_RDONLY)
for i in range(forks):
    child = os.fork()
    if child == 0:
        for k in range(events): os.pread(fd, 512, 0)
        os._exit(0)
    os.waitpid(child, 0)
"""

KILLED = """
import os, signal, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for k in range(int(sys.argv[2])): os.pread(fd, 512, 0)
os.kill(os.getpid(), signal.SIGKILL)
"""


class Bench:
    def __init__(self, arguments, scratch):
        self.build = os.path.abspath(arguments.build)
        self.scratch = scratch
        self.rounds = arguments.rounds
        self.library = os.path.join(self.build, "lib", "libmillrace_trace.so")
        self.millrace = os.path.join(self.build, "bin", "millrace")
        self.load = os.path.join(self.build, "bin", "bench_trace_load")
        self.dftracer = arguments.dftracer
        self.data = os.path.join(scratch, "data")
        self.traces = 0
        self.trace = None

    def prepare(self):
        with open(self.data, "wb") as file:
            for _ in range(1024):
                file.write(os.urandom(1 << 20))
        for number in range(FILES):
            with open("%s.%d" % (self.data, number), "wb") as file:
                file.write(os.urandom(4096))
        with open(self.data, "rb") as file:
            while file.read(1 << 24):
                pass

    # -- the ways to run -------------------------------------------------------------------------

    def trace_directory(self):
        """A new directory each time. Nothing is deleted between runs: ext4 makes files more slowly for a minute after that."""
        self.traces += 1
        self.trace = os.path.join(self.scratch, "trace%d" % self.traces)
        return self.trace

    def plain(self, command):
        return command, None

    def recorded(self, command):
        return command, {"LD_PRELOAD": self.library, "MILLRACE_TRACE_DIR": self.trace_directory()}

    def launched(self, command):
        return [self.millrace, "trace", "-o", self.trace_directory(), "--", *command], None

    def by_dftracer(self, command, metadata=True):
        library = self.find_dftracer()
        prefix = os.path.join(self.trace_directory(), "t")
        os.makedirs(os.path.dirname(prefix))
        return command, {"DFTRACER_ENABLE": "1", "DFTRACER_INIT": "PRELOAD", "DFTRACER_LOG_FILE": prefix,
                         "DFTRACER_DATA_DIR": "all", "DFTRACER_INC_METADATA": "1" if metadata else "0",
                         "LD_PRELOAD": library}

    def by_dftracer_without_metadata(self, command):
        return self.by_dftracer(command, metadata=False)

    def find_dftracer(self):
        for folder, _, files in os.walk(self.dftracer):
            if "libdftracer_preload.so" in files:
                return os.path.join(folder, "libdftracer_preload.so")
        sys.exit("%s: there is no DFTracer in it; benchmarks/peers.sh makes one" % self.dftracer)

    # -- measuring -------------------------------------------------------------------------------

    def measure(self, ways, command, figure):
        """The minimum of the rounds for each way, as {way: seconds}."""
        best = {}
        for _ in range(self.rounds):
            for name, way in ways.items():
                value = figure(*way(command))
                best[name] = min(value, best.get(name, value))
        return best

    @staticmethod
    def own_cpu(command, environment):
        """The CPU time that the program reports, in seconds."""
        run = subprocess.run(command, env=dict(os.environ, **(environment or {})), check=True,
                             stdout=subprocess.PIPE, text=True)
        return int(run.stdout.split()[-1]) / 1e9

    @staticmethod
    def tree_cpu(command, environment):
        """CPU time of the command with all its children, in seconds."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=dict(os.environ, **(environment or {})), check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    @staticmethod
    def wall(command, environment):
        begin = time.perf_counter()
        subprocess.run(command, env=dict(os.environ, **(environment or {})), check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin

    # -- the table -------------------------------------------------------------------------------

    def preads(self, threads):
        command = [self.load, "preads", self.data, str(EVENTS), str(threads)]
        ways = {"plain": self.plain, "millrace": self.recorded}
        if self.dftracer:
            ways["dftracer, no metadata"] = self.by_dftracer_without_metadata
            ways["dftracer"] = self.by_dftracer
        best = self.measure(ways, command, self.own_cpu)
        floor = best.pop("plain")
        print("1 M preads of 4 KiB, %d thread%s: %.0f ns each untraced" % (
            threads, "s" if threads > 1 else "", floor / EVENTS * 1e9))
        for name, value in best.items():
            print("  %-24s + %.0f ns per event" % (name, (value - floor) / EVENTS * 1e9))

    def packing(self):
        command = [self.load, "preads", self.data, str(EVENTS), "1"]
        best = self.measure({"plain": self.plain, "millrace trace": self.launched}, command, self.tree_cpu)
        print("the same with packing, 1 thread, CPU of all processes")
        print("  %-24s + %.0f ns per event" % ("millrace trace",
                                             (best["millrace trace"] - best["plain"]) / EVENTS * 1e9))
        size = sum(os.path.getsize(os.path.join(self.trace, name)) for name in os.listdir(self.trace))
        print("  %-24s %.2f bytes per event at 1 ns" % ("trace size", size / EVENTS))

    def ratio(self, title, command, figure, ways):
        best = self.measure(ways, command, figure)
        floor = best.pop("plain")
        print("%s: %.3f s untraced" % (title, floor))
        for name, value in best.items():
            print("  %-24s ratio %.2f" % (name, value / floor))

    def files(self):
        ways = {"plain": self.plain, "millrace": self.recorded}
        if self.dftracer:
            ways["dftracer"] = self.by_dftracer
        self.ratio("100k open/read/close over 1,000 files, CPU",
                   [self.load, "files", self.data, str(OPENS), str(FILES)], self.own_cpu, ways)

    def forks(self):
        ways = {"plain": self.plain, "millrace": self.recorded, "millrace trace": self.launched}
        if self.dftracer:
            ways["dftracer"] = self.by_dftracer
        self.ratio("200 Python forks of 300 events, wall",
                   [sys.executable, "-c", FORKING, self.data, str(FORKS), str(FORK_EVENTS)], self.wall, ways)

    def killed(self):
        command = [sys.executable, "-c", KILLED, self.data, str(KILLED_AFTER)]
        run, environment = self.launched(command)
        status = subprocess.run(run, env=dict(os.environ, **(environment or {})), check=False).returncode
        assert status == -signal.SIGKILL, status
        info = subprocess.run([self.millrace, "info", "--json", self.trace], check=True,
                              stdout=subprocess.PIPE)
        kept = sum(call["events"] for call in json.loads(info.stdout)["calls"] if call["call"] == "pread")
        print("events kept of 700,000 at SIGKILL\n  %-24s %d" % ("millrace", kept))
        if self.dftracer:
            run, environment = self.by_dftracer(command)
            subprocess.run(run, env=dict(os.environ, **environment), check=False)
            print("  %-24s %d" % ("dftracer", self.count_dftracer()))

    def count_dftracer(self):
        count = 0
        for name in os.listdir(self.trace):
            path = os.path.join(self.trace, name)
            reader = ["zcat", path] if name.endswith(".gz") else ["cat", path]
            text = subprocess.run(reader, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
            count += text.count(b'"name":"pread')
        return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="the build to measure (build/release)")
    parser.add_argument("--dftracer", metavar="VENV", help="an environment with DFTracer, to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("preads", "packing", "files", "forks", "killed"), action="append")
    arguments = parser.parse_args()
    parts = {"preads": lambda b: (b.preads(1), b.preads(4)), "packing": Bench.packing, "files": Bench.files,
             "forks": Bench.forks, "killed": Bench.killed}
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(arguments, scratch)
        bench.prepare()
        for name, part in parts.items():
            if not arguments.only or name in arguments.only:
                part(bench)
                sys.stdout.flush()


main()
