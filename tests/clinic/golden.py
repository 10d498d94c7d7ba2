"""Golden inputs: the reports of the sick jobs, cut to what `millrace advise` needs, and the machine they ran on.

Not the traces: those have up to a million events, and change with the trace format.
"""

import json
import subprocess
from pathlib import Path

from clinic import HERE, Job

MACHINE = "machine.json"
# The keys of `advise --json` and the options that set them.
OPTIONS = {"memory_bytes": "memory", "local_disk_bytes": "local-disk", "data_storage": "data-storage",
           "checkpoint_storage": "checkpoint-storage"}
FILES_MAX = 20


def options_of(machine: dict) -> dict:
    return {option: machine[key] for key, option in OPTIONS.items() if machine.get(key) not in (None, 0, "unknown")}


def write(millrace: str, trace: Path, job: Job, machine: dict, directory: Path) -> None:
    """REQUIRES: the parent of `trace` has all files of the job."""
    text = subprocess.run([millrace, "report", "--json", str(trace)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    host = json.loads(text)["job"]["hosts"][0]
    for local, anywhere in ((str(trace.parent), f"/data/{job.name}"), (str(HERE), "clinic"), (f'"{host}"', '"node"')):
        text = text.replace(local, anywhere)
    (directory / f"{job.name}.json").write_text(cut(json.loads(text)))
    if not job.slow:  # with slow storage, it is not the same machine
        path = directory / MACHINE
        options = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(options | options_of(machine), indent=1) + "\n")


def cut(report: dict) -> str:
    # Files of the system are most of the list, and no rule looks at them.
    report["files"] = [file for file in report["files"] if file["kind"] != "system"][:FILES_MAX]
    for name, values in report["timeline"].items():
        if isinstance(values, list):
            report["timeline"][name] = []
    report["findings"] = []
    lines = ",\n".join(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}"
                       for key, value in report.items())
    return f"{{\n{lines}\n}}\n"
