#!/usr/bin/env python3
"""The figures of `millrace bench`, each as a ratio to a floor or a peer of the same run.

    benchmarks/bench_figures.py [--build build/release] [--folder DIR] [--dlio ENVIRONMENT] [--only NAME...]

`--dlio` is an environment of benchmarks/peers.sh dlio. Needs numpy; hdf5 and hdf5_gzip also h5py. Prints a table.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECORD = 115 * 1024
COUNT = 4096
ROUNDS = 5
# Formats, files and samples a file. Text takes about four bytes for one of a record.
GENERATED = [("npz", COUNT, 1), ("npz", 8, COUNT // 8), ("npy", COUNT, 1), ("tfrecord", 8, COUNT // 8),
             ("hdf5", COUNT, 1), ("hdf5", 8, COUNT // 8), ("raw", COUNT, 1), ("indexed_binary", 8, COUNT // 8),
             ("mmap_indexed_binary", 8, COUNT // 8), ("megatron", 8, COUNT // 8),
             ("parquet", 8, COUNT // 8), ("jpeg", COUNT, 1), ("png", COUNT, 1),
             ("csv", 8, COUNT // 32), ("tsv", 8, COUNT // 32), ("json", 8, COUNT // 32), ("jsonl", 8, COUNT // 32)]


def percents(values):
    return " ".join(f"{value:.1%}" for value in values)


class Figures:
    def __init__(self, options):
        self.build = Path(options.build).resolve()
        self.millrace = self.build / "bin" / "millrace"
        self.folder = Path(tempfile.mkdtemp(prefix="bench-figures-", dir=options.folder))
        self.dlio = options.dlio
        self.rows = []

    def row(self, figure, target, measured):
        self.rows.append((figure, target, measured))
        print(f"{figure:<44} {target:<32} {measured}", flush=True)

    def bench(self, text, *words):
        """Runs a workload; returns its figures."""
        file = self.folder / "w.yaml"
        file.write_text(text)
        output = self.folder / "results"
        shutil.rmtree(output, ignore_errors=True)
        subprocess.run([self.millrace, "bench", file, f"--output={output}", *words], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        results = output / "millrace.json"
        return json.loads(results.read_text()) if results.exists() else None

    def dataset(self, name, format, files, samples=1):
        return f"""
model: {{name: figures}}
framework: pytorch
workflow: {{generate_data: False, train: True}}
dataset:
  data_folder: {self.folder}/{name}
  format: {format}
  num_files_train: {files}
  num_samples_per_file: {samples}
  record_length_bytes: {RECORD}
reader: {{data_loader: native, batch_size: 32, read_threads: 2, file_shuffle: seed, sample_shuffle: seed}}
train: {{epochs: 3, computation_time: 0.0}}
"""

    def null(self):
        """In turns with a loop that only sleeps: on a machine whose sleeps end late, that loop is the limit."""
        step, runs, floors = 0.000375, [], []
        for _ in range(ROUNDS):
            floors.append(float(subprocess.run([self.build / "bin" / "bench_step_floor", str(step), "8192"],
                                               check=True, capture_output=True).stdout))
            runs.append(self.bench(f"""
