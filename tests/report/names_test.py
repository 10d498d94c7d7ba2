"""One definition a name: text, JSON, tables, SQL, compare and advise show the same figure under the same name.

Usage: names_test.py MILLRACE PYTHON PACKAGE [unittest arguments]. PACKAGE has the module `millrace`."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from names import NAMES  # noqa: E402

MILLRACE, PYTHON, PACKAGE = sys.argv[1:4]

# Two ranks with a worker thread each. They read samples, a library, and the state that they wrote.
PROGRAM = """
import os, sys, threading, time
from millrace import trace
folder, rank = sys.argv[1], int(sys.argv[2])
trace.set_rank(rank, 2)
def busy(ms):
    until = time.monotonic() + ms / 1000
    while time.monotonic() < until: pass
def read(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(1000): pass
read("/etc/passwd")
time.sleep(0.05)  # a start that is no step
for epoch in range(2):
    for step in range(4):
        with trace.region("batch_wait", epoch=epoch, step=step):
            def load():
                with trace.region("fetch", epoch=epoch, step=step):
                    for i in range(3):
                        with trace.region("read"):
                            read(os.path.join(folder, f"sample{(3 * step + i) % 5}.bin"))
                            with trace.region("decode"): busy(1)
                        with trace.region("transform"): busy(2)
            worker = threading.Thread(target=load)
            worker.start()
            worker.join()
        with trace.region("compute", epoch=epoch, step=step):
            busy(3)
    with trace.region("checkpoint", epoch=epoch):
        state = os.path.join(folder, f"state{rank}.out")
        with open(state, "wb", buffering=0) as file: file.write(bytes(5000))
    read(state)
time.sleep(0.03)
"""


def run(*command, code=0, **options):
    made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **options)
    assert made.returncode == code, f"{command}: {made.stdout}{made.stderr}"
    return made.stdout


def lookup(profile, path):
    for part in path.split("."):
        profile = profile[part]
    return profile


SCALES = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def number(text, unit):
    """The value that a figure of the text stands for."""
    if unit == "share":
        return float(text) / 100
    if unit in ("count", "factor"):
        return float(text.replace(",", ""))
    value, scale = text.split()
    return float(value) * SCALES[scale]


class NamesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        folder = os.path.realpath(scratch.name)
        for i in range(5):
            with open(os.path.join(folder, f"sample{i}.bin"), "wb") as file:
                file.write(os.urandom(7000 + i))
        program = os.path.join(folder, "train.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        cls.trace = os.path.join(folder, "trace")
        ranks = " & ".join(f"{PYTHON} {program} {folder} {rank}" for rank in range(2))
        run(MILLRACE, "trace", "-o", cls.trace, "--", "sh", "-c", f"{ranks} & wait",
            env=dict(os.environ, PYTHONPATH=PACKAGE))
        cls.text = run(MILLRACE, "report", cls.trace)
        cls.unwrapped = re.sub(r"\n(?=[A-Za-z])(?!data |access |problem |warning |function )", " ", cls.text)
        cls.profile = json.loads(run(MILLRACE, "report", "--json", cls.trace))

    def rows(self, table):
        return json.loads(run(MILLRACE, "report", "--by", table, "--json", self.trace))["rows"]

    def query(self, sql):
        return json.loads(run(MILLRACE, "query", "--json", self.trace, sql))

    def assert_shown(self, text, name, where):
        """A figure of three digits."""
        value = lookup(self.profile, name.path)
        self.assertAlmostEqual(number(text, name.unit), value, delta=max(0.006 * value, 0.0006), msg=f"{name.path}: {where}")

    def test_the_text_shows_the_figures_of_the_json(self):
        for name in NAMES:
            if name.text is None:
                continue
            found = [next(filter(None, match.groups())) for match in re.finditer(name.text, self.unwrapped, re.MULTILINE)]
            self.assertNotEqual(found, [], f"{name.path}: {name.text} is not in {self.text}")
            for figure in found:
                self.assert_shown(figure, name, "text")

    def test_sql_computes_the_figures_of_the_json(self):
        for name in NAMES:
            if name.sql is None:
                continue
            (row,) = self.query(name.sql)
            (value,) = row.values()
            self.assertEqual(value, lookup(self.profile, name.path), f"{name.path}: {name.sql}")

    def test_the_rows_of_tables_add_up_to_the_job(self):
        for name in NAMES:
            if name.table is None:
                continue
            table, column = name.table
            self.assertEqual(sum(row[column] for row in self.rows(table)), lookup(self.profile, name.path), name.path)

    def test_the_mean_of_the_ranks_is_that_of_the_job(self):
        ranks, mean = self.profile["time"]["ranks"], self.profile["time"]["mean"]
        self.assertEqual(len(ranks), 2)
        for key, value in mean.items():
            if key.endswith("_ns"):
                self.assertAlmostEqual(sum(rank[key] for rank in ranks) / 2, value, delta=1, msg=key)

    def test_no_part_is_longer_than_the_whole(self):
        for split in [self.profile["time"][key] for key in ("job", "mean")] + self.profile["time"]["ranks"]:
            for key, value in split.items():
                if key.endswith("_ns"):
                    self.assertLessEqual(value, split["wall_ns"], f"{split['name']}: {key}")
        ranks = self.profile["job"]["ranks"]
        for layer in self.profile["layers"]:
            self.assertLessEqual(layer["busy_ns"], ranks * self.profile["job"]["wall_ns"])
            (shown,) = re.findall(rf"^{layer['layer']} +[\d.]+(?: k)? +([\d.]+ \w+)", self.text, re.MULTILINE)
            self.assertAlmostEqual(number(shown, "ns"), layer["busy_ns"], delta=0.006 * layer["busy_ns"])

    def test_two_windows_add_up_to_the_whole(self):
        whole = self.profile["job"]["wall_ns"]
        # In the middle of a step. Before the first one, no region would show what waiting is.
        steps = sorted(step["begin_ns"] + step["duration_ns"] // 2 for step in self.profile["steps"]["slowest"])
        for cut in (steps[3], steps[-3]):
            parts = [json.loads(run(MILLRACE, "report", "--json", *part, self.trace))
                     for part in (("--until", f"{cut}ns"), ("--from", f"{cut}ns"))]
            self.assertEqual([part["job"]["wall_ns"] for part in parts], [cut, whole - cut])
            for key in ("compute_ns", "io_ns", "fetch_ns", "decode_ns", "transform_ns", "checkpoint_ns", "wait_ns"):
                self.assertEqual(sum(part["time"]["job"][key] for part in parts), self.profile["time"]["job"][key], key)
            for part in parts:
                for span in part["epochs"] + part["checkpoints"]:
                    self.assertLessEqual(span["end_ns"], part["job"]["wall_ns"])
                for step in part["steps"]["slowest"]:
                    self.assertLessEqual(step["begin_ns"] + step["duration_ns"], part["job"]["wall_ns"])

    def test_decoding_is_not_transforming(self):
        mean = self.profile["time"]["mean"]
        of_regions = {row["name"]: row["time_ns"] for row in self.profile["functions"] if row["kind"] == "region"}
        self.assertEqual(mean["decode_ns"], of_regions["decode"] // 2)
        self.assertEqual(mean["transform_ns"], of_regions["transform"] // 2)

    def test_functions_are_those_of_sql(self):
        sums = self.query("select layer, name, count(*) as calls, sum(duration) as time from events group by 1, 2")
        known = {(row["layer"], row["name"]): [row["count"], row["time_ns"]] for row in self.profile["functions"]}
        for row in sums:
            if (row["layer"], row["name"]) in known:
                self.assertEqual(known[row["layer"], row["name"]], [row["calls"], row["time"]], row["name"])

    def test_compare_and_advise_show_the_same_share_of_waiting(self):
        share = f"{100 * self.profile['time']['mean']['wait_share']:.1f} %"
        compared = run(MILLRACE, "compare", self.trace, self.trace)
        self.assertEqual(len(re.findall(re.escape(share) + "$", compared, re.MULTILINE)), 2, compared)
        self.assertIn("waits for data " + share, run(MILLRACE, "advise", self.trace).replace("\n", " "))
        self.assertEqual([row["wait_share"] for row in self.rows("rank")],
                         [rank["wait_share"] for rank in self.profile["time"]["ranks"]])

    def test_what_was_written_and_read_back_is_said(self):
        self.assertIn("read back 19.5 KiB", " ".join(self.text.split()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
