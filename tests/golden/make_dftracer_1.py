#!/usr/bin/env python3
"""Makes dftracer_1.pfw: a file as written by DFTracer 1.x, from the description of that format.

The format: a line with `[`, one object per line without commas, ph "X" and "M", hashes as short
texts, `]` at the end. Run it from this folder. The file is committed; the script documents it.
"""

import json
from pathlib import Path

HOST = "9d5ed678fe57bcca610140957afab571"
START_US = 1_700_000_000_000_000
lines = []


def metadata(name: str, text: str, value: str) -> None:
    lines.append({"id": len(lines), "name": name, "cat": "dftracer", "pid": 31, "tid": 31, "ph": "M",
                  "args": {"hhash": HOST, "name": text, "value": value}})


def event(name: str, cat: str, begin_us: int, duration_us: int, tid: int = 31, **args) -> None:
    lines.append({"id": len(lines), "name": name, "cat": cat, "pid": 31, "tid": tid,
                  "ts": START_US + begin_us, "dur": duration_us, "ph": "X",
                  "args": {"hhash": HOST, **args}})


metadata("HH", "node1", HOST)
metadata("SH", "python train.py", "c0ffee")
metadata("FH", "/dataset/train/0001.npz", "f1")
event("start", "dftracer", 0, 0, ppid=30, cmd_hash="c0ffee", version="1.0.3", date="", cwd="f9")
event("open64", "POSIX", 100, 12, ret=4, flags=0, fhash="f1")
event("read", "POSIX", 120, 7, ret=4096, count=4096, fd=4, fhash="f1")
event("pread64", "POSIX", 130, 5, ret=100, count=4096, offset=8192, fd=4, fhash="f1")
event("__xstat64", "POSIX", 140, 3, ret=0, fhash="f2")
metadata("FH", "/dataset/a \"name\" of caf\u00e9", "f2")  # defined after its use
event("fread", "STDIO", 150, 4, tid=32, ret=10, count=16, size=512, fhash="f2")
event("close", "POSIX", 160, 1, ret=0, fhash="f1")
event("numpy.load", "NPZReader", 95, 80, epoch="1", step="4", image_idx=17)
event("TFReader.parse", "reader", 180, 20, epoch=1, size=2048)
event("lseek64", "POSIX", 230, 1, ret=512, offset=512, whence=0, fhash="f1")
event("end", "dftracer", 300, 0, num_events=11)
metadata("FH", "/jobs/7", "f9")

Path("dftracer_1.pfw").write_text(
    "[\n" + "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines) + "]\n")
