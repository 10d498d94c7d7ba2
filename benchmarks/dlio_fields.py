#!/usr/bin/env python3
"""The same work by DLIO and by `millrace bench`: what each of them writes about it, field by field.

    benchmarks/dlio_fields.py --dlio COMMAND [--millrace build/release/bin/millrace] [--format npz ...]

COMMAND starts dlio_benchmark of June 2026 or later in an environment of its own; the formulas of its release 2.0.0 on PyPI are
others. For each format, DLIO generates the files. Both train on them, evaluate, write checkpoints, and read them in a run of its own.
A row is a field of summary.json or of the two files of rank 0; the last column says whether the values are as they must be:

    equal     the same number: steps, samples, checkpoints
    size      the same number of bytes, within a hundredth
    speed     a speed or a utilisation: not below DLIO's, and not above what the computing allows (a step takes 50 or 30 ms)
    formula   the field of DLIO, computed again from its own times of steps by the formulas of tests/bench/run_test.py, which
              are also those that Millrace's fields are compared with there

Exit code 1: a field differs. docs/measurements.md has the result.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).absolute().parents[1]
BATCH, EVAL_BATCH = 4, 2
WORKLOAD = """
model: {{name: compare, type: transformer, model_size: 1000000, num_layers: 2,
        transformer: {{vocab_size: 1000, hidden_size: 64, ffn_hidden_size: 128, num_attention_heads: 4, num_kv_heads: 4}},
        parallelism: {{tensor: 1, pipeline: 1, zero_stage: 0}}}}
framework: pytorch
workflow: {{generate_data: False, train: True, evaluation: True, checkpoint: False}}
dataset: {{data_folder: {folder}/data, format: {format}, num_files_train: 96, num_files_eval: 32, num_samples_per_file: 1,
          record_length_bytes: 65536}}
reader: {{data_loader: pytorch, batch_size: 4, batch_size_eval: 2, read_threads: 1}}
train: {{epochs: 2, computation_time: 0.05}}
evaluation: {{eval_time: 0.03}}
checkpoint: {{checkpoint_folder: {folder}/checkpoints, mode: default, fsync: True, num_checkpoints_write: 2,
             num_checkpoints_read: 2, time_between_checkpoints: 0}}
