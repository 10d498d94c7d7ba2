#!/usr/bin/env python3
"""What a region costs a Python program: a decorated call and a `with`, compared with the same code without them. What it
costs that calls of libraries which decode, decompress and parse are marked.

    benchmarks/python_regions.py --build build/release [--dftracer PYTHON]

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
        print(json.dumps(CHILDREN[arguments.child]()))
        return 0
    results = {"untraced": run_millrace(arguments, "millrace", traced=False),
               "traced": run_millrace(arguments, "millrace", traced=True)}
    if arguments.dftracer:
        results["dftracer"] = run_dftracer(arguments.dftracer)
    marks = run_millrace(arguments, "marks", traced=True)
    print(json.dumps(results | {"marks": marks}, indent=1) if arguments.json else
          f"{table(results)}\n\n{table_of_marks(marks)}")
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


# ---- marked calls of libraries --------------------------------------------------------------------

def marked_calls() -> dict:
    """What is called, with the owner and the name of the function that is marked, and how often in a round."""
    import gzip
    import io
    import zlib

    text = json.dumps({"label": 3, "path": "images/000123.jpg"})
    packed = zlib.compress(bytes(range(256)) * 4)
    file = gzip.compress(bytes(range(256)) * 256)
    calls = {
        "json.loads of 44 bytes": (json, "loads", 20_000, lambda: json.loads(text)),
        "zlib.decompress of 1 KiB": (zlib, "decompress", 10_000, lambda: zlib.decompress(packed)),
        "gzip file of 64 KiB": (
            gzip._GzipReader, "read", 500, lambda: gzip.GzipFile(fileobj=io.BytesIO(file)).read()),
    }
    try:
        import PIL.Image
        import PIL.ImageFile
    except ImportError:
        return calls
    image = io.BytesIO()
    PIL.Image.new("RGB", (64, 64), (90, 120, 30)).save(image, "JPEG")
    calls["PIL: a JPEG of 64x64, convert and resize"] = (
        PIL.ImageFile.ImageFile, "load", 300,
        lambda: PIL.Image.open(image).convert("L").resize((32, 32)))
    return calls


def measure_marks() -> dict:
    """Nanoseconds of each call: without the mark, and with it where nothing is loaded, in a loader without workers, and
    in a worker."""
    from types import SimpleNamespace

    from millrace.trace import _codecs

    calls = marked_calls()
    worker = sys.modules["torch.utils.data._utils.worker"] = SimpleNamespace()
    _codecs.patch_loaded()
    costs = {}
    for title, (owner, name, count, call) in calls.items():
        marked = vars(owner)[name]
        states = {"unmarked": (marked.__wrapped__, False, None), "not loading": (marked, False, None),
                  "loading": (marked, True, None), "in a worker": (marked, False, "info")}
        best = {state: float("inf") for state in states}
        for _ in range(ROUNDS):
            for state, (function, is_fetching, info) in states.items():
                setattr(owner, name, function)
                _codecs.thread.is_fetching = is_fetching
                worker._worker_info = info
                begin = time.perf_counter_ns()
                for _ in range(count):
                    call()
                best[state] = min(best[state], (time.perf_counter_ns() - begin) / count)
        costs[title] = best
    return costs


def table_of_marks(marks: dict) -> str:
    states = ("not loading", "loading", "in a worker")
    lines = [f"{'ns of a call':<44}{'unmarked':>12}" + "".join(f"{state:>12}" for state in states)]
    for title, best in marks.items():
        lines.append(f"{title:<44}{best['unmarked']:>12.0f}" + "".join(
            f"{best[state] - best['unmarked']:>+12.0f}" for state in states))
    return "\n".join(lines)


CHILDREN = {"millrace": lambda: measure(millrace_variants()), "dftracer": lambda: measure(dftracer_variants()),
            "marks": measure_marks}


# ---- running it -----------------------------------------------------------------------------------

def run_millrace(arguments, child: str, traced: bool) -> dict:
    environment = os.environ | {"PYTHONPATH": str((arguments.build / "python").resolve())}
    with tempfile.TemporaryDirectory(dir=arguments.build) as folder:
        if traced:
            library = (arguments.build / "lib" / "libmillrace_trace.so").resolve(strict=True)
            environment |= {"LD_PRELOAD": str(library), "MILLRACE_TRACE_DIR": folder}
        return run_child(arguments.python, child, environment)


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
