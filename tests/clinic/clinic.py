"""The jobs of the clinic as data: what each declares, and what `millrace advise` finds in it. Needs no PyTorch."""

import ast
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

HERE = Path(__file__).resolve().parent
JOBS = HERE / "jobs"


@dataclass
class Job:
    """The constants of jobs/NAME.py."""

    name: str
    disease: str
    expected: list  # rules that are right as the first finding; empty: no finding is right
    ranks: int = 1
    costs_time: bool = True  # False: the disease costs accuracy, and the cure saves no time
    slow: dict = field(default_factory=dict)  # how slow the files in slow/ are: delay_us, gap_us, sync_us
    advise: dict = field(default_factory=dict)  # options of `millrace advise`: the storage that slow/ stands for


@dataclass
class Diagnosis:
    """The first finding."""

    rule: Optional[str] = None
    title: str = "nothing"
    gain_s: Optional[float] = None  # None: not estimated
    others: list = field(default_factory=list)  # the rules of the other findings

    def is_right(self, job: Job) -> bool:
        return self.rule in job.expected if job.expected else self.rule is None


def jobs() -> list:
    return [declaration(path) for path in sorted(JOBS.glob("[a-z]*.py"))]


def declaration(path: Path) -> Job:
    """Reads the constants without running the job."""
    constants = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                pass  # computed: of no interest here
    names = {"DISEASE": "disease", "EXPECTED": "expected", "RANKS": "ranks", "COSTS_TIME": "costs_time",
             "SLOW": "slow", "ADVISE": "advise"}
    return Job(path.stem, **{key: constants[name] for name, key in names.items() if name in constants})


def advise(millrace: str, trace: Path, options: dict) -> dict:
    """REQUIRES: `trace` is a trace, or the output of `millrace report --json`."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return json.loads(subprocess.run([millrace, "advise", "--json", *words, str(trace)], check=True,
                                     stdout=subprocess.PIPE).stdout)


def diagnosis(advice: dict) -> Diagnosis:
    # A note costs nothing: it is no diagnosis.
    findings = [finding for finding in advice["findings"] if finding["severity"] != "note"]
    if not findings:
        return Diagnosis()
    first = findings[0]
    saved_ns = first["gain"]["saved_ns"]
    return Diagnosis(first["rule"], first["title"], saved_ns / 1e9 if saved_ns else None,
                     [finding["rule"] for finding in findings[1:]])
