#!/usr/bin/env python3
"""`millrace bench` as a user runs it: formats, loaders, ranks, traces, bad input."""

import csv
import gzip
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

try:
    import h5py
except ImportError:
    h5py = None

MILLRACE = os.environ["MILLRACE"]
CAN_TRACE = shutil.which("strace") is not None and subprocess.run(
    ["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0
HAS_MPI = shutil.which("mpirun") is not None

WORKLOAD = """
model: {{name: test}}
framework: pytorch
workflow: {{generate_data: False, train: True{workflow}}}
dataset:
  data_folder: {folder}/data
  format: {format}
  num_files_train: {files}
  num_samples_per_file: {samples}
  record_length_bytes: 4096
reader: {{data_loader: native, batch_size: 4, read_threads: 2, file_shuffle: seed, sample_shuffle: seed}}
train: {{epochs: 2, computation_time: 0.001}}
{more}
"""


class BenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def workload(self, format="npz", files=12, samples=1, workflow="", more=""):
        path = self.folder / "w.yaml"
        path.write_text(WORKLOAD.format(folder=self.folder, format=format, files=files, samples=samples,
                                        workflow=workflow, more=more))
        return path

    def bench(self, *words, code=0, program=(MILLRACE,)):
        done = subprocess.run([*program, "bench", *map(str, words), f"--output={self.folder}/out"],
                              capture_output=True, text=True, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def figures(self, *words):
        return json.loads(self.bench(*words, "--json").stdout)

    def check_all_read(self, figures, samples):
        self.assertEqual([one["samples"] for one in figures["passes"]], [samples, samples])
        self.assertEqual(figures["bad_samples"], 0)


class RunTest(BenchTest):
    def test_every_format_is_generated_read_and_verified(self):
        for format, samples in (("npz", 1), ("npz", 20), ("npy", 1), ("npy", 3), ("tfrecord", 3), ("jpeg", 1), ("png", 1), ("hdf5", 3),
                                ("csv", 3), ("indexed_binary", 3), ("mmap_indexed_binary", 3), ("parquet", 3),
                                ("raw", 1), ("csv", 1), ("tsv", 1), ("json", 1), ("jsonl", 1), ("jsonl", 3)):
            with self.subTest(format=format, samples=samples):
                shutil.rmtree(self.folder / "data", ignore_errors=True)
                workload = self.workload(format, 6, samples)
                figures = self.figures(workload, "--generate", "--verify")
                self.check_all_read(figures, 6 * samples)
                self.assertGreaterEqual(figures["passes"][0]["bytes_read"], 6 * samples * 3600 if format not in
                                        ("jpeg", "png") else 6 * 100)

    @unittest.skipUnless(CAN_TRACE, "needs strace")
    def test_odirect_bypasses_the_page_cache_in_every_format(self):
        log = self.folder / "strace.log"
        traced = ("strace", "-f", "-e", "trace=openat", "-o", str(log), MILLRACE)
        for format, samples in (("npz", 1), ("tfrecord", 3), ("csv", 3), ("hdf5", 3), ("parquet", 3)):
            with self.subTest(format=format):
                shutil.rmtree(self.folder / "data", ignore_errors=True)
                workload = self.workload(format, 6, samples)
                self.bench(workload, "--generate")
                words = (workload, "reader.odirect=True", "--verify", "--json")
                probe = subprocess.run([MILLRACE, "bench", *map(str, words)], capture_output=True, text=True, check=False,
                                       cwd=self.folder)
                if "does not support direct I/O" in probe.stderr:
                    self.skipTest("the file system of temporary files has no O_DIRECT")
                self.check_all_read(json.loads(self.bench(*words, program=traced).stdout), 6 * samples)
                opened = [line for line in log.read_text().splitlines() if "/data/train/" in line and "O_RDONLY" in line
                          and "O_DIRECTORY" not in line]
                direct = {line.split('"')[1] for line in opened if "O_DIRECT" in line}
                self.assertEqual(len(direct), 6, opened)
                # To ask what the page cache holds; and libhdf5 reads where the samples are, but no samples.
                others = [line.split('"')[1] for line in opened if "O_DIRECT" not in line]
                self.assertEqual(sorted(others), sorted(direct) if format != "hdf5" else sorted([*direct, *direct]))

    def test_every_loader_reads_every_sample(self):
        workload = self.workload("tfrecord", 5, 7)
        self.bench(workload, "--generate", "workflow.train=false")
        for loader in ("native", "pytorch", "tensorflow", "dali"):
            for more in ((), ("reader.transfer_size=1024",), ("reader.read_type=memory",), ("reader.read_threads=5",)):
                with self.subTest(loader=loader, more=more):
                    self.check_all_read(self.figures(workload, f"--loader={loader}", *more), 35)

    def test_nothing_takes_no_time_of_the_accelerator(self):
        figures = self.figures(self.workload("synthetic", 1000))
        self.check_all_read(figures, 1000)

    def test_a_late_first_step_makes_no_utilisation_above_100_percent(self):
        workload = self.workload("synthetic", 24)
        process = subprocess.Popen([MILLRACE, "bench", workload, "train.computation_time=0.2", "train.epochs=1",
                                    f"--output={self.folder}/out", "--json"], stdout=subprocess.PIPE, text=True,
                                   cwd=self.folder)
        log = self.folder / "out" / "dlio.log"
        while not log.exists() or "epoch 1 begins" not in log.read_text():
            self.assertIsNone(process.poll())
            time.sleep(0.005)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        figures = json.loads(process.communicate()[0])
        self.assertLessEqual(figures["au"], 1)
        self.assertLessEqual(figures["passes"][0]["au_dlio"], 1)

    def test_an_exit_code_says_whether_the_utilisation_is_reached(self):
        workload = self.workload("synthetic", 24)
        done = self.bench(workload, "metric.au=0", "--require-au")
        self.assertIn("expected at least 0 %: pass", done.stdout)
        done = self.bench(workload, "metric.au=1", "train.computation_time=0", "--require-au", code=1)
        self.assertIn("0.0 %, expected at least 100 %: fail", done.stdout)
        self.bench(workload, "metric.au=1", "train.computation_time=0")
        done = self.bench(workload, "--require-au", "--generate", "workflow.train=false", code=1)
        self.assertIn("needs a run", done.stderr)

    def test_a_result_that_cannot_be_written_is_printed_all_the_same(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        done = subprocess.run([MILLRACE, "bench", self.workload("synthetic", 4000), "train.computation_time=0",
                               f"--output={self.folder}/out"], capture_output=True, text=True, check=False,
                              cwd=self.folder, preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"utilisation +0.0 %")
        self.assertIn("0_output.json", done.stderr)
        self.assertNotIn("results in", done.stdout)

    def test_direct_reads_bypass_the_page_cache(self):
        for format, samples in (("npz", 1), ("tfrecord", 3)):
            shutil.rmtree(self.folder / "data", ignore_errors=True)
            workload = self.workload(format, 6, samples)
            self.check_all_read(self.figures(workload, "--generate", "--cache=bypass"), 6 * samples)

    def test_the_output_has_the_files_of_dlio(self):
        self.bench(self.workload(workflow=", evaluation: True, checkpoint: True",
                                 more="evaluation: {eval_time: 0.001}\ncheckpoint: {checkpoint_folder: "
                                      f"{self.folder}/checkpoints, fsync: True}}\n"),
                   "dataset.num_files_eval=4", "--generate")
        names = {path.name for path in (self.folder / "out").iterdir()}
        self.assertEqual(names, {"summary.json", "millrace.json", "0_output.json", "0_per_epoch_stats.json", "dlio.log",
                                 ".millrace-files"})
        summary = json.loads((self.folder / "out" / "summary.json").read_text())
        self.assertEqual(summary["num_accelerators"], 1)
        for name in ("train_au_mean_percentage", "train_au_percentage", "train_throughput_mean_samples_per_second",
                     "train_io_mean_MB_per_second", "eval_au_mean_percentage",
                     "save_checkpoint_duration_mean_seconds"):
            self.assertIn(name, summary["metric"])
        ours = json.loads((self.folder / "out" / "millrace.json").read_text())
        self.assertGreater(ours["checkpoint_saves"]["fsyncs"], 0)
        self.assertEqual([one["kind"] for one in ours["passes"]], ["train", "evaluation"] * 2)
        steps = json.loads((self.folder / "out" / "0_output.json").read_text())
        self.assertEqual(len(steps["1"]["load"]), 3)

    def test_a_shuffle_reads_in_another_order_each_epoch(self):
        self.bench(self.workload(), "--generate", "workflow.train=false")
        orders = []
        for words in ((), (), ("train.seed=7",)):
            trace = self.folder / f"t{len(orders)}"
            self.bench(self.folder / "w.yaml", "reader.read_threads=1", "--loader=pytorch", *words,
                       program=(MILLRACE, "trace", "-o", trace, "--", MILLRACE))
            query = subprocess.run([MILLRACE, "query", trace, "--csv",
                                    "SELECT file FROM events WHERE file LIKE '%.npz' AND name LIKE 'open%' "
                                    "ORDER BY begin"],
                                   capture_output=True, text=True, check=False)
            self.assertEqual(query.returncode, 0, query.stderr)
            # Before, each file is opened once to see whether it is cached.
            self.assertEqual(len(query.stdout.split()), 1 + 12 + 24)
            orders.append(query.stdout.split()[-24:])
        self.assertNotEqual(orders[0][:12], orders[0][12:])
        self.assertEqual(sorted(orders[0][:12]), sorted(orders[0][12:]))
        self.assertNotEqual(orders[0], orders[2])

    def test_a_traced_run_has_the_regions_of_a_training(self):
        self.bench(self.workload(), "--generate", "workflow.train=false")
        trace = self.folder / "trace"
        self.bench(self.folder / "w.yaml", program=(MILLRACE, "trace", "-o", trace, "--", MILLRACE))
        report = json.loads(subprocess.run([MILLRACE, "report", "--json", trace], capture_output=True, text=True,
                                           check=True).stdout)
        counts = {one["name"]: one["count"] for one in report["functions"]}
        self.assertEqual((counts["epoch"], counts["batch_wait"], counts["compute"]), (2, 6, 6))
        self.assertEqual(len(report["epochs"]), 2)


def dlio_figures(load, compute, duration, start, end, batch, evaluates):
    """DLIO's formulas, from what it documents of them: `load` and `compute` of each step of a block in seconds; `start` and
    `end` of the steps that count; the result is (utilisation in percent, samples per second)."""
    processing = [a + b for a, b in zip(load, compute)]
    counted_time = duration - sum(processing[:start]) - sum(processing[end:])
    utilisation = 100 * sum(compute[start:end]) / counted_time
    if evaluates:
        return utilisation, len(compute) / duration * batch
    return utilisation, (len(compute) - 2) / counted_time * batch


class DlioFiguresTest(BenchTest):
    """summary.json, recomputed from the times of single steps."""

    def check(self, keys, more, blocks, start=1, end=0):
        workload = self.workload(files=48, workflow=", evaluation: True, checkpoint: True",
                                 more=f"evaluation: {{eval_time: 0.002}}\ncheckpoint: {{checkpoint_folder: {self.folder}/c}}\n"
                                      f"output: {{metric: {{exclude_start_steps: {start}, exclude_end_steps: {end}}}}}")
        self.bench(workload, "dataset.num_files_eval=30", "reader.batch_size_eval=3", "--generate", *keys, *more)
        out = self.folder / "out"
        ranks = []
        for rank in range(len(list(out.glob("*_output.json")))):
            steps = json.loads((out / f"{rank}_output.json").read_text())
            epochs = json.loads((out / f"{rank}_per_epoch_stats.json").read_text())
            train, evaluation = [], []
            for epoch in ("1", "2"):
                parts, first = [], 0
                counts = [epochs[epoch][f"block{i + 1}"] for i in range(blocks)]
                self.assertNotIn(f"block{blocks + 1}", epochs[epoch])
                total = len(steps[epoch]["load"])
                for block in counts:
                    part = slice(first, first + block["steps"])
                    parts.append([block["steps"] / total * x for x in dlio_figures(
                        steps[epoch]["load"][part], steps[epoch]["compute"][part], block["duration"], start,
                        total - end, 4, False)])
                    first += block["steps"]
                self.assertEqual(first, total)
                train.append([sum(part[i] for part in parts) for i in range(2)])
                name = f"eval_{epoch}"
                evaluation.append(dlio_figures(steps[name]["load"], steps[name]["compute"], epochs[name]["duration"], start,
                                               len(steps[name]["load"]) - end, 3, True))
            ranks.append((train, evaluation))
        metric = json.loads((out / "summary.json").read_text())["metric"]
        for kind, name in enumerate(("train", "eval")):
            utilisation = [sum(rank[kind][epoch][0] for rank in ranks) / len(ranks) for epoch in range(2)]
            speed = [sum(rank[kind][epoch][1] for rank in ranks) for epoch in range(2)]
            for ours, theirs in ((metric[f"{name}_au_percentage"], utilisation),
                                 (metric[f"{name}_throughput_samples_per_second"], speed)):
                for a, b in zip(ours, theirs, strict=True):
                    self.assertAlmostEqual(a / b, 1, places=6)
            self.assertAlmostEqual(metric[f"{name}_au_mean_percentage"] / (sum(utilisation) / 2), 1, places=6)
            self.assertAlmostEqual(metric[f"{name}_throughput_mean_samples_per_second"] / (sum(speed) / 2), 1, places=6)
            self.assertAlmostEqual(metric[f"{name}_io_mean_MB_per_second"] / (sum(speed) / 2 * 4096 / 2**20), 1, places=6)

    def test_are_those_of_its_formulas(self):
        self.check((), (), blocks=1)

    def test_leave_out_the_steps_that_do_not_count(self):
        self.check((), (), blocks=1, start=3, end=2)

    def test_are_weighted_means_if_checkpoints_divide_an_epoch(self):
        self.check((), ("checkpoint.steps_between_checkpoints=5",), blocks=3)

    @unittest.skipUnless(HAS_MPI, "no mpirun")
    def test_of_ranks_are_means_and_sums(self):
        self.check((), ("--accelerators=2",), blocks=1)


class CheckpointPhasesTest(BenchTest):
    """Writing and reading are measured apart, as MLPerf Storage asks for."""

    def checkpoints(self, *keys, code=0):
        workload = self.workload("synthetic", more=f"checkpoint: {{checkpoint_folder: {self.folder}/c}}")
        done = self.bench(workload, "workflow.train=false", "workflow.checkpoint=true", *keys, *(() if code else ("--json",)),
                          code=code)
        return done if code else json.loads(done.stdout)

    def contents(self):
        return {path.relative_to(self.folder): (path.read_bytes(), path.stat().st_mtime_ns)
                for path in (self.folder / "c").rglob("*") if path.is_file()}

    def test_a_read_phase_writes_nothing_and_reads_the_first_ones(self):
        figures = self.checkpoints("checkpoint.num_checkpoints_write=4")
        self.assertEqual((figures["checkpoint_saves"]["count"], figures["checkpoint_loads"]["count"]), (4, 0))
        before = self.contents()
        figures = self.checkpoints("checkpoint.num_checkpoints_write=0", "checkpoint.num_checkpoints_read=3")
        self.assertEqual((figures["checkpoint_saves"]["count"], figures["checkpoint_loads"]["count"]), (0, 3))
        self.assertEqual(self.contents(), before)
        metric = json.loads((self.folder / "out" / "summary.json").read_text())["metric"]
        self.assertIn("load_checkpoint_io_mean_GB_per_second", metric)
        self.assertNotIn("save_checkpoint_io_mean_GB_per_second", metric)
        self.assertGreater(metric["checkpoint_size_GB"], 0)

    @unittest.skipUnless(CAN_TRACE, "needs strace")
    def test_each_is_read_once(self):
        self.checkpoints("checkpoint.num_checkpoints_write=3")
        log = self.folder / "strace.log"
        workload = self.folder / "w.yaml"
        self.bench(workload, "workflow.train=false", "workflow.checkpoint=true", "checkpoint.num_checkpoints_write=0",
                   "checkpoint.num_checkpoints_read=3",
                   program=("strace", "-f", "-e", "trace=openat", "-o", str(log), MILLRACE))
        opened = [line.split('"')[1] for line in log.read_text().splitlines() if ".pt\"" in line]
        folders = [Path(path).parent.name for path in opened]
        self.assertEqual(sorted(set(folders)), [f"global_epoch1_step{i}" for i in (1, 2, 3)])
        self.assertEqual(len(opened), len(set(opened)))

    def test_a_flipped_byte_in_any_of_them_is_found(self):
        for step in (1, 2, 3):
            self.checkpoints("checkpoint.num_checkpoints_write=3")
            victim = next((self.folder / "c" / f"global_epoch1_step{step}").glob("*.pt"))
            data = bytearray(victim.read_bytes())
            data[len(data) // 2] ^= 1
            victim.write_bytes(data)
            done = self.checkpoints("checkpoint.num_checkpoints_write=0", "checkpoint.num_checkpoints_read=3", code=1)
            self.assertIn(f"global_epoch1_step{step}/", done.stderr)
            shutil.rmtree(self.folder / "c")

    def test_what_is_not_there_is_an_error_before_anything_is_made(self):
        done = self.checkpoints("checkpoint.num_checkpoints_write=0", "checkpoint.num_checkpoints_read=1", code=1)
        self.assertIn("global_epoch1_step1: there is no such checkpoint, but checkpoint.num_checkpoints_read asks for 1",
                      done.stderr)
        self.assertFalse((self.folder / "c").exists())
        self.checkpoints("checkpoint.num_checkpoints_write=2")
        done = self.checkpoints("checkpoint.num_checkpoints_write=0", "checkpoint.num_checkpoints_read=3", code=1)
        self.assertIn("global_epoch1_step3: there is no such checkpoint", done.stderr)
        before = self.contents()
        done = self.checkpoints("checkpoint.num_checkpoints_write=2", "checkpoint.num_checkpoints_read=2",
                                "checkpoint.keep=1", code=1)
        self.assertIn("global_epoch1_step1: would be removed before it is read back", done.stderr)
        self.assertEqual(self.contents(), before)

    def test_a_training_reads_back_the_first_ones_that_it_wrote(self):
        workload = self.workload(workflow=", checkpoint: True", more=f"checkpoint: {{checkpoint_folder: {self.folder}/c}}")
        self.bench(workload, "--generate", "workflow.train=false", "workflow.checkpoint=false")
        figures = self.figures(workload, "checkpoint.num_checkpoints_read=2", "checkpoint.steps_between_checkpoints=1")
        self.assertEqual((figures["checkpoint_saves"]["count"], figures["checkpoint_loads"]["count"]), (6, 2))
        done = self.bench(workload, "checkpoint.num_checkpoints_read=3", "checkpoint.keep=1")
        self.assertIn("but 1 checkpoint of this training can be read back", done.stderr)
        self.assertRegex(done.stdout, r"read back +1 time of")


class DamagedFilesTest(BenchTest):
    """Bytes that are no samples do not count as samples, with every format and loader."""

    # Format, samples in a file, keys; whether other bytes of the same length are noticed.
    CASES = (("npz", 1, (), True), ("npz", 3, (), True), ("npz", 1, ("dataset.compression=zip",), True),
             ("npy", 1, (), True), ("npy", 3, (), True), ("tfrecord", 1, (), True), ("tfrecord", 3, (), True),
             ("tfrecord", 3, ("dataset.record_length_bytes_stdev=500",), True),
             ("tfrecord", 3, ("dataset.compression=gzip",), True), ("jpeg", 1, (), True), ("png", 1, (), True),
             ("hdf5", 3, (), True), ("parquet", 3, (), True), ("csv", 1, (), True), ("csv", 3, (), True),
             ("csv", 3, ("dataset.compression=gzip",), True), ("tsv", 3, (), True), ("json", 3, (), True),
             ("jsonl", 3, (), True), ("raw", 1, (), False), ("indexed_binary", 1, (), False),
             ("indexed_binary", 3, (), False), ("mmap_indexed_binary", 1, (), False))
    FILES = 8

    def damage(self, how):
        """Damages a file, not the first one, and returns its name."""
        files = sorted(path for path in (self.folder / "data" / "train").iterdir() if path.suffix != ".idx")
        victim = files[3]
        data = victim.read_bytes()
        victim.write_bytes({"empty": b"", "cut": data[:len(data) * 2 // 3],
                            "garbage": random.Random(5).randbytes(len(data))}[how])
        return victim.name

    def check(self, how, loaders, formats):
        for format, samples, keys, is_noticed in self.CASES:
            if (how == "garbage" and not is_noticed) or (formats and format not in formats):
                continue
            shutil.rmtree(self.folder / "data", ignore_errors=True)
            workload = self.workload(format, self.FILES, samples)
            self.bench(workload, "--generate", "workflow.train=false", *keys)
            name = self.damage(how)
            for loader in loaders:
                with self.subTest(format=format, samples=samples, keys=keys, loader=loader):
                    done = self.bench(workload, *keys, f"--loader={loader}", code=1)
                    self.assertIn(name, done.stderr)
                    figures = self.figures(workload, *keys, f"--loader={loader}", "reader.on_error=skip")
                    read = [one["samples"] for one in figures["passes"]]
                    self.assertEqual(sum(read) + figures["bad_samples"], 2 * self.FILES * samples)
                    # A file that was cut may still have some whole samples.
                    low = (self.FILES - 1) * samples
                    high = low if how != "cut" else low + samples - 1
                    self.assertTrue(all(low <= one <= high for one in read), (low, read, high))

    def test_an_empty_file(self):
        self.check("empty", ("native",), ())

    def test_a_file_that_was_cut(self):
        self.check("cut", ("native",), ())

    def test_a_file_of_other_bytes(self):
        self.check("garbage", ("native",), ())

    def test_with_every_loader(self):
        for how in ("empty", "garbage"):
            self.check(how, ("pytorch", "tensorflow", "dali"), ("npz", "tfrecord", "csv"))

    def test_a_dataset_of_empty_files_is_no_success(self):
        workload = self.workload("jpeg", 6)
        self.bench(workload, "--generate", "workflow.train=false")
        for path in (self.folder / "data" / "train").iterdir():
            path.write_bytes(b"")
        self.assertIn("the sample is empty", self.bench(workload, code=1).stderr)
        (self.folder / "data" / "millrace-manifest.json").unlink()
        self.assertIn("the sample is empty", self.bench(workload, code=1).stderr)
        figures = self.figures(workload, "reader.on_error=skip")
        self.assertEqual([one["samples"] for one in figures["passes"]], [0, 0])
        self.assertEqual(figures["bad_samples"], 12)

    def test_in_memory_and_on_ranks(self):
        workload = self.workload("csv", self.FILES, 3)
        self.bench(workload, "--generate", "workflow.train=false")
        self.damage("garbage")
        figures = self.figures(workload, "reader.on_error=skip", "reader.read_type=memory")
        self.assertEqual((figures["passes"][0]["samples"], figures["bad_samples"]), (21, 6))
        if HAS_MPI:
            figures = self.figures(workload, "reader.on_error=skip", "--accelerators=2")
            self.assertEqual((figures["passes"][0]["samples"], figures["bad_samples"]), (21, 6))

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "no PyTorch")
    def test_with_the_loader_of_pytorch_itself(self):
        for format in ("npz", "npy", "png", "raw"):
            with self.subTest(format=format):
                shutil.rmtree(self.folder / "data", ignore_errors=True)
                workload = self.workload(format, self.FILES)
                self.bench(workload, "--generate", "workflow.train=false")
                read = [MILLRACE, "bench", str(workload), "--real-loader=torch"]
                environment = {**os.environ, "MILLRACE_PYTHON": sys.executable}
                done = subprocess.run(read, capture_output=True, text=True, check=False, env=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                name = self.damage("cut")
                done = subprocess.run(read, capture_output=True, text=True, check=False, env=environment)
                self.assertEqual(done.returncode, 1, done.stdout)
                if format == "raw":
                    self.assertRegex(done.stderr, rf"{name}: has \d+ bytes, but 4096 were generated")
        workload = self.workload("tfrecord", self.FILES)
        done = subprocess.run([MILLRACE, "bench", str(workload), "--real-loader=torch"], capture_output=True, text=True,
                              check=False, env=environment)
        self.assertEqual(done.returncode, 1)
        self.assertIn("but the format is tfrecord", done.stderr)

    def test_the_cost_of_the_checks_is_shown(self):
        done = self.bench(self.workload(), "--generate")
        self.assertRegex(done.stdout, r"checks +[0-9.]+ us a sample: length, structure, checksums")
        self.assertGreater(json.loads((self.folder / "out" / "millrace.json").read_text())["check_us_per_sample"], 0)


class ColdCacheTest(BenchTest):
    """A cold run is cold when its first sample is read."""

    @unittest.skipUnless(CAN_TRACE, "needs strace")
    def test_files_are_dropped_after_they_were_read_for_their_index(self):
        for format in ("tfrecord", "csv", "jsonl"):
            with self.subTest(format=format):
                shutil.rmtree(self.folder / "data", ignore_errors=True)
                workload = self.workload(format, 6, 3)
                self.bench(workload, "--generate", "workflow.train=false")
                log = self.folder / "strace.log"
                self.bench(workload, "--cache=drop", "train.epochs=1", "--loader=pytorch",
                           program=("strace", "-f", "-y", "-e", "trace=read,pread64,fadvise64", "-o", str(log), MILLRACE))
                calls = self.calls(log)
                drops = [i for i, (call, _, _) in enumerate(calls) if call == "fadvise64"]
                self.assertEqual(len(drops), 6, calls)
                self.assertIn("read", "".join(call for call, _, _ in calls[:drops[0]]), "nothing was indexed before")
                after = {path.name: 0 for path in (self.folder / "data" / "train").iterdir()}
                for call, name, result in calls[drops[-1]:]:
                    after[name] += result if "read" in call else 0
                for path in (self.folder / "data" / "train").iterdir():
                    self.assertGreater(after[path.name], 3 * 3600)
                    self.assertLessEqual(after[path.name], path.stat().st_size, "read twice")

    def test_inflated_files_are_not_kept_from_their_index(self):
        workload = self.workload("tfrecord", 6, 3)
        figures = self.figures(workload, "dataset.compression=gzip", "--generate")
        size = sum(path.stat().st_size for path in (self.folder / "data" / "train").iterdir())
        self.assertGreaterEqual(figures["passes"][0]["bytes_read"], size)

    @staticmethod
    def calls(log):
        """The calls on files of the dataset, in the order of their ends: (name, file, result)."""
        begun, calls = {}, []
        for line in log.read_text().splitlines():
            thread, rest = line.split(maxsplit=1)
            if "/data/train/" in rest:
                begun[thread] = (rest.split("(")[0], rest.split("/data/train/")[1].split(">")[0])
            if thread in begun and " = " in rest:
                calls.append((*begun.pop(thread), int(rest.rsplit(" = ", 1)[1].split()[0])))
        return calls


class OwnFilesTest(BenchTest):
    """What others have put into the folders of a run stays."""

    def test_results_of_others_are_not_replaced(self):
        workload = self.workload(files=4)
        self.bench(workload, "--generate")
        self.bench(workload)
        for name in ("summary.json", "millrace.json", "0_output.json"):
            mine = self.folder / "out" / name
            mine.write_text("mine")
            done = self.bench(workload, code=1)
            self.assertIn(f"{mine}: millrace did not write it, or it changed since; remove it, or choose another", done.stderr)
            self.assertEqual(mine.read_text(), "mine")
            mine.unlink()
        (self.folder / "out" / "notes.txt").write_text("mine")
        self.bench(workload)
        self.assertEqual((self.folder / "out" / "notes.txt").read_text(), "mine")

    def test_checkpoints_and_datasets_of_others_stay(self):
        checkpoints = self.folder / "c"
        for path in ("c/global_epoch2_step3/my_real_weights.pt", "c/.partial-global_epoch7_step7/important",
                     "data/.millrace-partial-0123abcd/0-0/important"):
            (self.folder / path).parent.mkdir(parents=True)
            (self.folder / path).write_text("mine")
        workload = self.workload(workflow=", checkpoint: True", more=f"checkpoint: {{checkpoint_folder: {checkpoints}}}")
        done = self.bench(workload, "--generate", code=1)
        self.assertIn("global_epoch2_step3: has 'my_real_weights.pt', which millrace did not write", done.stderr)
        (checkpoints / "global_epoch2_step3").rename(checkpoints / "moved")
        done = self.bench(workload, "--generate", "dataset.keep_files=false")
        self.assertRegex(done.stderr, r"warning: .*/c/.partial-global_epoch7_step7: has 'important', which millrace did not")
        self.assertRegex(done.stderr, r"warning: .*/data/.millrace-partial-0123abcd: has files that millrace did not write")
        self.bench(workload, "--generate")  # replaces the checkpoint of the run before
        for path in ("c/moved/my_real_weights.pt", "c/.partial-global_epoch7_step7/important",
                     "data/.millrace-partial-0123abcd/0-0/important"):
            self.assertEqual((self.folder / path).read_text(), "mine")
        self.assertEqual(sorted(path.name for path in checkpoints.iterdir()),
                         [".partial-global_epoch7_step7", "global_epoch1_step3", "global_epoch2_step3", "moved"])


class KeysTest(BenchTest):
    """Keys of DLIO, by what a user sees of them."""

    def test_the_log_file_has_epochs_and_checkpoints(self):
        self.bench(self.workload(workflow=", checkpoint: True", more=f"checkpoint: {{checkpoint_folder: {self.folder}/c}}"),
                   "output.log_file=run.log", "reader.pin_memory=true", "--generate")
        log = (self.folder / "out" / "run.log").read_text()
        for text in ("[INFO]", "[WARNING]", "pin_memory=true has no effect", "generated 12 files", "epoch 1 begins",
                     "epoch 2 ends: 3 steps, 12 samples", "checkpoint in epoch 2 after step 6 ends", "utilisation"):
            self.assertIn(text, log)

    def test_keep_files_false_deletes_what_was_generated_and_nothing_else(self):
        workload = self.workload("indexed_binary")
        self.bench(workload, "dataset.keep_files=false", "--generate")
        self.assertFalse((self.folder / "data").exists())
        self.bench(workload, "--generate", "workflow.train=false")
        mine = self.folder / "data" / "train" / "mine.txt"
        mine.write_text("x")
        self.bench(workload, "dataset.keep_files=false")
        self.assertEqual([path for path in (self.folder / "data").rglob("*") if path.is_file()], [mine])
        self.bench(self.workload("npz"), "--generate", "workflow.train=false")
        (self.folder / "data" / "millrace-manifest.json").unlink()
        done = self.bench(self.workload("npz"), "dataset.keep_files=false", code=1)
        self.assertIn("will not delete it", done.stderr)
        self.assertEqual(len(list((self.folder / "data" / "train").glob("*.npz"))), 12)

    def test_other_programs_read_compressed_npz_and_csv(self):
        keys = ("dataset.content=physics", "dataset.record_element_type=float32", "dataset.record_dims=[32,32]")
        for format, samples, compression in (("npz", 1, "zip"), ("npz", 5, "zip"), ("csv", 5, "gzip")):
            with self.subTest(format=format, samples=samples):
                shutil.rmtree(self.folder / "data", ignore_errors=True)
                workload = self.workload(format, 4, samples)
                figures = self.figures(workload, *keys, f"dataset.compression={compression}", "--generate", "--verify")
                self.check_all_read(figures, 4 * samples)
                path = self.folder / "data" / "train" / f"img_0_of_4.{format}"
                if format == "csv":
                    rows = list(csv.reader(gzip.open(f"{path}.gz", "rt")))
                    self.assertEqual({len(row) for row in rows[-samples:]}, {1024})
                    continue
                with zipfile.ZipFile(path) as archive:
                    self.assertIsNone(archive.testzip())
                    info = archive.getinfo("x.npy")
                    self.assertEqual(info.compress_type, zipfile.ZIP_DEFLATED)
                    self.assertLess(info.compress_size, info.file_size)
                # Keeps what is complete.
                self.bench(workload, *keys, "dataset.compression=zip", "--generate", "workflow.train=false")

    @unittest.skipUnless(h5py, "no h5py")
    def test_hdf5_datasets_have_the_chunks_and_the_maximum_that_were_asked_for(self):
        keys = ("dataset.record_dims=[8,6]", "dataset.hdf5.max_shape=[20,6]")
        workload = self.workload("hdf5", 2, 5)
        for chunk, wanted in (("[4,3]", (1, 4, 3)), ("[2,8,6]", (2, 8, 6))):
            shutil.rmtree(self.folder / "data", ignore_errors=True)
            figures = self.figures(workload, *keys, f"dataset.hdf5.chunk_dims={chunk}", "--generate", "--verify")
            self.check_all_read(figures, 10)
            with h5py.File(self.folder / "data" / "train" / "img_0_of_2.hdf5") as file:
                self.assertEqual(file["records_0"].chunks, wanted)
                self.assertEqual(file["records_0"].maxshape, (5, 20, 6))
                self.assertIsNone(file["labels"].chunks)

    def test_a_tensorflow_loader_fills_its_shuffle_buffer_before_the_first_batch(self):
        workload = self.workload("tfrecord", 4, 16)
        self.bench(workload, "--generate", "workflow.train=false")
        trace = self.folder / "t"
        def read_before_first_step(size):
            shutil.rmtree(trace, ignore_errors=True)
            self.bench(workload, "--loader=tensorflow", f"reader.shuffle_size={size}", "reader.prefetch_size=1",
                       "train.epochs=1", "train.computation_time=0.3", "train.total_training_steps=1",
                       "reader.transfer_size=4096", "reader.read_threads=1",
                       program=(MILLRACE, "trace", "-o", trace, "--", MILLRACE))
            done = subprocess.run([MILLRACE, "query", trace, "--csv",
                                   "SELECT count(*) FROM events WHERE file LIKE '%.tfrecord' AND kind = 'read' AND begin < "
                                   "(SELECT min(begin) FROM events WHERE name = 'compute')"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return int(done.stdout.split()[1])
        self.assertGreater(read_before_first_step(64), 60)
        self.assertLess(read_before_first_step(1), 60)


@unittest.skipUnless(HAS_MPI, "no mpirun")
class RanksTest(BenchTest):
    def test_any_number_of_ranks_reads_each_sample_once(self):
        workload = self.workload("tfrecord", 3, 5)
        self.bench(workload, "--generate", "workflow.train=false", "--accelerators=2")
        for loader in ("native", "tensorflow"):
            figures = self.figures(workload, "--accelerators=4", f"--loader={loader}")
            self.check_all_read(figures, 15)
            self.assertEqual(len(figures["ranks_passes"]), 4)

    def test_a_bad_sample_on_one_rank_ends_all(self):
        workload = self.workload("tfrecord", 6, 1)
        self.bench(workload, "--generate", "workflow.train=false")
        victim = sorted((self.folder / "data" / "train").iterdir())[4]
        data = bytearray(victim.read_bytes())
        data[100] ^= 1
        victim.write_bytes(data)
        done = self.bench(workload, "--accelerators=3", "--verify", code=1)
        self.assertIn(victim.name, done.stderr)


class BadInputTest(BenchTest):
    def test_a_dataset_that_is_not_there(self):
        done = self.bench(self.workload(), code=1)
        self.assertIn("--generate", done.stderr)

    def test_a_dataset_of_other_keys_is_refused(self):
        self.bench(self.workload(), "--generate", "workflow.train=false")
        done = self.bench(self.workload(), "dataset.record_length_bytes=5000", code=1)
        self.assertIn("record_length_bytes", done.stderr)
        (self.folder / "data" / "millrace-manifest.json").unlink()
        done = self.bench(self.workload(), "--verify", code=1)
        self.assertIn("has no manifest", done.stderr)

    def test_a_truncated_sample_is_named_or_left_out(self):
        workload = self.workload()
        self.bench(workload, "--generate", "workflow.train=false")
        victim = sorted((self.folder / "data" / "train").iterdir())[7]
        victim.write_bytes(victim.read_bytes()[:1000])
        for loader in ("native", "pytorch", "tensorflow"):
            done = self.bench(workload, "--verify", f"--loader={loader}", code=1)
            self.assertIn(victim.name, done.stderr)
            figures = self.figures(workload, "--verify", f"--loader={loader}", "reader.on_error=skip")
            self.assertEqual(figures["bad_samples"], 2)
            self.assertEqual(figures["passes"][0]["samples"], 11)

    def test_a_misspelt_key_is_named_with_its_line(self):
        path = self.workload(more="training: {epochs: 3}")
        done = self.bench(path, code=1)
        self.assertIn(f"{path}:13", done.stderr)
        self.assertIn("train", done.stderr)
        done = self.bench(self.workload(), "train.epoch=3", code=1)
        self.assertIn("epochs", done.stderr)


if __name__ == "__main__":
    unittest.main()