model: {{name: null_storage}}
framework: pytorch
workflow: {{train: True}}
dataset: {{format: synthetic, num_files_train: 64, num_samples_per_file: 1048576, record_length_bytes: 761}}
reader: {{batch_size: 16384, read_threads: 2}}
train: {{epochs: 2, computation_time: {step}}}
"""))
        best, own = max(run["au"] for run in runs), runs[0]["passes"][-1]["harness_us_per_step"]
        self.row("null storage, steps of 0.375 ms", "utilisation >= 99 %",
                 f"best {best:.2%}, all {percents(run['au'] for run in runs)}; a loop that only sleeps "
                 f"{percents(floors)} (own cost {own:.1f} us a step)")
        first = runs[0]["setup_seconds"] + runs[0]["passes"][0]["first_batch_seconds"]
        self.row("start to first step", "<= 0.1 s", f"{first:.3f} s")

    def npz(self):
        text = self.dataset("npz", "npz", COUNT)
        self.bench(text, "--generate", "workflow.train=false")
        floor = self.floor("npz")
        ours = max(one["samples_per_second"] for one in self.bench(text)["passes"])
        dlio = self.dlio_speed("npz", 1)
        self.row("NPZ 115 KB x 4,096, page cache", ">= 0.5 of open+read+close",
                 f"{ours / floor:.2f} ({ours:,.0f}/s, floor {floor:,.0f}/s{dlio})")

    def hdf5(self):
        text = self.dataset("hdf5", "hdf5", 64, COUNT // 64)
        self.bench(text, "--generate", "workflow.train=false")
        passes = self.bench(text)["passes"]
        one = self.bench(text, "reader.read_threads=1")["passes"]
        ours = max(each["samples_per_second"] for each in passes)
        single = max(each["samples_per_second"] for each in one)
        peer = self.h5py_speed("hdf5")
        dlio = self.dlio_speed("hdf5", COUNT // 64, own_files=True)  # it names its dataset otherwise
        self.row("HDF5 115 KB", ">= 2x h5py, >= 5x DLIO",
                 f"{ours / peer:.2f}x h5py with 2 threads, {single / peer:.2f}x with 1 ({ours:,.0f}/s, "
                 f"h5py {peer:,.0f}/s{dlio})")

    def hdf5_gzip(self):
        """Rounds are interleaved, and the best of each counts."""
        text = self.dataset("hdf5_gzip", "hdf5", 8, 64)
        floats = ["dataset.compression=gzip", "dataset.enable_chunking=True", "dataset.content=physics",
                  "dataset.record_element_type=float32"]
        self.bench(text, "--generate", "workflow.train=false", *floats)
        ours = peer = 0
        for _ in range(3):
            passes = self.bench(text, *floats, "reader.read_threads=1")["passes"]
            ours = max(ours, *(each["samples_per_second"] for each in passes))
            peer = max(peer, self.h5py_speed("hdf5_gzip"))
        self.row("HDF5 115 KB of float32, gzip chunks", ">= 2x h5py, 1 thread",
                 f"{ours / peer:.2f}x h5py ({ours:,.0f}/s, h5py {peer:,.0f}/s)")

    def h5py_speed(self, name):
        import h5py
        begin, count = time.monotonic(), 0
        for path in sorted((self.folder / name / "train").iterdir()):
            with h5py.File(path) as file:
                data = file[next(name for name in file if name != "labels")]
                for i in range(data.shape[0]):
                    data[i]
                    count += 1
        return count / (time.monotonic() - begin)

    def generation(self):
        """Each format beside dd, which writes as many bytes to the same place; the rounds alternate."""
        for format, files, samples in GENERATED:
            name = f"generated-{format}-{samples}"
            text = self.dataset(name, format, files, samples)
            ours = floor = 0
            for _ in range(3):
                begin = time.monotonic()
                self.bench(text, "--generate", "workflow.train=false")
                taken = time.monotonic() - begin
                size = sum(path.stat().st_size for path in (self.folder / name).rglob("*") if path.is_file())
                ours = max(ours, size / taken)
                shutil.rmtree(self.folder / name)
                floor = max(floor, self.dd(size))
            self.row(f"generation, {format}, {files:,} x {samples}", ">= 0.8 of dd",
                     f"{ours / floor:.2f} ({ours / 1e6:,.0f} MB/s, dd {floor / 1e6:,.0f} MB/s, {size / 1e6:,.0f} MB)")

    def memory(self):
        """Ten million names, of which the first 64 are files."""
        count = 10_000_000
        folder = self.folder / "many" / "train"
        folder.mkdir(parents=True)
        for i in range(64):
            (folder / f"img_{i:08}_of_{count}.npy").write_bytes(b"")
        text = self.dataset("many", "npy", count).replace("file_shuffle: seed, sample_shuffle: seed", "on_error: skip")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        begin = time.monotonic()
        self.bench(text, "train.total_training_steps=1")
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        peak = "at most " if after == before else ""
        self.row("memory for 10 M files", "<= 1 GB",
                 f"{peak}{after / 1e6:.2f} GB ({time.monotonic() - begin:.1f} s)")

    def floor(self, name):
        return float(subprocess.run([self.build / "bin" / "bench_read_floor", self.folder / name / "train", "2"],
                                    check=True, capture_output=True, text=True).stdout)

    def dd(self, size):
        """Bytes per second."""
        path = self.folder / "dd"
        begin = time.monotonic()
        subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={size >> 20}", "status=none"], check=True)
        taken = time.monotonic() - begin
        path.unlink()
        return (size >> 20 << 20) / taken

    def dlio_speed(self, name, samples, own_files=False):
        """DLIO's samples/s on the same files, or on files that it made; as text, empty without DLIO."""
        if not self.dlio:
            return ""
        output = self.folder / "dlio"
        shutil.rmtree(output, ignore_errors=True)
        config = self.folder / "dlio-config" / "workload"
        config.mkdir(parents=True, exist_ok=True)
        text = self.dataset(name, name, COUNT // samples, samples).replace("data_loader: native", "data_loader: pytorch")
        if own_files:
            text = text.replace("generate_data: False", "generate_data: True").replace(f"/{name}\n", f"/dlio-{name}\n")
        (config / "figures.yaml").write_text(text.replace("epochs: 3", "epochs: 1"))
        done = subprocess.run([Path(self.dlio) / "bin" / "dlio_benchmark", "workload=figures",
                               f"++hydra.run.dir={output}", "--config-dir", config.parent],
                              capture_output=True, text=True, cwd=self.folder, check=False)
        try:
            metric = json.loads((output / "summary.json").read_text())["metric"]
            return f", DLIO {metric['train_throughput_mean_samples_per_second']:,.0f}/s"
        except (OSError, KeyError, ValueError):
            print(done.stderr[-2000:], file=sys.stderr)
            return ", DLIO failed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--folder", help="where the datasets go (the folder for temporary files)")
    parser.add_argument("--dlio", help="an environment with dlio_benchmark")
    figures = ["null", "npz", "hdf5", "hdf5_gzip", "generation", "memory"]
    parser.add_argument("--only", nargs="+", choices=figures, default=figures)
    options = parser.parse_args()
    run = Figures(options)
    try:
        for name in options.only:
            getattr(run, name)()
    finally:
        shutil.rmtree(run.folder, ignore_errors=True)


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C"
    main()
