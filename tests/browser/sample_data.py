"""Data for the tests of the page: profiles, findings and events of synthetic jobs, as JSON of the page.

Names and nesting are those of docs/formats/report.md. The numbers are computed, not measured. They are consistent only
where the page relies on it.
"""

import random

SECOND = 1_000_000_000
NEVER = 2**64 - 1
LAYERS = ["application", "loader", "format", "mpiio", "stdio", "posix"]


def distribution(values: list[int]) -> dict:
    if not values:
        return dict.fromkeys(("count", "sum", "min", "p25", "mean", "median", "p75", "p95", "p99", "max"), 0)
    ordered = sorted(values)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    return {"count": len(ordered), "sum": sum(ordered), "min": ordered[0], "p25": at(0.25),
            "mean": sum(ordered) / len(ordered), "median": at(0.5), "p75": at(0.75), "p95": at(0.95),
            "p99": at(0.99), "max": ordered[-1]}


def log_bins(values: list[int]) -> list[int]:
    bins = [0] * 65
    for value in values:
        bins[value.bit_length()] += 1
    while bins and bins[-1] == 0:
        bins.pop()
    return bins


def io_totals(**given) -> dict:
    totals = dict.fromkeys(("opens", "reads", "writes", "seeks", "syncs", "metadata", "maps", "errors", "bytes_read",
                            "bytes_written", "read_ns", "write_ns", "metadata_ns"), 0)
    return {**totals, "first_ns": NEVER, "last_ns": 0, **given}


def access_counts(**given) -> dict:
    counts = dict.fromkeys(("count", "transitions", "consecutive", "sequential", "unaligned_offset", "unaligned_size",
                            "small", "at_end", "lines"), 0)
    return {**counts, **given}


def access_pattern(sizes: list[int] = (), **given) -> dict:
    return {"counts": access_counts(**given), "sizes": log_bins(list(sizes)), "common_sizes": [], "common_strides": []}


def time_split(name: str, wall: int = 0, compute: float = 0, io: float = 0, overlapped: float = 0, idle: float = 0,
               wait: float = 0) -> dict:
    """Shares of the wall time."""
    ns = lambda share: round(wall * share)
    return {"name": name, "wall_ns": wall, "compute_ns": ns(compute), "io_ns": ns(io), "fetch_ns": ns(io * 0.9),
            "decode_ns": ns(0.04), "transform_ns": ns(0.02), "checkpoint_ns": ns(0.02), "communicate_ns": ns(0.01), "wait_ns": ns(wait),
            "io_overlapped_ns": ns(overlapped), "io_exposed_ns": ns(io - overlapped), "fetch_exposed_ns": ns(io - overlapped),
            "compute_exposed_ns": ns(compute - overlapped), "idle_ns": ns(idle), "step_ns": ns(0.95),
            "startup_ns": ns(0.02), "training_ns": ns(0.96), "wait_share": wait / 0.96, "step_wait_share": wait / 0.95}


def empty_profile() -> dict:
    """The profile of a trace without events."""
    job = {"traces": ["t"], "command": "", "framework": "", "hosts": []}
    for key in ("processes", "threads", "compute_threads", "io_threads", "begin_wall_ns", "begin_ns", "wall_ns", "events",
                "lost_events", "files", "dataset_files", "dataset_bytes", "dataset_bytes_read", "dataset_unique_bytes",
                "bytes_read", "bytes_written", "amplification", "epochs", "steps"):
        job[key] = 0
    job |= {"ranks": 1, "direct_io": False, "mapped_io": False, "uring_io": False}
    use = dict.fromkeys(("files_read", "files_whole", "files_opened_unread", "files_small", "files_one_rank",
                         "files_shared", "files_every_epoch", "files_once", "shared_bytes", "order_repeated",
                         "ascending", "ascending_within"), 0)
    lists = ("layers", "functions", "files", "directories", "extensions", "kinds", "hosts", "ranks", "stretches",
             "epochs", "checkpoints", "problems")
    return {"job": job, "time": {"basis": "none", "job": time_split("job"), "mean": time_split("mean"), "hosts": [],
                                 "ranks": []},
            "reads": access_pattern(), "writes": access_pattern(), "data_reads": access_pattern(),
            "data": {**use, "order": "unknown"},
            "timeline": {"bin_ns": 0, "bytes_read": [], "bytes_written": [], "operations": [], "metadata": [],
                         "busy_ns": []},
            "heat": {"bin_ns": 0, "ranks": []},
            "steps": {"duration_ns": distribution([]), "wait_ns": distribution([]), "slowest": [], "all": []},
            "tree": [{"name": "", "layer": "application", "parent": 0, "count": 0, "total_ns": 0, "self_ns": 0,
                      "bytes": 0}],
            **{name: [] for name in lists}}


