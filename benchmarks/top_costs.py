#!/usr/bin/env python3
"""What `millrace top` costs, and what it costs the job that it watches.

    benchmarks/top_costs.py --build build/release --rounds 7        # after cmake --workflow --preset bench

A program that only reads blocks from the page cache runs under `millrace trace`, alternately alone and watched by top;
the minimum of the rounds counts. This is the worst case: about a million events per second, while a training job has
thousands."""

import argparse
import os
import resource
import subprocess
import tempfile
import time

EVENTS = 1_000_000
PACED = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
begin = time.monotonic()
for i in range(int(sys.argv[2])):
    os.pread(fd, 4096, 0)
    if i % 100 == 0: time.sleep(max(0, begin + i / 10000 - time.monotonic()))
"""


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Bench:
    def __init__(self, build, scratch):
        self.millrace = os.path.join(build, "bin/millrace")
        self.load = os.path.join(build, "bin/bench_trace_load")
        self.scratch = scratch
        self.file = os.path.join(scratch, "data")
        with open(self.file, "wb") as file:
            file.write(os.urandom(1 << 24))
        self.count = 0

    def run(self, command, interval):
        """CPU seconds reported by the program, wall seconds, CPU share of top."""
        self.count += 1
        trace = os.path.join(self.scratch, "t%d" % self.count)
        top = None
        if interval:
            top = subprocess.Popen([self.millrace, "top", "--interval", interval, trace], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
            time.sleep(0.2)
        begin = time.monotonic()
        job = subprocess.run([self.millrace, "trace", "-o", trace, "--", *command], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, check=True)
        wall = time.monotonic() - begin
        share = 0.0
        if top:
            before = children_cpu()
            top.wait()
            share = (children_cpu() - before) / wall
        subprocess.run(["rm", "-r", trace], check=True)
        return float(job.stdout or 0) / 1e9, wall, share


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(os.path.abspath(arguments.build), scratch)
        load = [bench.load, "preads", bench.file, str(EVENTS), "1"]
        intervals = (None, "1s", "100ms")
        runs = {interval: [] for interval in intervals}
        for _ in range(arguments.rounds):
            for interval in intervals:
                runs[interval].append(bench.run(load, interval))
        alone = min(run[0] for run in runs[None])
        print("%d preads: CPU %.3f s alone, wall %.2f s" % (EVENTS, alone, min(run[1] for run in runs[None])))
        for interval in intervals[1:]:
            cpu = min(run[0] for run in runs[interval])
            print("  top every %s: CPU %.3f s (%.3f of alone), wall %.2f s; top takes %.1f ns per event" % (
                interval, cpu, cpu / alone, min(run[1] for run in runs[interval]),
                min(run[2] * run[1] for run in runs[interval]) * 1e9 / EVENTS))
        paced = ["python3", "-c", PACED, bench.file, "50000"]
        share = min(bench.run(paced, "1s")[2] for _ in range(2))
        print("10,000 preads per second: top every 1 s takes %.2f %% of a core" % (100 * share))


if __name__ == "__main__":
    main()
