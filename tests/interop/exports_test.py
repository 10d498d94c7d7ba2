#!/usr/bin/env python3
"""Exports compared with the exported job, read by decoders that share no code with the writers."""

import csv
import gzip
import json
import os
import subprocess
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from perfetto_packets import decode, slices
from sample_job import START_US, make_job

MILLRACE = os.environ["MILLRACE"]


def millrace(*arguments) -> str:
    done = subprocess.run([MILLRACE, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    return done.stdout


class ExportsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.base = Path(cls.folder.name)
        cls.job = make_job()
        cls.job.write(cls.base / "job.pfw")
        millrace("import", cls.base / "job.pfw", "-o", cls.base / "trace")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def export(self, form: str, name: str, *more) -> bytes:
        path = self.base / name
        millrace("export", self.base / "trace", "--to", form, "-o", path, *more)
        return path.read_bytes()

    def expected(self) -> Counter:
        return Counter((e["name"], e["begin"], e["end"], e["pid"]) for e in self.job.events)

    def test_perfetto_has_every_event_on_a_track_where_it_nests(self):
        found, clocks = slices(decode(self.export("perfetto", "t.perfetto-trace")))
        origin = clocks[1] - clocks[6]
        pids = {}
        for s in found:
            pids[s.track["uuid"]] = s.track.get("pid")
        begin = START_US * 1000
        names = Counter((s.name, s.begin + origin - begin, s.end + origin - begin) for s in found)
        self.assertEqual(names, Counter((n, b, e) for n, b, e, _ in self.expected().elements()))
        own = [s for s in found if "tid" in s.track]
        other = [s for s in found if "tid" not in s.track]
        self.assertFalse([s for s in own if s.name == "foreign"])
        self.assertTrue([s for s in other if s.name == "foreign"])
        self.assertTrue(all(s.track["name"].startswith("overlapping on thread") for s in other))
        self.assertTrue(any(s.depth >= 2 for s in own if s.name == "pread"))

    def test_perfetto_names_processes_and_arguments(self):
        packets = list(decode(self.export("perfetto", "t.perfetto-trace")))
        titles = sorted(p.track["process_name"] for p in packets if "process_name" in p.track)
        self.assertEqual(titles, ["rank 0 process (node1)", "rank 1 process (node2)",
                                  "rank 2 process (node1)"])
        found, _ = slices(packets)
        wanted = Counter()
        for e in self.job.events:
            if e["name"] == "pread":
                wanted[(e["path"], e["args"]["offset"], e["args"]["count"], e["args"]["ret"])] += 1
        held = Counter((s.annotations["file"], s.annotations["offset"], s.annotations["size"],
                        s.annotations["result"]) for s in found if s.name == "pread")
        self.assertEqual(held, wanted)
        failed = next(s for s in found if s.name == "open")
        self.assertEqual((failed.category, failed.annotations["errno"], failed.annotations["result"]),
                         ("posix", "ENOENT", -1))
        fetch = [s for s in found if s.name == "fetch"]
        self.assertEqual({s.category for s in fetch}, {"app"})
        self.assertEqual(Counter((s.annotations["step"], s.annotations["loss"], s.annotations["kind"])
                                 for s in fetch),
                         Counter((e["args"]["step"], e["args"]["loss"], e["args"]["kind"])
                                 for e in self.job.events if e["name"] == "fetch"))

    def test_a_part_of_a_trace_by_time_rank_and_level(self):
        part, _ = slices(decode(self.export("perfetto", "part.perfetto-trace", "--from", "10us",
                                            "--until", "20us", "--ranks", "0,2", "--levels", "posix")))
        start = min(e["begin"] for e in self.job.events)
        wanted = [e for e in self.job.events if e["name"] in ("pread", "open")
                  and (e["end"] > start + 10_000 or e["begin"] >= start + 10_000)
                  and e["begin"] < start + 20_000]
        everyone = Counter((e["name"], e["begin"] - start) for e in wanted)
        held = Counter((s.name, s.begin) for s in part)
        self.assertTrue(held)
        self.assertFalse(held - everyone)
        self.assertTrue(all("(node1)" in t for t in
                            {p.track["process_name"] for p in decode(
                                (self.base / "part.perfetto-trace").read_bytes())
                             if "process_name" in p.track}))

    def test_chrome_is_json_with_every_event(self):
        trace = json.loads(self.export("chrome", "t.json"))
        start = min(e["begin"] for e in self.job.events)
        held = Counter((e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000))
                       for e in trace["traceEvents"] if e["ph"] == "X")
        self.assertEqual(held, Counter((n, b - start, e - b) for n, b, e, _ in self.expected().elements()))

    def test_pythons_reader_reads_the_csv_table(self):
        self.export("csv", "t.csv")
        with open(self.base / "t.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(Counter((r["name"], int(r["pid"])) for r in rows),
                         Counter((n, p) for n, _, _, p in self.expected().elements()))
        fetch = next(r for r in rows if r["name"] == "fetch")
        self.assertEqual(json.loads(fetch["tags"])["kind"], "a b")

    def test_pfw_gz_is_json_lines_and_reads_back_the_same(self):
        lines = [json.loads(line) for line in gzip.decompress(self.export("pfw", "t.pfw.gz")).splitlines()]
        self.assertEqual(sum(line["ph"] == 1 for line in lines), len(self.job.events))
        millrace("import", self.base / "t.pfw.gz", "-o", self.base / "again")
        self.export("csv", "first.csv")
        millrace("export", self.base / "again", "--to", "csv", "-o", self.base / "again.csv")
        first = sorted((self.base / "first.csv").read_text("utf-8").splitlines())
        again = sorted((self.base / "again.csv").read_text("utf-8").splitlines())
        self.assertEqual(first, again)


if __name__ == "__main__":
    unittest.main()
