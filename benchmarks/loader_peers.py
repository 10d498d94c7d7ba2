#!/usr/bin/env python3
"""What it costs to load data: Millrace's loader compared with PyTorch's DataLoader, WebDataset, MosaicML Streaming,
litData and SPDL, and with the C++ floor, in one run.

    benchmarks/peers.sh loaders VENV                       # once: installs the peers into an environment
    benchmarks/loader_peers.py --python VENV/bin/python    # from the root, after cmake --workflow --preset bench

Loads raw samples of 128 KiB (one file each, and in each peer's own format) and JPEGs of 500 x 375 into torch batches of
64, in a new order every epoch; and three Python datasets, the same for both loaders, with as many worker processes each:
torchvision's ImageFolder, samples of 64 KiB from an HDF5 file (h5py), and pure Python of about 1 ms a sample. Each loader runs in a separate process; CPU time is that of the process and its workers.
Rounds are interleaved, and the best of each is shown: samples per second of the epochs after the first, CPU seconds per
thousand samples, and milliseconds to the first batch of the first and of a later epoch. Peers that are not installed
are skipped and listed.

The floor (open, read and close, or pread, with as many threads) reads the same files in the same rounds: the speed of
the CPU changes from minute to minute, and new files lie in the page cache in larger pieces than files that were read
from disk."""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

BATCH = 64
RAW_BYTES = 128 * 1024
HDF5_FLOATS = 16 * 1024


# ---- the datasets, made once ---------------------------------------------------------------------

def make_raw(directory, count):
    os.makedirs(directory + "/raw/all")
    block = os.urandom(RAW_BYTES + count)
    for i in range(count):
        with open("%s/raw/all/%06d.bin" % (directory, i), "wb") as file:
            file.write(block[i : i + RAW_BYTES])
    with open(directory + "/raw.bin", "wb") as file:
        for i in range(count):
            file.write(block[i : i + RAW_BYTES])


def make_jpeg(path_and_seed):
    """Adds noise, so that, as for photographs, most of the work is entropy decoding."""
    import numpy
    from PIL import Image
    path, seed = path_and_seed
    generator = numpy.random.default_rng(seed)
    ramp = numpy.linspace(0, 255, 500)[None, :, None] * numpy.linspace(0.3, 1, 375)[:, None, None]
    noise = generator.normal(0, 26, (375, 500, 1)) + generator.normal(0, 6, (375, 500, 3))
    tint = generator.uniform(0.4, 1, 3)
    pixels = numpy.clip(ramp * tint + noise + 20, 0, 255).astype(numpy.uint8)
    Image.fromarray(pixels).save(path, quality=88)


def make_jpegs(directory, count):
    import multiprocessing
    for label in range(4):
        os.makedirs("%s/jpeg/class%d" % (directory, label))
    work = [("%s/jpeg/class%d/%06d.jpg" % (directory, i % 4, i), i) for i in range(count)]
    with multiprocessing.get_context("spawn").Pool() as pool:
        pool.map(make_jpeg, work, chunksize=32)


def make_hdf5(directory, count):
    import h5py
    import numpy
    with h5py.File(directory + "/samples.h5", "w") as file:
        data = file.create_dataset("x", (count, HDF5_FLOATS), "f4", chunks=(1, HDF5_FLOATS))
        for i in range(count):
            data[i] = numpy.full(HDF5_FLOATS, i, "f4")


def make_webdataset(directory):
    import webdataset
    with webdataset.ShardWriter(directory + "/wds-%03d.tar", maxsize=64 << 20, verbose=0) as writer:
        for i, name in enumerate(sorted(os.listdir(directory + "/raw/all"))):
            with open(directory + "/raw/all/" + name, "rb") as file:
                writer.write({"__key__": "%06d" % i, "bin": file.read(), "cls": 0})


def make_mds(directory):
    from streaming import MDSWriter
    with MDSWriter(out=directory + "/mds", columns={"x": "bytes"}, size_limit=64 << 20) as writer:
        for name in sorted(os.listdir(directory + "/raw/all")):
            with open(directory + "/raw/all/" + name, "rb") as file:
                writer.write({"x": file.read()})


