#!/usr/bin/env python3
"""Tests that `millrace advise` names the disease of each job of the clinic, from the reports in traces/.

To write the reports anew: tests/clinic/run --traces tests/clinic/traces
"""

import json
import os
import subprocess
import sys
import unittest

import golden
from clinic import HERE, Diagnosis, advise, diagnosis, jobs

MILLRACE = os.environ.get("MILLRACE", str(HERE.parent.parent / "build" / "dev" / "bin" / "millrace"))
TRACES = HERE / "traces"


class Golden(unittest.TestCase):
    def test_the_first_finding_names_the_disease(self):
        machine = json.loads((TRACES / golden.MACHINE).read_text())
        for job in jobs():
            with self.subTest(job.name):
                advice = advise(MILLRACE, TRACES / f"{job.name}.json", {**machine, **job.advise})
                first = diagnosis(advice)
                self.assertTrue(first.is_right(job), f"{job.disease}: the first finding is {first.rule} "
                                f"({first.title}), expected {' or '.join(job.expected) or 'nothing'}")

    def test_no_gain_exceeds_what_its_cause_took(self):
        machine = json.loads((TRACES / golden.MACHINE).read_text())
        for job in jobs():
            report = json.loads((TRACES / f"{job.name}.json").read_text())
            mean, ranks = report["time"]["mean"], report["job"]["ranks"]
            stalls = sum(stall["stall_ns"] for stall in report["stalls"] if stall["phase"] == "in training") // ranks
            for head in advise(MILLRACE, TRACES / f"{job.name}.json", {**machine, **job.advise})["findings"]:
                for finding in [head, *head.get("also", [])]:
                    gain = finding["gain"]
                    with self.subTest(job.name, rule=finding["rule"]):
                        self.assertLessEqual(gain["saved_ns"], report["job"]["wall_ns"])
                        # Where workers and training share the cores, compute becomes faster, too. Then it says so.
                        if "wait" in gain["how"] and "compute" not in gain["how"]:
                            self.assertLessEqual(gain["saved_ns"], mean["wait_ns"] + stalls)

    def test_every_report_belongs_to_a_job(self):
        names = {path.stem for path in TRACES.glob("*.json") if path.name != golden.MACHINE}
        self.assertEqual(names, {job.name for job in jobs()})

    def test_expected_rules_exist(self):
        printed = subprocess.run([MILLRACE, "advise", "--rules"], check=True, text=True, stdout=subprocess.PIPE).stdout
        rules = {line.split()[0] for line in printed.splitlines()[1:]}
        self.assertEqual({rule for job in jobs() for rule in job.expected} - rules, set())

    def test_a_wrong_diagnosis_is_not_right(self):
        sick = jobs()[0]
        self.assertFalse(Diagnosis().is_right(sick))
        self.assertFalse(Diagnosis(rule="no-such-rule").is_right(sick))
        healthy = next(job for job in jobs() if not job.expected)
        self.assertFalse(Diagnosis(rule=sick.expected[0]).is_right(healthy))


if __name__ == "__main__":
    sys.exit(unittest.main())
