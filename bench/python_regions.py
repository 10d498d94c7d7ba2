#!/usr/bin/env python3
"""What a region costs a Python program: a decorated call and a `with`, compared with the same code without them.

    bench/python_regions.py --build build/release [--dftracer PYTHON]

Every variant runs in the same process as its floor, round after round, and the minimum of the
rounds counts: the speed of a machine drifts more than a region costs. Traced and untraced are two
processes. With --dftracer, it also measures DFTracer in the environment of the given Python.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CALLS = 100_000
ROUNDS = 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=Path("build/release"),
                        help="a build with the part python and the preload library")
    parser.add_argument("--python", default=sys.executable, help="the Python it was built for")
    parser.add_argument("--dftracer", metavar="PYTHON", help="the Python of DFTracer's environment")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(CHILDREN[arguments.child]())))
        return 0
    results = {"untraced": run_millrace(arguments, traced=False),
               "traced": run_millrace(arguments, traced=True)}
    if arguments.dftracer:
        results["dftracer"] = run_dftracer(arguments.dftracer)
    print(json.dumps(results, indent=1) if arguments.json else table(results))
    return 0


# ---- the measured process -------------------------------------------------------------------------

def measure(variants: dict) -> dict:
    """Nanoseconds per call of each variant, minus its floor."""
    best = {name: float("inf") for name in variants}
    for _ in range(ROUNDS):
        for name, (run, _) in variants.items():
            best[name] = min(best[name], run())
    return {name: best[name] - best[floor] for name, (_, floor) in variants.items() if floor}


def timed_calls(function):
    def run() -> float:
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            function(1)
        return (time.perf_counter_ns() - begin) / CALLS

    return run


def timed_blocks(manager):
    def run() -> float:
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            with manager:
                pass
        return (time.perf_counter_ns() - begin) / CALLS

    return run


def timed_made_blocks(make):
    def run() -> float:
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            with make("fetch"):
                pass
        return (time.perf_counter_ns() - begin) / CALLS

    return run


def timed_tagged_blocks(make):
    def run() -> float:
        begin = time.perf_counter_ns()
        for step in range(CALLS):
            with make("fetch", epoch=1, step=step, file="a"):
                pass
        return (time.perf_counter_ns() - begin) / CALLS

    return run


def timed_items(make):
    items = [None] * CALLS

    def run() -> float:
        iterable = make(items)
        begin = time.perf_counter_ns()
        for _ in iterable:
            pass
        return (time.perf_counter_ns() - begin) / CALLS

    return run


class Empty:
    """The minimum cost of `with` in Python."""

    def __init__(self, *_, **__) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        return None


def plain(value):
    return value


def loop() -> float:
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        pass
    return (time.perf_counter_ns() - begin) / CALLS


def millrace_variants() -> dict:
    from millrace import trace

    def function(value):
        return value

    return {
        "call": (timed_calls(plain), None),
        "decorated call": (timed_calls(trace.region(function)), "call"),
        "loop": (loop, None),
        "empty with, a Python class": (timed_blocks(Empty()), "loop"),
        "with, kept region": (timed_blocks(trace.region("fetch")), "loop"),
        "with, region made each time": (timed_made_blocks(trace.region), "loop"),
        "with, made with epoch, step and a text": (timed_tagged_blocks(trace.region), "loop"),
        "items": (timed_items(iter), None),
        "item of iterate": (timed_items(trace.iterate), "items"),
    }


def dftracer_variants() -> dict:
    from dftracer.python import dft_fn, dftracer
    dftracer.initialize_log(None, None, -1)
    marker = dft_fn("bench")

    def function(value):
        return value

    return {
        "call": (timed_calls(plain), None),
        "decorated call": (timed_calls(marker.log(function)), "call"),
        "loop": (loop, None),
        "with, region made each time": (
            timed_made_blocks(lambda name: dft_fn(cat="bench", name=name)), "loop"),
    }


CHILDREN = {"millrace": millrace_variants, "dftracer": dftracer_variants}


# ---- running it -----------------------------------------------------------------------------------

def run_millrace(arguments, traced: bool) -> dict:
    environment = os.environ | {"PYTHONPATH": str((arguments.build / "python").resolve())}
    with tempfile.TemporaryDirectory(dir=arguments.build) as folder:
        if traced:
            library = (arguments.build / "lib" / "libmillrace_trace.so").resolve(strict=True)
            environment |= {"LD_PRELOAD": str(library), "MILLRACE_TRACE_DIR": folder}
        return run_child(arguments.python, "millrace", environment)


def run_dftracer(python: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "DFTRACER_ENABLE": "1", "DFTRACER_INIT": "FUNCTION", "DFTRACER_INC_METADATA": "1",
            "DFTRACER_LOG_FILE": f"{folder}/trace", "DFTRACER_DATA_DIR": "all"}
        return run_child(python, "dftracer", environment)


def run_child(python: str, child: str, environment: dict) -> dict:
    done = subprocess.run([python, __file__, "--child", child], env=environment, check=True,
                          capture_output=True, text=True)
    return json.loads(done.stdout.strip().split("\n")[-1])


def table(results: dict) -> str:
    rows = list(dict.fromkeys(name for result in results.values() for name in result))
    lines = [f"{'ns above the floor':<40}" + "".join(f"{name:>12}" for name in results)]
    for row in rows:
        lines.append(f"{row:<40}" + "".join(
            f"{result[row]:>12.1f}" if row in result else f"{'':>12}"
            for result in results.values()))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