def make_litdata(directory):
    from litdata.streaming.writer import BinaryWriter
    writer = BinaryWriter(directory + "/lit", chunk_bytes="64MB")
    for i, name in enumerate(sorted(os.listdir(directory + "/raw/all"))):
        with open(directory + "/raw/all/" + name, "rb") as file:
            writer[i] = {"x": file.read()}
    writer.done()
    writer.merge()


# ---- the loaders: each returns a function that makes the batches of an epoch -----------------------

def of_bytes(raw):
    import torch
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8)


class RawFiles:
    def __init__(self, directory):
        self.paths = sorted(directory + "/raw/all/" + name for name in os.listdir(directory + "/raw/all"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            return of_bytes(file.read())


def torch_raw(directory, workers):
    from torch.utils.data import DataLoader
    return DataLoader(RawFiles(directory), BATCH, shuffle=True, num_workers=workers,
                      persistent_workers=workers > 0)


def webdataset_raw(directory, workers):
    import glob
    import webdataset
    shards = sorted(glob.glob(directory + "/wds-*.tar"))
    data = webdataset.WebDataset(shards, shardshuffle=len(shards), empty_check=False).shuffle(1000)
    # A tuple: a bare tensor would be collated element by element.
    data = data.to_tuple("bin").map(lambda parts: (of_bytes(parts[0]),)).batched(BATCH)
    return webdataset.WebLoader(data, batch_size=None, num_workers=workers, persistent_workers=workers > 0)


def streaming_raw(directory, workers):
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader
    data = StreamingDataset(local=directory + "/mds", shuffle=True, batch_size=BATCH)
    return DataLoader(data, BATCH, num_workers=workers, persistent_workers=workers > 0,
                      collate_fn=stack_bytes)


def litdata_raw(directory, workers):
    from litdata import StreamingDataLoader, StreamingDataset
    data = StreamingDataset(directory + "/lit", shuffle=True)
    return StreamingDataLoader(data, batch_size=BATCH, num_workers=workers, collate_fn=stack_bytes)


def stack_bytes(rows):
    import torch
    return torch.stack([of_bytes(row["x"]) for row in rows])


def spdl_raw(directory, workers):
    import torch
    from spdl.pipeline import PipelineBuilder
    paths = RawFiles(directory).paths

    def read(some):
        rows = []
        for path in some:
            with open(path, "rb") as file:
                rows.append(of_bytes(file.read()))
        return torch.stack(rows)

    class Epochs:
        """One task per batch: tasks of one sample each cost several times as much."""

        def __iter__(self):
            order = random.sample(paths, len(paths))
            batches = [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
            pipeline = (PipelineBuilder().add_source(batches).pipe(read, concurrency=max(workers, 1))
                        .add_sink(4).build(num_threads=max(workers, 1)))
            with pipeline.auto_stop():
                yield from pipeline.get_iterator()
    return Epochs()


def millrace_raw(directory, workers):
    import millrace
    data = millrace.RawFolder(directory + "/raw", shape=(RAW_BYTES,), dtype="uint8")
    return millrace.DataLoader(data, BATCH, shuffle=True, num_workers=max(workers, 1))


def millrace_raw_packed(directory, workers):
    import millrace
    data = millrace.Files([directory + "/raw.bin"], format="raw", shape=(RAW_BYTES,), dtype="uint8")
    return millrace.DataLoader(data, BATCH, shuffle=True, num_workers=max(workers, 1))


def torch_jpeg(directory, workers):
    from torch.utils.data import DataLoader
    from torchvision import datasets, io, transforms
    crop = transforms.RandomResizedCrop(224, antialias=True)
    flip = transforms.RandomHorizontalFlip()
    data = datasets.ImageFolder(directory + "/jpeg", loader=lambda path: flip(crop(io.decode_jpeg(io.read_file(path)))))
    return DataLoader(data, BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0)


def torch_pil_jpeg(directory, workers):
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms
    change = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
                                 transforms.PILToTensor()])
    data = datasets.ImageFolder(directory + "/jpeg", transform=change)
    return DataLoader(data, BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0)


def millrace_jpeg(directory, workers):
    import millrace
    data = millrace.ImageFolder(directory + "/jpeg", size=224, transform="random_resized_crop", flip=0.5,
                                dtype="uint8")
    return millrace.DataLoader(data, BATCH, shuffle=True, num_workers=max(workers, 1))


# ---- Python datasets: the same for torch and for Millrace -----------------------------------------

def image_folder(directory):
    from torchvision import datasets, transforms
    change = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
                                 transforms.ToTensor()])
    return datasets.ImageFolder(directory + "/jpeg", transform=change)