def empty_detail() -> dict:
    return {"names": [], "threads": [], "windows": [], "levels": []}


class Job:
    """A training job with the given numbers of ranks, files and so on. Equal arguments give equal jobs."""

    def __init__(self, ranks=4, epochs=3, files=60, groups=6, bins=200, heat_ranks=4, heat_bins=120, nodes=40,
                 events=6000, threads_per_rank=2, wall=90 * SECOND, windows=1, functions=12):
        self.random = random.Random(7)
        self.__dict__.update(ranks=ranks, epochs=epochs, files=files, groups=groups, bins=bins, heat_ranks=heat_ranks,
                             heat_bins=heat_bins, nodes=nodes, events=events, threads_per_rank=threads_per_rank,
                             wall=wall, windows=windows, functions=functions)

    def profile(self) -> dict:
        profile = empty_profile()
        files = self.file_list()
        profile["job"] |= {
            "traces": ["traces/resnet"], "command": "python3 train.py --epochs 3 --data imagenet", "framework": "pytorch",
            "hosts": [f"node{i}" for i in range(max(1, self.ranks // 4))], "ranks": self.ranks, "processes": self.ranks * 3,
            "threads": self.ranks * 9, "compute_threads": self.ranks, "io_threads": self.ranks * 4,
            "begin_wall_ns": 1_780_000_000_000_000_000, "begin_ns": 5, "wall_ns": self.wall, "events": 1_234_567,
            "files": len(files) + 4321, "dataset_files": len(files), "dataset_bytes": sum(f["size_bytes"] for f in files),
            "dataset_bytes_read": sum(f["io"]["bytes_read"] for f in files), "bytes_read": 48_318_382_080,
            "bytes_written": 1_073_741_824, "amplification": 1.37, "epochs": self.epochs, "steps": 7200}
        profile["time"] = self.time()
        profile["functions"] = self.function_list()
        profile["layers"] = self.layer_list(profile["functions"])
        profile["files"] = files
        profile["directories"] = [self.group(f"/data/train/n{i:08d}") for i in range(self.groups)]
        profile["extensions"] = [self.group(name) for name in (".jpg", ".h5", ".pt")]
        profile["kinds"] = [self.group(name) for name in ("data", "system", "checkpoint")]
        profile["ranks"] = [self.rank_load(i) for i in range(self.ranks)]
        sizes = [self.random.choice([4096, 65536, 112_000, 131_072, 7]) for _ in range(5000)]
        for name in ("reads", "data_reads"):
            profile[name] = access_pattern(sizes, count=120_000, transitions=100_000, consecutive=52_000,
                                           sequential=88_000, unaligned_offset=70_000, small=60_000, at_end=4000)
            profile[name]["common_sizes"] = [{"value": 131_072, "count": 52_000}, {"value": 4096, "count": 31_000}]
            profile[name]["common_strides"] = [{"value": 262_144, "count": 1200}]
        profile["writes"] = access_pattern([1 << 20] * 400, count=400, transitions=399, consecutive=399, sequential=399)
        profile["data"] |= {"files_read": len(files), "files_whole": len(files) - 3, "files_small": len(files) - 1,
                            "files_one_rank": len(files) - 5, "files_shared": 5, "files_every_epoch": len(files),
                            "shared_bytes": 5_000_000, "order": "files shuffled", "order_repeated": 0.0}
        profile["timeline"] = self.timeline()
        profile["heat"] = self.heat()
        profile["epochs"] = [self.epoch(i) for i in range(self.epochs)]
        profile["stretches"] = self.stretches(profile["epochs"])
        profile["steps"] = self.steps()
        profile["tree"] = self.tree()
        profile["checkpoints"] = [{"epoch": e["epoch"], "begin_ns": e["end_ns"] - SECOND, "end_ns": e["end_ns"],
                                   "ranks_writing": 1, "bytes": 357_913_941, "writes": 133, "stalled_ns": SECOND * 9 // 10,
                                   "file": f"/results/checkpoint_{e['epoch']}.pt"} for e in profile["epochs"]]
        return profile

    def time(self) -> dict:
        rank = lambda name, shift: time_split(name, self.wall, compute=0.55 - shift, io=0.35 + shift, overlapped=0.12,
                                              idle=0.12, wait=0.31 + shift)
        ranks = [rank(f"rank {i}", (i % 7) * 0.01) for i in range(self.ranks)]
        hosts = [rank(f"node{i}", 0.02) for i in range(self.ranks // 4)]
        return {"basis": "regions", "job": rank("job", 0.0), "mean": rank("mean", 0.03), "hosts": hosts, "ranks": ranks}

    def function_list(self) -> list[dict]:
        shapes = [("batch_wait", "loader", "region", "wait", 0), ("read", "posix", "read", "none", 131_072),
                  ("openat", "posix", "open", "none", 0), ("close", "posix", "close", "none", 0),
                  ("fread", "stdio", "read", "none", 4096), ("H5Dread", "format", "read", "none", 1 << 20),
                  ("compute", "application", "region", "compute", 0), ("lseek", "posix", "seek", "none", 0),
                  ("write", "posix", "write", "none", 1 << 20), ("fstat", "posix", "metadata", "none", 0),
                  ("decode", "loader", "region", "decode", 0), ("mmap", "posix", "map", "none", 0)]
        shapes += [(f"region_{i}", "application", "region", "none", 0) for i in range(self.functions - len(shapes))]
        rows = []
        for index, (name, layer, kind, role, size) in enumerate(shapes):
            latencies = [int(self.random.lognormvariate(10 - index * 0.2, 1.2)) for _ in range(400)]
            sizes = [self.random.choice([size, size, size // 2]) for _ in range(400)] if size else []
            count = 400 * (index + 2) * 37
            rows.append({"name": name, "layer": layer, "kind": kind, "role": role, "count": count,
                         "errors": 12 if name == "openat" else 0, "time_ns": (len(shapes) - index) * 4 * SECOND // (1 + index // 12),
                         "bytes": sum(sizes) * 37, "size_bytes": distribution(sizes), "latency_ns": distribution(latencies),
                         "size_bins": log_bins(sizes), "latency_bins": log_bins(latencies)})
        return rows

    def layer_list(self, functions: list[dict]) -> list[dict]:
        rows = []
        for layer in LAYERS:
            own = [f for f in functions if f["layer"] == layer]
            if own:
                time = sum(f["time_ns"] for f in own)
                rows.append({"layer": layer, "count": sum(f["count"] for f in own), "time_ns": time, "busy_ns": time // 2,
                             "overlapped_ns": time // 5, "bytes_read": sum(f["bytes"] for f in own), "bytes_written": 0,
                             "metadata_count": 100, "metadata_ns": time // 20})
        return rows

    def io(self, scale: int) -> dict:
        return io_totals(opens=scale, reads=scale * 3, writes=0, metadata=scale, bytes_read=scale * 112_345,
                         read_ns=scale * 812_345, metadata_ns=scale * 112_345, first_ns=scale % 97 * SECOND // 10,
                         last_ns=self.wall - scale % 89 * SECOND // 10)

    def file_list(self) -> list[dict]:
        return [{"path": f"/data/train/n{i % 50:08d}/image_{i:06d}_{self.random.getrandbits(32):08x}.jpg", "kind": "data",
                 "io": self.io(1 + (i * 7919) % 1000), "read": access_counts(count=9, transitions=8, consecutive=8 - i % 5,
                                                                        sequential=8 - i % 3),
                 "write": access_counts(), "size_bytes": 112_000 + i * 13, "size_known": i % 4 != 0,
                 "unique_bytes_read": 112_000 + i * 13, "shared_bytes_read": 0, "ranks": 1 + i % self.ranks,
                 "readers": 1 + i % self.ranks, "epochs": self.epochs, "direct_opens": 0, "unaligned_direct": 0}
                for i in range(self.files)]

    def group(self, name: str) -> dict:
        return {"name": name, "io": self.io(self.random.randrange(1, 5000)), "files": self.random.randrange(1, 2000),
                "size_bytes": self.random.randrange(1 << 34)}

    def rank_load(self, rank: int) -> dict:
        return {"name": f"rank {rank}", "host": f"node{rank // 4}", "io": self.io(1000 + rank * 11), "data_files": 900 + rank,
                "data_bytes_read": 12_000_000_000 + rank * 1_000_000, "threads_reading": 4, "calls_in_flight": 2.5 + rank % 3}

    def timeline(self) -> dict:
        draw = self.random
        wave = [1 + 0.8 * ((i * 9 // self.bins) % 2) for i in range(self.bins)]
        operations = [int(4000 * w * draw.uniform(0.6, 1.4)) for w in wave]
        return {"bin_ns": self.wall // self.bins, "bytes_read": [int(2.4e8 * w * draw.uniform(0.5, 1.5)) for w in wave],
                "bytes_written": [int(3e8) if i % 67 == 66 else 0 for i in range(self.bins)], "operations": operations,
                "metadata": [o // 3 for o in operations],
                "busy_ns": [int(self.wall / self.bins * self.ranks * draw.uniform(0.3, 1.8)) for _ in wave]}

    def heat(self) -> dict:
        draw = self.random
        rows = []
        for rank in range(self.heat_ranks):
            io = [min(1000, max(0, int(draw.gauss(350, 180)))) for _ in range(self.heat_bins)]
            rows.append({"name": f"rank {rank * self.ranks // self.heat_ranks}", "io": io,
                         "compute": [max(0, 1000 - value - draw.randrange(200)) for value in io],
                         "wait": [value * 4 // 5 for value in io]})
        return {"bin_ns": self.wall // self.heat_bins, "ranks": rows}

    def epoch(self, index: int) -> dict:
        length = self.wall // self.epochs
        time = time_split("mean", length, compute=0.55, io=0.4 - 0.1 * (index > 0), overlapped=0.1, idle=0.1, wait=0.3)
        action = lambda name, role, share: {"name": name, "role": role, "count": 2400, "mean_ns": int(length * share),
                                            "min_ns": int(length * share * 0.9), "max_ns": int(length * share * 1.2)}
        return {"epoch": index, "begin_ns": index * length, "end_ns": (index + 1) * length, "steps": 2400, "time": time,
                "io": self.io(60_000), "files": self.files,
                "actions": [action("batch_wait", "wait", 0.3), action("compute", "compute", 0.55),
                            action("decode", "decode", 0.06), action("checkpoint", "checkpoint", 0.02)]}

    def stretches(self, epochs: list[dict]) -> list[dict]:
        rows = []
        for epoch in epochs:
            rows += [{"role": "epoch", "name": "epoch", "epoch": epoch["epoch"], "rank": rank,
                      "begin_ns": epoch["begin_ns"] + rank * 1000, "end_ns": epoch["end_ns"] - rank * 1000}
                     for rank in range(min(self.ranks, 32))]
            rows.append({"role": "checkpoint", "name": "checkpoint", "epoch": epoch["epoch"], "rank": 0,
                         "begin_ns": epoch["end_ns"] - SECOND, "end_ns": epoch["end_ns"]})
        return rows

    def steps(self) -> dict:
        durations = [int(self.random.lognormvariate(17, 0.4)) for _ in range(2000)]
        slowest = sorted(durations, reverse=True)[:50]
        return {"duration_ns": distribution(durations), "wait_ns": distribution([d * 3 // 10 for d in durations]),
                "slowest": [{"epoch": i % self.epochs, "step": 100 + i, "rank": i % self.ranks,
                             "begin_ns": self.wall // 60 * i, "duration_ns": d, "wait_ns": d * (i % 10) // 10}
                            for i, d in enumerate(slowest)], "all": []}

    def tree(self) -> list[dict]:
        rows = [{"name": "", "layer": "application", "parent": 0, "count": 0, "total_ns": 0, "self_ns": 0, "bytes": 0}]
        names = ["epoch", "fetch", "H5Dread", "MPI_File_read_at", "fread", "read", "compute", "decode", "openat", "close"]
        depth = [0]
        for i in range(1, self.nodes):
            parent = 0 if i == 1 else self.random.randrange(max(0, i - 12), i)
            if depth[parent] > 5:
                parent = 0
            depth.append(depth[parent] + 1)
            room = 3600 * SECOND if parent == 0 else rows[parent]["total_ns"]
            rows.append({"name": names[i % len(names)], "layer": LAYERS[min(5, depth[i] - 1)], "parent": parent,
                         "count": 1000 + i, "total_ns": int(room * self.random.uniform(0.02, 0.3)), "self_ns": 0, "bytes": i * 4096})
        own = [row["total_ns"] for row in rows]
        for row in rows[1:]:
            own[row["parent"]] -= row["total_ns"]
        for row, rest in zip(rows, own, strict=True):
            row["self_ns"] = max(0, rest)
        return rows

    def detail(self) -> dict:
        names = ["epoch", "fetch", "read", "openat", "compute", "lseek", "close"] + [f["path"] for f in self.file_list()]
        threads = [{"rank": f"rank {rank}", "process": 4000 + rank, "tid": 4000 + rank * 100 + t,
                    "title": "main" if t == 0 else f"worker {t}"} for rank in range(self.heat_ranks)
                   for t in range(self.threads_per_rank)]
        return {"names": names, "threads": threads, "windows": [self.window(threads, names, i) for i in range(self.windows)],
                "levels": self.levels(threads)}

    # The first window is in the middle of the job and has a hundredth of its length; others follow it.
    def window(self, threads: list[dict], names: list[str], index: int) -> dict:
        draw = self.random
        length = self.wall // 100
        columns = {key: [] for key in ("thread", "name", "layer", "begin", "duration", "file", "offset", "size", "result",
                                       "error")}
        per_thread = self.events // self.windows // len(threads)
        for thread in range(len(threads)):
            step = length // (per_thread // 4 + 1)
            for i in range(per_thread // 4):
                begin = i * step + draw.randrange(step // 10)
                inner = int(step * draw.uniform(0.6, 0.8))
                file = 7 + draw.randrange(len(names) - 7)
                size = draw.choice([4096, 65536, 131_072])
                rows = [(1, 1, begin, inner, -1, -1, -1, 0, 0),
                        (3, 5, begin + inner // 20, int(inner * draw.uniform(0.02, 0.12)), file, -1, -1, 3 if i % 50 else -1, 0 if i % 50 else 2),
                        (2, 5, begin + inner // 5, int(inner * draw.uniform(0.1, 0.5)), file, draw.randrange(1 << 24) * 4096, size, size, 0),
                        (6, 5, begin + inner * 9 // 10, int(inner * draw.uniform(0.01, 0.09)), file, -1, -1, 0, 0)]
                for row in rows:
                    for key, value in zip(("name", "layer", "begin", "duration", "file", "offset", "size", "result",
                                           "error"), row, strict=True):
                        columns[key].append(value)
                    columns["thread"].append(thread)
        begin = self.wall // 2 + index * length
        return {"begin_ns": begin, "end_ns": begin + length, "why": "slowest step" if index == 0 else f"stretch {index}", **columns}

    def levels(self, threads: list[dict]) -> list[dict]:
        return [{"bin_ns": self.wall // bins, "rows": [
            {"thread": thread, "layer": layer, "busy": [self.random.randrange(1001) if self.random.random() < 0.7 else 0
                                                        for _ in range(bins)]}
            for thread in range(min(rows, len(threads))) for layer in (1, 5)]}
            for bins, rows in ((self.heat_bins, len(threads)), (self.heat_bins * 4, 32))]


def findings(profile: dict) -> dict:
    file = profile["files"][-1]["path"] if profile["files"] else ""
    return {"verdict": {"answer": "yes", "sentence": "yes: training waits for data 34.0 % of its time (small reads)"}, "findings": [
        {"rule": "small-reads", "severity": "problem", "title": "small reads: 128 KiB on average",
         "evidence": [{"text": "50.0 % of 120,000 reads are under 64 KiB", "where": "data_reads"},
                      {"text": "read moves 131,072 bytes per call", "where": "functions:read"},
                      {"text": f"most of them of {file}", "where": f"files:{file}"},
                      {"text": "ranks wait 34.0 % of the step", "where": "time.mean"}],
         "threshold": "most reads under 64 KiB: below that a parallel file system spends more time on the request than on the bytes",
         "changes": [{"framework": "lustre", "text": "lfs setstripe -S 1M -c 4 /data"},
                     {"framework": "pytorch", "text": "pack the samples into shards, and read them with buffering=1 << 20"}],
         "gain": {"saved_ns": 21 * SECOND, "share": 0.23, "how": "the waiting caused by these reads, minus what reads of 1 MiB would still take"},
         "also": [{"rule": "little-prefetch", "severity": "warning", "title": "batches are not prefetched",
                   "evidence": [{"text": "ranks do not load while they compute", "where": "time.ranks"}],
                   "threshold": "less than 25 % overlaps", "changes": [{"framework": "any", "text": "prefetch"}],
                   "gain": {"saved_ns": 9 * SECOND, "share": 0.1, "how": "the shorter of waiting and compute"}}]},
        {"rule": "checkpoint-stall", "severity": "warning", "title": "checkpoint stall: 3 ranks wait while one writes",
         "evidence": [{"text": "rank 0 wrote alone", "where": "checkpoints"}, {"text": "epoch 1 ends with 1 s of it", "where": "epochs:1"},
                      {"text": "a fact of a part that the page does not know", "where": "nowhere:else"}],
         "threshold": "more than 1 % of the time", "changes": [{"framework": "any", "text": "write it from a thread"}],
         "gain": {"saved_ns": 0, "share": 0, "how": ""}}]}
