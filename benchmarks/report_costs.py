#!/usr/bin/env python3
"""What it costs to summarise a trace: `millrace report` compared with Python's gzip and json and, optionally, DFTracer.

    benchmarks/report_costs.py                              # from the root, after cmake --workflow --preset bench
    benchmarks/report_costs.py --events 100M --peer-events 4M --dftracer VENV
    benchmarks/report_costs.py --trace DIR --ranks 0        # an existing trace; the others get rank 0 of it

Prints seconds per million events (wall, CPU) and the peak memory of each, the minimum of the rounds.
bench_trace_generate makes the trace. The others read .pfw.gz, and get a smaller trace of the same job. VENV is an
environment made by benchmarks/peers.sh. An index is removed before it is measured again."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

# A short script: count, time and bytes by function.
PYTHON_LOOP = """
import gzip, json, sys
totals = {}
with gzip.open(sys.argv[1], "rt") as lines:
    for line in lines:
        line = line.strip().rstrip(",")
        if not line.startswith("{"): continue
        event = json.loads(line)
        if "dur" not in event: continue
        total = totals.setdefault(event["name"], [0, 0, 0])
        total[0] += 1
        total[1] += event["dur"]
        total[2] += event.get("args", {}).get("ret", 0)
print(sum(total[0] for total in totals.values()))
"""


class Cost:
    """The minimum of several runs."""

    def __init__(self):
        self.wall_s = self.cpu_s = self.peak_bytes = float("inf")

    def take(self, wall_s, usage):
        self.wall_s = min(self.wall_s, wall_s)
        self.cpu_s = min(self.cpu_s, usage.ru_utime + usage.ru_stime)
        self.peak_bytes = min(self.peak_bytes, usage.ru_maxrss * 1024)


def run(command, output=subprocess.DEVNULL):
    """Wall seconds, and the resource usage of this child and its children."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit("%s: exit code %d: %s" % (" ".join(command), child.returncode, said.strip()[-500:]))
    return wall_s, usage


def event_count(millrace, trace):
    told = subprocess.run([millrace, "info", "--json", trace], check=True, stdout=subprocess.PIPE, text=True).stdout
    return int(json.loads(told)["events"])


def has_verb(millrace, verb):
    return subprocess.run([millrace, verb, "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


class Bench:
    def __init__(self, arguments, scratch):
        self.arguments = arguments
        self.scratch = scratch
        self.programs = os.path.join(os.path.abspath(arguments.build), "bin")
        self.millrace = os.path.join(self.programs, "millrace")
        self.rows = []  # name, events, command, what to do before

    def generate(self, name, events):
        path = os.path.join(self.scratch, name)
        run([os.path.join(self.programs, "bench_trace_generate"), "--events", events, "--shape",
             self.arguments.shape, path])
        return path

    def prepare(self):
        """The trace, and the part of it that the others get."""
        pfw = os.path.join(self.scratch, "pfw")
        os.mkdir(pfw)
        self.pfw = os.path.join(pfw, "trace.pfw.gz")
        export = [self.millrace, "export", "--to", "pfw", "-o", self.pfw]
        if self.arguments.trace:
            self.trace = self.arguments.trace
            run([*export, "--ranks", self.arguments.ranks, self.trace])
        else:
            self.trace = self.generate("trace", self.arguments.events)
            run([*export, self.generate("small", self.arguments.peer_events)])
        self.events = event_count(self.millrace, self.trace)
        counted = subprocess.run([sys.executable, "-c", PYTHON_LOOP, self.pfw], check=True, stdout=subprocess.PIPE)
        self.peer_events = int(counted.stdout)
        if self.peer_events == 0:
            sys.exit("%s: nothing was exported; choose other --ranks" % self.trace)

    def drop_index(self):
        folder = os.path.dirname(self.pfw)
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if path == self.pfw:
                continue
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.remove(path)

    def ways(self):
        """(name, events, command, before) of everything that is installed."""
        if has_verb(self.millrace, "report"):
            yield "millrace report --json", self.events, [self.millrace, "report", "--json", self.trace], None
            yield ("millrace report --json, .pfw.gz", self.peer_events,
                   [self.millrace, "report", "--json", self.pfw], None)
        else:
            print("millrace report: not in this build; skipped", file=sys.stderr)
        yield "millrace info --json", self.events, [self.millrace, "info", "--json", self.trace], None
        yield "Python's gzip and json", self.peer_events, [sys.executable, "-c", PYTHON_LOOP, self.pfw], None
        if not self.arguments.dftracer:
            return
        tools = os.path.join(self.arguments.dftracer, "bin")
        if not os.path.exists(os.path.join(tools, "dftracer_index")):
            sys.exit("%s: there is no DFTracer in it; benchmarks/peers.sh makes one" % self.arguments.dftracer)
        folder = os.path.dirname(self.pfw)
        yield ("dftracer_index", self.peer_events, [os.path.join(tools, "dftracer_index"), "-d", folder],
               self.drop_index)
        yield ("dftracer_view, one group-by", self.peer_events,
               [os.path.join(tools, "dftracer_view"), "-d", folder, "--group-by", "name", "--agg",
                "count,sum:dur,mean:dur,p50:dur,p99:dur"], None)
        yield ("dftracer_stats, by name", self.peer_events,
               [os.path.join(tools, "dftracer_stats"), "-d", folder, "--report", "detailed", "--group-by", "name"], None)

    def measure(self):
        ways = list(self.ways())
        costs = {name: Cost() for name, *_ in ways}
        for _ in range(self.arguments.rounds):
            for name, _, command, before in ways:
                if before:
                    before()
                costs[name].take(*run(command))
        print("%-34s %12s %12s %12s %10s" % ("", "events", "wall s/M", "CPU s/M", "peak MiB"))
        for name, events, _, _ in ways:
            cost = costs[name]
            millions = events / 1e6
            print("%-34s %12s %12.3f %12.3f %10.0f" % (name, format(events, ","), cost.wall_s / millions,
                                                       cost.cpu_s / millions, cost.peak_bytes / 2**20))


def amount(text):
    if not re.fullmatch(r"[0-9]+[kMG]?", text):
        raise argparse.ArgumentTypeError("'%s' is no number such as 1000 or 100M" % text)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="build tree with the benchmarks")
    parser.add_argument("--events", type=amount, default="10M", help="size of the generated trace")
    parser.add_argument("--peer-events", type=amount, default="1M", help="size of the trace that the others read")
    parser.add_argument("--shape", choices=("small", "records"), default="small")
    parser.add_argument("--trace", help="use this trace instead of generating one")
    parser.add_argument("--ranks", default="0", help="with --trace: the ranks that the others get")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dftracer", metavar="VENV")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(arguments, scratch)
        bench.prepare()
        bench.measure()


if __name__ == "__main__":
    main()