class Hdf5Samples:
    def __init__(self, directory):
        import h5py
        self.path = directory + "/samples.h5"
        with h5py.File(self.path, "r") as file:
            self.count = len(file["x"])
        self.data = None

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        import h5py
        import torch
        if self.data is None:  # opened by each worker
            self.data = h5py.File(self.path, "r")["x"]
        return torch.from_numpy(self.data[index])


class PurePython:
    """About 1 ms of Python code for each sample."""

    def __init__(self, directory):
        self.count = 64 * 160

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        import torch
        value = index
        for i in range(20000):
            value = (value * 31 + i) & 0xFFFFFF
        return torch.full((64,), value, dtype=torch.int64)


def by_torch(make_dataset):
    def make(directory, workers):
        from torch.utils.data import DataLoader
        return DataLoader(make_dataset(directory), BATCH, shuffle=True, num_workers=workers, persistent_workers=True)
    return make


def by_millrace(make_dataset):
    def make(directory, workers):
        import millrace
        return millrace.DataLoader(make_dataset(directory), BATCH, shuffle=True, num_workers=workers,
                                   persistent_workers=True)
    return make


def both_with(make_dataset, module, counts):
    return [("millrace", by_millrace(make_dataset), module, counts),
            ("PyTorch DataLoader", by_torch(make_dataset), module, counts)]


WORKER_COUNTS = [count for count in (2, 8, 16) if count <= len(os.sched_getaffinity(0))] or [2]

# Run by bench_loader_costs: what to run, and the samples.
PROGRAMS = {
    "C++ floor: open, read, close": ("floor", "raw"),
    "C++ loader, one file per sample": ("loader", "raw"),
    "C++ floor: pread": ("floor", "raw.bin"),
    "C++ loader, many in a file": ("loader", "raw.bin"),
}
FLOORS = {
    "millrace, one file per sample": "C++ floor: open, read, close",
    "millrace, many in a file": "C++ floor: pread",
}

LOADERS = {
    "raw": [
        ("C++ floor: open, read, close", None, None, (1, 2)),
        ("millrace, one file per sample", millrace_raw, None, (1, 2)),
        ("C++ loader, one file per sample", None, None, (1, 2)),
        ("C++ floor: pread", None, None, (1, 2)),
        ("millrace, many in a file", millrace_raw_packed, None, (1, 2)),
        ("C++ loader, many in a file", None, None, (1, 2)),
        ("PyTorch DataLoader", torch_raw, "torch", (0, 2, 4)),
        ("WebDataset", webdataset_raw, "webdataset", (0, 2, 4)),
        ("MosaicML Streaming", streaming_raw, "streaming", (0, 2, 4)),
        ("litData", litdata_raw, "litdata", (0, 2, 4)),
        ("SPDL", spdl_raw, "spdl.pipeline", (1, 2)),
    ],
    "jpeg": [
        ("millrace", millrace_jpeg, None, (1, 2)),
        ("DataLoader, torchvision tensors", torch_jpeg, "torchvision", (0, 2)),
        ("DataLoader, PIL", torch_pil_jpeg, "torchvision", (0, 2)),
    ],
    "ImageFolder": both_with(image_folder, "torchvision", WORKER_COUNTS),
    "h5py": both_with(Hdf5Samples, "h5py", WORKER_COUNTS),
    "pure Python": both_with(PurePython, "torch", WORKER_COUNTS),
}
PYTHON_DATASETS = ("ImageFolder", "h5py", "pure Python")


# ---- one loader, in a separate process ---------------------------------------------------------

