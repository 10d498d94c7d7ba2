#!/usr/bin/env python3
"""DFTracer 2.2's own tools read our .pfw.gz, and our import reads its traces. See README.md.

The tools of 2.2.0 read only compressed files (indexing a plain .pfw fails, even DFTracer's own), find
them by the suffix .pfw.gz, and leave .dftindex next to them.
"""

import gzip
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "interop"))
from sample_job import make_job  # noqa: E402

MILLRACE = os.environ["MILLRACE"]
BIN = Path(sys.executable).parent
PROGRAM = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  char buffer[64];
  int file = open("a.bin", O_RDWR | O_CREAT | O_TRUNC, 0644);
  for (int i = 0; i < 100; ++i) if (write(file, buffer, 64) != 64) return 1;
  for (int i = 0; i < 100; ++i) if (pread(file, buffer, 32, i * 64) != 32) return 1;
  close(file);
  if (fork() == 0) { close(open("b.bin", O_WRONLY | O_CREAT, 0644)); exit(0); }
  wait(0);
  return 0;
}
"""


def run(*command, **more) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True,
                          **more).stdout


def check_export(base: Path) -> None:
    job = make_job(seed=9, count=2000)
    job.write(base / "job.pfw")
    run(MILLRACE, "import", base / "job.pfw", "-o", base / "t")
    (base / "out").mkdir()
    print(run(MILLRACE, "export", base / "t", "--to", "pfw", "-o", base / "out" / "t.pfw.gz").strip())
    run(BIN / "dftracer_validate", "-d", base / "out")
    stats = run(BIN / "dftracer_stats", "-d", base / "out")
    assert f"Events Scanned: {len(job.events)}" in stats, stats
    print(stats)
    view = run(BIN / "dftracer_view", "-d", base / "out", "--group-by", "name,file_path,host_name,pid",
               "--agg", "count,sum:ret,sum:dur")
    held = {}
    for line in view.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            key = (row["name"], row["file_path"])
            before = held.get(key, (0, 0))
            held[key] = (before[0] + row["count"], before[1] + row["sum_ret"])
    wanted = {}
    for event in job.events:
        key = (event["name"], event["path"] or "")
        before = wanted.get(key, (0, 0))
        wanted[key] = (before[0] + 1, before[1] + event["args"].get("ret", 0))
    assert {k: v[0] for k, v in held.items()} == {k: v[0] for k, v in wanted.items()}
    for key, (_, total) in wanted.items():
        assert abs(held[key][1] - total) <= 1e-6 * abs(total), (key, held[key], total)
    print(f"dftracer_view: {len(held)} groups of name and file, counts and bytes as exported")


def check_import(base: Path) -> None:
    (base / "p.c").write_text(PROGRAM)
    run("cc", "-o", base / "p", base / "p.c")
    (base / "logs").mkdir()
    library = Path(sysconfig.get_paths()["purelib"]) / "dftracer/lib64/libdftracer_preload.so"
    run(base / "p", cwd=base, env={**os.environ, "DFTRACER_ENABLE": "1", "DFTRACER_INIT": "PRELOAD",
                                   "DFTRACER_LOG_FILE": str(base / "logs" / "log"),
                                   "DFTRACER_DATA_DIR": "all", "DFTRACER_INC_METADATA": "1",
                                   "LD_PRELOAD": str(library)})
    print(run(MILLRACE, "import", base / "logs", "-o", base / "i").strip())
    run(MILLRACE, "export", base / "i", "--to", "csv", "-o", base / "i.csv")
    calls = Counter(line.split(",")[4] for line in (base / "i.csv").read_text().splitlines()[1:])
    # Compare with its files, not with what the program did: DFTracer may lose a child that ends at once.
    logged = Counter()
    for log in (base / "logs").glob("*.pfw.gz"):
        for line in gzip.decompress(log.read_bytes()).splitlines():
            event = json.loads(line)
            if event["ph"] == 1 and event["cat"] != "dftracer":
                logged[event["name"]] += 1
    assert calls == logged and calls["pread"] == 100, (calls, logged)
    print(f"import of what DFTracer recorded: {dict(calls)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        check_export(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        check_import(Path(folder))
