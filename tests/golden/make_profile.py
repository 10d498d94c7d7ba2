#!/usr/bin/env python3
"""Prints a saved profile in the format of docs/formats/report.md, with changes given on the command line.

make_profile.py > profile.json                                 the golden file
make_profile.py job.wall_ns=28e9 functions.1.name=pread        the same with another wall time and another call

Uses only the format page, so that a bug in both our writer and our reader is detected.
"""
import json
import sys

SECOND = 10**9


def distribution(count, median, p99):
    return {"count": count, "sum": count * median, "min": median // 2, "p25": median, "mean": float(median),
            "median": median, "p75": median, "p95": p99, "p99": p99, "max": p99}


def split(name):
    return {"name": name, "wall_ns": 20 * SECOND, "compute_ns": 15 * SECOND, "io_ns": 8 * SECOND, "wait_ns": 3 * SECOND,
            "io_overlapped_ns": 5 * SECOND, "io_exposed_ns": 3 * SECOND, "compute_exposed_ns": 10 * SECOND,
            "idle_ns": 2 * SECOND, "step_ns": 19 * SECOND, "wait_share": 0.15}


def totals(share):
    return {"opens": 2000 // share, "reads": 20000 // share, "bytes_read": 2 * SECOND // share,
            "read_ns": 18 * SECOND // share, "metadata_ns": 2 * SECOND // share, "first_ns": 1000, "last_ns": 19 * SECOND}


def profile():
    """Two ranks that train for two epochs of fifty steps, twenty seconds."""
    ranks = ["rank 0", "rank 1"]
    return {
        "format": "millrace-report", "version": 1,
        "job": {"traces": ["t/"], "command": "python train.py", "framework": "pytorch", "hosts": ["node1"], "ranks": 2,
                "processes": 6, "threads": 14, "compute_threads": 2, "io_threads": 4,
                "begin_wall_ns": 1700000000 * SECOND, "begin_ns": 500, "wall_ns": 20 * SECOND, "events": 22400,
                "files": 1040, "dataset_files": 1000, "dataset_bytes": SECOND, "dataset_bytes_read": 2 * SECOND,
                "dataset_unique_bytes": SECOND, "bytes_read": 2 * SECOND, "amplification": 1.0, "epochs": 2,
                "steps": 100},
        "time": {"basis": "regions", "job": split("job"), "mean": split("mean"), "hosts": [split("node1")],
                 "ranks": [split(name) for name in ranks]},
        "layers": [{"layer": "application", "count": 400, "time_ns": 40 * SECOND, "busy_ns": 38 * SECOND,
                    "overlapped_ns": 30 * SECOND},
                   {"layer": "posix", "count": 22000, "time_ns": 20 * SECOND, "busy_ns": 16 * SECOND,
                    "overlapped_ns": 10 * SECOND, "bytes_read": 2 * SECOND, "metadata_count": 2000,
                    "metadata_ns": 2 * SECOND}],
        "functions": [{"name": "compute", "layer": "application", "kind": "region", "role": "compute", "count": 200,
                       "time_ns": 30 * SECOND, "latency_ns": distribution(200, 150000000, 160000000)},
                      {"name": "read", "layer": "posix", "kind": "read", "role": "none", "count": 20000,
                       "time_ns": 18 * SECOND, "bytes": 2 * SECOND, "size_bytes": distribution(20000, 100000, 131072),
                       "latency_ns": distribution(20000, 800000, 5000000), "size_bins": [0] * 17 + [15000, 5000],
                       "latency_bins": [0] * 20 + [19000, 0, 0, 1000]},
                      {"name": "open", "layer": "posix", "kind": "open", "role": "none", "count": 2000,
                       "time_ns": 2 * SECOND, "latency_ns": distribution(2000, 900000, 4000000)}],
        "kinds": [{"name": "data", "io": totals(1), "files": 1000, "size_bytes": SECOND}],
        "extensions": [{"name": ".jpg", "io": totals(1), "files": 1000, "size_bytes": SECOND}],
        "ranks": [{"name": name, "host": "node1", "io": totals(2), "data_files": 1000, "data_bytes_read": SECOND,
                   "threads_reading": 2, "calls_in_flight": 1.5} for name in ranks],
        "timeline": {"bin_ns": 10 * SECOND, "bytes_read": [SECOND, SECOND], "bytes_written": [0, 0],
                     "operations": [11000, 11000], "metadata": [1000, 1000], "busy_ns": [10 * SECOND, 10 * SECOND]},
        "heat": {"bin_ns": 20 * SECOND, "ranks": [{"name": name, "io": [400], "compute": [750], "wait": [150]}
                                                  for name in ranks]},
        "stretches": [{"role": "epoch", "name": "epoch", "epoch": epoch, "rank": 1, "begin_ns": 10 * epoch * SECOND,
                       "end_ns": 10 * (epoch + 1) * SECOND} for epoch in range(2)],
        "epochs": [{"epoch": epoch, "begin_ns": 10 * epoch * SECOND, "end_ns": 10 * (epoch + 1) * SECOND, "steps": 50,
                    "time": {"compute_ns": 7500000000, "wait_ns": 1500000000}, "io": totals(2), "files": 1000,
                    "actions": [{"name": "compute", "role": "compute", "count": 100, "mean_ns": 7500000000,
                                 "min_ns": 7400000000, "max_ns": 7600000000}]} for epoch in range(2)],
        "steps": {"duration_ns": distribution(200, 190000000, 250000000),
                  "wait_ns": distribution(200, 30000000, 60000000),
                  "slowest": [{"epoch": 0, "step": 0, "rank": 1, "begin_ns": 0, "duration_ns": 250000000,
                               "wait_ns": 60000000}]},
        "tree": [{"name": "", "layer": "application", "parent": 0},
                 {"name": "read", "layer": "posix", "parent": 0, "count": 20000, "total_ns": 18 * SECOND,
                  "self_ns": 18 * SECOND, "bytes": 2 * SECOND}],
        "checkpoints": [{"epoch": 1, "begin_ns": 19 * SECOND, "end_ns": 20 * SECOND, "ranks_writing": 1, "bytes": 4096,
                         "writes": 1, "stalled_ns": 0, "file": "c.pt"}],
        "problems": [],
        "findings": [],
        "of_a_later_build": {"skipped": True},
    }


def change(value, path, text):
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        value = value[part]
    value[last] = text if isinstance(value[last], str) else int(float(text))


def main():
    made = profile()
    for argument in sys.argv[1:]:
        change(made, *argument.split("=", 1))
    json.dump(made, sys.stdout)
    print()


if __name__ == "__main__":
    main()