def cpu_seconds():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def workers_cpu_seconds():
    """CPU time of running children, which RUSAGE_CHILDREN does not include."""
    total = 0
    ticks = os.sysconf("SC_CLK_TCK")
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        for task in os.listdir("/proc/%d/task" % pid):
            try:
                with open("/proc/%d/task/%s/children" % (pid, task)) as children:
                    for child in map(int, children.read().split()):
                        waiting.append(child)
                        with open("/proc/%d/stat" % child) as stat:
                            fields = stat.read().rsplit(")", 1)[1].split()
                        total += (int(fields[11]) + int(fields[12])) / ticks
            except OSError:
                pass
    return total


def first_tensor(batch):
    return batch[0] if isinstance(batch, (list, tuple)) else batch


def measure(kind, name, workers, directory, epochs):
    """Runs in the child. The first epoch starts workers and fills caches, and does not count. The others count as one
    interval from the end of the first: the best single epoch would be the one for which most was prefetched."""
    import torch
    torch.set_num_threads(1)
    make = next(make for label, make, _, _ in LOADERS[kind] if label == name)
    begin = time.perf_counter()
    loader = make(directory, workers)
    opened = time.perf_counter()
    firsts, counted = [], 0
    for epoch in range(epochs + 1):
        start = time.perf_counter()
        count = 0
        for batch in loader:
            if count == 0:
                firsts.append((time.perf_counter() - start) * 1e3)
            count += len(first_tensor(batch))
        counted += count if epoch > 0 else 0
        if epoch == 0:
            cpu_before, before = cpu_seconds() + workers_cpu_seconds(), time.perf_counter()
    wall = time.perf_counter() - before
    cpu = cpu_seconds() + workers_cpu_seconds() - cpu_before
    print(json.dumps({"rate": counted / wall, "cpu": cpu / counted * 1000, "open_ms": (opened - begin) * 1e3,
                      "first_ms": firsts[0], "later_ms": min(firsts[1:]), "samples": count}))


def run_child(arguments, kind, name, workers):
    environment = dict(os.environ, PYTHONPATH=os.path.abspath(arguments.package), OMP_NUM_THREADS="1")
    command = [arguments.python, os.path.abspath(__file__), "--child", kind, name, str(workers), arguments.directory,
               str(arguments.epochs)]
    if name in PROGRAMS:
        what, samples = PROGRAMS[name]
        command = [cpp_program(arguments), "--once", what, os.path.join(arguments.directory, samples), str(workers),
                   str(arguments.epochs)]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, timeout=arguments.patience)
    except subprocess.TimeoutExpired:
        return None, "it did not end within %d s" % arguments.patience
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1:]
    return json.loads(done.stdout.strip().splitlines()[-1]), None


