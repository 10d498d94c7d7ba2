"""Golden inputs: the reports of the sick jobs, cut to what `millrace advise` needs, and the machine they ran on.

Not the traces: those have up to a million events, and change with the trace format.
"""

import json
import subprocess
from pathlib import Path

from clinic import Job

MACHINE = "machine.json"
# The keys of `advise --json` and the options that set them.
OPTIONS = {"cores": "cores", "memory_bytes": "memory", "local_disk_bytes": "local-disk", "data_storage": "data-storage",
           "checkpoint_storage": "checkpoint-storage"}
FILES_MAX = 20
DATA = "/data"  # the place of the jobs' files, in reports


def options_of(machine: dict) -> dict:
    return {option: machine[key] for key, option in OPTIONS.items() if machine.get(key) not in (None, 0, "unknown")}


def write(millrace: str, trace: Path, job: Job, machine: dict, directory: Path) -> None:
    """REQUIRES: the parent of `trace` has all files of the job."""
    text = subprocess.run([millrace, "report", "--json", str(trace)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    host = json.loads(text)["job"]["hosts"][0]
    report = json.loads(text.replace(str(trace.parent), f"{DATA}/{job.name}").replace(f'"{host}"', '"node"'))
    report["job"] |= {"traces": [job.name], "command": f"python {job.name}.py"}
    (directory / f"{job.name}.json").write_text(cut(report))
    if not job.slow:  # with slow storage, it is not the same machine
        path = directory / MACHINE
        options = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(options | options_of(machine), indent=1) + "\n")


def cut(report: dict) -> str:
    # Most files are those of Python. Rules do not look at them, and their paths are of one machine.
    report["files"] = [file for file in report["files"] if file["path"].startswith(DATA)][:FILES_MAX]
    report["directories"] = [entry for entry in report["directories"] if entry["name"].startswith(DATA)]
    for stall in report["stalls"]:
        if not stall["directory"].startswith((DATA, "/usr/", "/dev/")):
            stall["directory"] = ""
    for name, values in report["timeline"].items():
        if isinstance(values, list):
            report["timeline"][name] = []
    report["findings"] = []
    lines = ",\n".join(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}"
                       for key, value in report.items())
    return f"{{\n{lines}\n}}\n"