metric: {{au: 0.5}}
"""
TRAINING = ("workflow.train=True",)
WRITING = ("workflow.train=False", "workflow.evaluation=False", "workflow.checkpoint=True", "checkpoint.num_checkpoints_read=0")
READING = ("workflow.train=False", "workflow.evaluation=False", "workflow.checkpoint=True", "checkpoint.num_checkpoints_write=0")


def formulas() -> Any:
    os.environ.setdefault("MILLRACE", "millrace")
    spec = importlib.util.spec_from_file_location("run_test", REPOSITORY / "tests/bench/run_test.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dlio_figures


class Tool:
    """One of the two programs, with a folder for its results."""

    def __init__(self, name: str, folder: Path, command: list[str]) -> None:
        self.name, self.folder, self.command = name, folder, command

    def run(self, what: str, settings: tuple) -> dict[str, Any]:
        out = self.folder / f"{what}-{self.name}"
        if self.name == "DLIO":
            words = [*self.command, "workload=compare", *(f"++workload.{setting}" for setting in settings),
                     f"++workload.output.folder={out}", f"++hydra.run.dir={out}", f"--config-dir={self.folder}/conf"]
        else:
            words = [*self.command, "bench", f"{self.folder}/conf/workload/compare.yaml", *settings, f"--output={out}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "DFTRACER_ENABLE": "0"},
                              cwd=self.folder)
        if done.returncode != 0 or not (out / "summary.json").exists() and "generate" not in what:
            raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return {path.name: json.loads(path.read_text()) for path in out.glob("*.json")}


class Table:
    def __init__(self) -> None:
        self.wrong = 0

    def row(self, what: str, dlio: Any, ours: Any, rule: str, most: float = 0) -> None:
        def shown(value: Any) -> str:
            return f"{value:.4g}" if isinstance(value, float) else str(value)

        if rule == "equal":
            fine = dlio == ours
        elif rule == "speed":
            fine = 0.97 * dlio <= ours <= most
        else:
            fine = abs(ours - dlio) <= 0.01 * abs(dlio)
        self.wrong += not fine
        print(f"| {what} | {shown(dlio)} | {shown(ours)} | {rule}{'' if fine else ': DIFFERS'} |", flush=True)


def first(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


def seconds_of(part: dict) -> float:
    """DLIO rounds the duration itself."""
    return (datetime.fromisoformat(part["end"]) - datetime.fromisoformat(part["start"])).total_seconds()


def compare_training(table: Table, dlio: dict, ours: dict) -> None:
    for epoch in ("1", "2"):
        steps = dlio["0_output.json"][epoch]["load"]
        for part, name in (("block1", epoch), ("eval", f"eval_{epoch}")):
            table.row(f"{part} of epoch {epoch}: steps", len(steps[part]), len(ours["0_output.json"][name]["load"]), "equal")
    names = dlio["summary.json"], ours["summary.json"]
    for name in ("num_accelerators", "num_files_train", "num_files_eval", "num_samples_per_file", "epochs"):
        table.row(name, first(names[0].get(name)), first(names[1].get(name)), "equal")
    metrics = [summary["metric"] for summary in names]
    most = {"train": 22 * BATCH / (23 * 0.05), "eval": EVAL_BATCH / 0.03}  # as the formulas have it
    for kind in ("train", "eval"):
        for name, bound in (("au_mean_percentage", 100), ("throughput_mean_samples_per_second", most[kind]),
                            ("io_mean_MB_per_second", most[kind] / 16)):
            table.row(f"{kind}_{name}", *(metric.get(f"{kind}_{name}") for metric in metrics), "speed", bound * 1.001)
    for name in ("train_au_meet_expectation", "eval_au_meet_expectation"):
        table.row(name, *(metric.get(name) for metric in metrics), "equal")
    figures = formulas()
    for kind, part, batch in (("train", "block1", BATCH), ("eval", "eval", EVAL_BATCH)):
        for number in (1, 2):
            steps = dlio["0_output.json"][str(number)]
            load, whole, compute = (steps[what][part] for what in ("load", "proc", "compute"))
            # What is neither loading nor computing counts as loading here.
            load = [a + max(0.0, b - a - c) for a, b, c in zip(load, whole, compute)]
            duration = seconds_of(dlio["0_per_epoch_stats.json"][str(number)][part])
            busy, speed = figures(load, compute, duration, 1, len(load), batch, part == "eval")
            table.row(f"{kind}_au_percentage[{number - 1}]", metrics[0][f"{kind}_au_percentage"][number - 1], busy, "formula")
            table.row(f"{kind}_throughput_samples_per_second[{number - 1}]",
                      metrics[0][f"{kind}_throughput_samples_per_second"][number - 1], speed, "formula")


def compare_checkpoints(table: Table, folder: Path, kind: str, dlio: dict, ours: dict) -> None:
    metrics = [results["summary.json"]["metric"] for results in (dlio, ours)]
    # DLIO writes NaN for checkpoints that it did not write.
    keys = [sorted(key for key, value in metric.items() if "checkpoint" in key and value == value) for metric in metrics]
    table.row(f"{kind}: fields of checkpoints", " ".join(keys[0]), " ".join(keys[1]), "equal")
    table.row(f"{kind}: checkpoint_size_GB", *(float(metric["checkpoint_size_GB"]) for metric in metrics), "size")
    count = sum(key.startswith(f"{kind}_ckpt") for key in dlio["0_per_epoch_stats.json"]["1"])
    table.row(f"{kind}: checkpoints", count, ours["millrace.json"][f"checkpoint_{kind}s"]["count"], "equal")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dlio", required=True)
    parser.add_argument("--millrace", default=str(REPOSITORY / "build/release/bin/millrace"))
    parser.add_argument("--format", nargs="+", default=["npz", "hdf5", "jpeg", "png", "npy"])
    parser.add_argument("--keep", type=Path, help="a folder for the results of both")
    arguments = parser.parse_args()
    table = Table()
    for format_ in arguments.format:
        folder = arguments.keep or Path(tempfile.mkdtemp(prefix="dlio-fields-"))
        (folder / "conf/workload").mkdir(parents=True, exist_ok=True)
        (folder / "conf/workload/compare.yaml").write_text(WORKLOAD.format(folder=folder, format=format_))
        theirs, mine = Tool("DLIO", folder, [arguments.dlio]), Tool("Millrace", folder, [arguments.millrace])
        theirs.run("generate", ("workflow.generate_data=True", "workflow.train=False", "workflow.evaluation=False"))
        print(f"\n{format_}\n\n| field | DLIO | Millrace | must be |\n|---|---|---|---|")
        compare_training(table, theirs.run("train", TRAINING), mine.run("train", TRAINING))
        if format_ == arguments.format[0]:
            for what, settings, kind in (("write", WRITING, "save"), ("read", READING, "load")):
                results = []
                for tool in (theirs, mine):
                    own = f"checkpoint.checkpoint_folder={folder}/checkpoints-{tool.name}"
                    results.append(tool.run(what, (*settings, own)))
                compare_checkpoints(table, folder, kind, *results)
        if not arguments.keep:
            shutil.rmtree(folder)
    print(f"\n{table.wrong} fields differ")
    return table.wrong > 0


if __name__ == "__main__":
    sys.exit(main())