def has_module(python, module):
    return subprocess.run([python, "-c", "import " + module], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def better(old, new):
    if old is None:
        return new
    merged = dict(new)
    merged["rate"] = max(old["rate"], new["rate"])
    for key in ("cpu", "open_ms", "first_ms", "later_ms"):
        merged[key] = min(old[key], new[key])
    return merged


def make_datasets(arguments):
    """Makes what the kinds of samples need and what an earlier run did not make."""
    directory = arguments.directory
    script = "import sys; sys.path.insert(0, %r); import loader_peers as p; " % os.path.dirname(os.path.abspath(__file__))
    tasks = [("raw", "json", "p.make_raw(%r, %d)" % (directory, arguments.samples)),
             ("raw", "webdataset", "p.make_webdataset(%r)" % directory),
             ("raw", "streaming", "p.make_mds(%r)" % directory),
             ("raw", "litdata", "p.make_litdata(%r)" % directory),
             ("jpeg ImageFolder", "PIL", "p.make_jpegs(%r, %d)" % (directory, arguments.jpegs)),
             ("h5py", "h5py", "p.make_hdf5(%r, %d)" % (directory, arguments.samples))]
    for kinds, module, call in tasks:
        made = "%s/made-%s" % (directory, module)
        is_needed = any(kind in kinds for kind in arguments.only or LOADERS)
        if not is_needed or os.path.exists(made) or not has_module(arguments.python, module):
            continue
        print("making the dataset: %s" % call, file=sys.stderr)
        done = subprocess.run([arguments.python, "-c", script + call], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            print("%s: cannot make its dataset: %s" % (module, done.stderr.strip().splitlines()[-1:]), file=sys.stderr)
        open(made, "w").close()


def cpp_program(arguments):
    return os.path.join(arguments.build, "bin", "bench_loader_costs")


def is_there(arguments, name, module):
    if name in PROGRAMS:
        return os.path.exists(cpp_program(arguments))
    return module is None or has_module(arguments.python, module)


def show_floor_ratios(results):
    """Ratios of the best rounds. That of the C++ loader shows what Python and torch add."""
    for (name, workers), ours in results.items():
        floor = results.get((FLOORS.get(name), workers))
        if floor:
            print("%s, %d threads: %.2f of its floor's speed at %.2f of its CPU time" % (
                name, workers, ours["rate"] / floor["rate"], ours["cpu"] / floor["cpu"]))


def show_pairs(results):
    """The same dataset with as many workers, by Millrace and by torch."""
    for (name, workers), ours in results.items():
        peer = results.get(("PyTorch DataLoader", workers))
        if name == "millrace" and peer:
            print("%d workers: %.2f of torch's speed, %.2f of its CPU time per sample, first batch after %.2f of its time"
                  % (workers, ours["rate"] / peer["rate"], ours["cpu"] / peer["cpu"], ours["first_ms"] / peer["first_ms"]))


def show(kind, results):
    print("\n%-34s %8s %10s %12s %12s %12s" % (kind, "workers", "samples/s", "CPU s/1k", "first ms", "later ms"))
    for (name, workers), result in results.items():
        if result:
            print("%-34s %8d %10.0f %12.3f %12.1f %12.1f" % (name, workers, result["rate"], result["cpu"],
                                                             result["first_ms"], result["later_ms"]))
    if kind in PYTHON_DATASETS:
        show_pairs(results)
        return
    loaders = [(name.startswith("millrace"), r) for (name, _), r in results.items() if r and name not in PROGRAMS]
    ours = max((r["rate"] for is_ours, r in loaders if is_ours), default=0)
    best = max((r["rate"] for is_ours, r in loaders if not is_ours), default=0)
    if ours and best:
        print("Millrace's best is %.1f times the best peer's (%.0f)" % (ours / best, best))
    least = min((r["cpu"] for is_ours, r in loaders if not is_ours), default=0)
    own = min((r["cpu"] for is_ours, r in loaders if is_ours), default=0)
    if own and least:
        print("samples per CPU second: %.2f times those of the most efficient peer" % (least / own))
    show_floor_ratios(results)


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        kind, name, workers, directory, epochs = sys.argv[2:7]
        measure(kind, name, int(workers), directory, int(epochs))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3", help="the Python that has torch and the peers")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--package", default="build/release/python", help="directory of the package millrace")
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--jpegs", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--patience", type=int, default=180, metavar="SECONDS", help="the longest that one loader may take")
    parser.add_argument("--only", choices=sorted(LOADERS), nargs="+", help="measure only these kinds of samples")
    parser.add_argument("--no-peers", action="store_true", help="measure only Millrace and its floor")
    parser.add_argument("--keep", metavar="DIRECTORY", help="directory to keep the datasets in for the next run")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    arguments.directory = os.path.abspath(arguments.keep or tempfile.mkdtemp(prefix="millrace-bench-"))
    os.makedirs(arguments.directory, exist_ok=True)
    try:
        make_datasets(arguments)
        everything = {}
        for kind in arguments.only or LOADERS:
            results, absent = {}, set()
            for _ in range(arguments.rounds):
                for name, _, module, counts in LOADERS[kind]:
                    if arguments.no_peers and not name.startswith(("millrace", "C++")):
                        continue
                    if name in absent or not is_there(arguments, name, module):
                        absent.add(name)
                        continue
                    for workers in counts:
                        result, error = run_child(arguments, kind, name, workers)
                        if error:
                            print("%s, %d workers: %s" % (name, workers, error), file=sys.stderr)
                            absent.add(name)
                            break
                        results[name, workers] = better(results.get((name, workers)), result)
            show(kind, results)
            if absent:
                print("skipped: " + ", ".join(sorted(absent)))
            everything[kind] = [dict(result, name=name, workers=workers) for (name, workers), result in results.items()]
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(everything, file, indent=1)
    finally:
        if not arguments.keep:
            shutil.rmtree(arguments.directory, ignore_errors=True)


if __name__ == "__main__":
    main()
