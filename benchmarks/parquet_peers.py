#!/usr/bin/env python3
"""What it costs to decode and to write Parquet files: Millrace compared with pyarrow.

    python3 -m venv DIR && DIR/bin/pip install pyarrow
    DIR/bin/python benchmarks/parquet_peers.py            # from the root, after cmake --workflow --preset bench

Each file is written by bench_parquet (random floats, integers below 1,000, words; several codecs), then read by both in
turn, from the page cache. Both verify checksums. Prints the best time of the rounds and the ratio: CPU
time with one thread, otherwise wall time. `columns` is Millrace's decoding of row
groups, which is what pyarrow does; `rows` also assembles each row as a sample."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet

CASES = [(kind, codec) for kind in ("floats", "integers", "words") for codec in ("none", "snappy", "zstd")]


def run(program, *words) -> float:
    return float(subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True).stdout)


def now(threads: int) -> float:
    return time.process_time() if threads == 1 else time.perf_counter()


def pyarrow_read(path: Path, threads: int) -> float:
    pyarrow.set_cpu_count(threads)
    begin = now(threads)
    file = pyarrow.parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)
    for group in range(file.num_row_groups):
        file.read_row_group(group, use_threads=threads > 1)
    return now(threads) - begin


def pyarrow_write(path: Path, codec: str, group_rows: int, threads: int) -> float:
    table = pyarrow.parquet.read_table(path)
    begin = now(threads)
    pyarrow.parquet.write_table(table, path.with_suffix(".theirs"), compression=codec, row_group_size=group_rows,
                                write_statistics=False, write_page_checksum=True)
    return now(threads) - begin


def measure(options, kind: str, codec: str, path: Path) -> dict:
    size = ("write", path, options.columns, options.rows, options.row_group_rows, codec, kind, options.threads)
    best = {"write": min(run(options.program, *size) for _ in range(options.rounds))}
    best["pyarrow write"] = min(pyarrow_write(path, codec, options.row_group_rows, options.threads) for _ in range(options.rounds))
    for _ in range(options.rounds):
        for name, spent in (("columns", run(options.program, "read", path, options.threads, 3)),
                            ("rows", run(options.program, "rows", path, options.threads, 1)),
                            ("pyarrow", min(pyarrow_read(path, options.threads) for _ in range(3)))):
            best[name] = min(best.get(name, spent), spent)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--row-group-rows", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--program", type=Path, default=Path("build/release/bin/bench_parquet"))
    options = parser.parse_args()
    print(f"{options.columns} columns, {options.rows} rows, row groups of {options.row_group_rows}, {options.threads} threads; "
          f"pyarrow {pyarrow.__version__}; seconds, and pyarrow / Millrace")
    print(f"{'':18}{'MB':>6}{'read':>9}{'pyarrow':>9}{'ratio':>7}{'rows':>9}{'write':>9}{'pyarrow':>9}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as directory:
        for kind, codec in CASES:
            path = Path(directory) / "x.parquet"
            best = measure(options, kind, codec, path)
            print(f"{kind + ' ' + codec:18}{path.stat().st_size / 1e6:6.1f}{best['columns']:9.4f}{best['pyarrow']:9.4f}"
                  f"{best['pyarrow'] / best['columns']:7.2f}{best['rows']:9.4f}{best['write']:9.4f}{best['pyarrow write']:9.4f}"
                  f"{best['pyarrow write'] / best['write']:7.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
