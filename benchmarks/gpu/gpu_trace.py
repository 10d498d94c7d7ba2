#!/usr/bin/env python3
"""Compares the GPU's time in a trace with what the program itself measured, and prints what a step costs.

    benchmarks/gpu/on_gpu.sh benchmarks/gpu/gpu_trace.py --output results         # builds the package, then runs this
    python benchmarks/gpu/gpu_trace.py --device cpu --small              # only checks that it runs, without a GPU

1. Trains ResNet-50 with a loader that makes training wait (--host-ms), and with one that does not. The program
   records CUDA events of its own around every step. Beside them: what `millrace report` says of the same run.
2. Trains a network so small that only the host's time counts, in one traced process: blocks of steps with the GPU's
   time and without it, in turns. The difference is what a step costs. Without a GPU, the events do nothing: what
   is left is the cost of our own code.
3. Profiles three steps with torch.profiler, imports its trace, and compares the kernels' time with ours.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = 20  # steps


# ---- the programs that are traced -------------------------------------------------------------------

def make_network(arguments):
    import torch
    if arguments.train == "blocks" or arguments.small:
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * arguments.side**2, 10))
    try:
        from torchvision.models import resnet50
        return resnet50(weights=None)
    except ImportError:
        sys.path.insert(0, str(ROOT / "examples" / "imagenet_style"))
        from resnet import ResNet
        return ResNet(1000)


class Batches:
    """A dataset of one sample, which is a whole batch, and the wait for it."""

    def __init__(self, arguments, pinned):
        import torch
        self.images = torch.rand(arguments.batch, 3, arguments.side, arguments.side)
        self.labels = torch.randint(10, (arguments.batch,))
        if pinned:
            self.images, self.labels = self.images.pin_memory(), self.labels.pin_memory()
        self.count, self.seconds = arguments.steps, arguments.host_ms / 1000

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.images, self.labels


def train(arguments):
    import torch
    device = torch.device(arguments.device)
    on_gpu = device.type == "cuda"
    model = make_network(arguments).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    loader = torch.utils.data.DataLoader(Batches(arguments, on_gpu), batch_size=None)
    profiler = start_profiler(arguments)
    events, waits, last = [], 0.0, None
    began = asked = time.monotonic()
    for step, (images, labels) in enumerate(loader):
        if step == arguments.warmup:
            synchronize(on_gpu)
            began, waits, events = time.monotonic(), 0.0, []
        else:
            waits += time.monotonic() - asked
        first = record_event(torch, on_gpu)
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=arguments.train == "resnet"):
            loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        last = record_event(torch, on_gpu)
        events.append((first, last))
        if profiler is not None:
            profiler.step()
        asked = time.monotonic()
    host_seconds = time.monotonic() - began
    synchronize(on_gpu)
    seconds = time.monotonic() - began
    if profiler is not None:
        profiler.stop()
    busy = sum(first.elapsed_time(last) for first, last in events if first is not None) / 1000
    print(json.dumps({"steps": len(events), "seconds": seconds, "host_seconds": host_seconds, "wait_seconds": waits,
                      "busy_seconds": busy}))


def record_event(torch, wanted):
    if not wanted:
        return None
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def synchronize(on_gpu):
    if on_gpu:
        import torch
        torch.cuda.synchronize()


def start_profiler(arguments):
    if not arguments.profile:
        return None
    import torch.profiler as profiling
    activities = [profiling.ProfilerActivity.CPU]
    if arguments.device == "cuda":
        activities.append(profiling.ProfilerActivity.CUDA)
    profiler = profiling.profile(
        activities=activities, schedule=profiling.schedule(wait=arguments.warmup, warmup=2, active=3, repeat=1),
        on_trace_ready=lambda made: made.export_chrome_trace(str(arguments.profile)))
    profiler.start()
    return profiler


# ---- what a step costs, in the process that is traced -----------------------------------------------

class Steps:
    """Trains a tiny network, step by step."""

    def __init__(self, arguments):
        import torch
        self.on_gpu = arguments.device == "cuda"
        # Without a GPU, copies go to the fake device, and the host trains with its own tensors.
        self.device = torch.device(arguments.device if self.on_gpu else "meta")
        self.model = make_network(arguments)
        if self.on_gpu:
            self.model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.loss_of = torch.nn.CrossEntropyLoss()
        self.batches = iter(torch.utils.data.DataLoader(Batches(arguments, self.on_gpu), batch_size=None))

    def run(self):
        """Trains a block of steps. Returns the median step, in microseconds: others ran while something disturbed it."""
        times = []
        for _ in range(BLOCK):
            began = time.perf_counter()
            here = next(self.batches)
            there = [tensor.to(self.device, non_blocking=True) for tensor in here]
            images, labels = there if self.on_gpu else here
            self.optimizer.zero_grad(set_to_none=True)
            self.loss_of(self.model(images), labels).backward()
            self.optimizer.step()
            times.append(time.perf_counter() - began)
        return statistics.median(times) * 1e6


def use_fake_device():
    """A driver whose events cost nothing. It is in build trees only, and counts its calls."""
    import ctypes
    import millrace
    from millrace.trace import _device
    path = pathlib.Path(millrace.__file__).parent / "lib" / "libfake_cuda.so"
    if not path.exists():
        sys.exit(f"{path} is missing: without a GPU, use the package of a build tree (PYTHONPATH=build/dev/python)")
    driver = ctypes.CDLL(str(path))
    driver.fake_stream.restype = ctypes.c_void_p
    stream = driver.fake_stream(0)
    _device.use("meta", lambda: ("libfake_cuda", lambda: 0, lambda device: stream))
    return driver


def train_blocks(arguments):
    driver = None if arguments.device == "cuda" else use_fake_device()  # before PyTorch is imported
    from millrace import _trace
    from millrace.trace import _device
    steps = Steps(arguments)
    if _device.kind is None:
        sys.exit("this PyTorch has no CUDA; use --device cpu")
    # What the reading thread would read is read at the end of each block, and timed there.
    _trace._device_tune(read_ns=3600 * 10**9)

    def run_block(is_on):
        """Microseconds per step: the thread that trains, and reading."""
        _trace._device_tune(on=is_on)
        step = steps.run()
        synchronize(steps.on_gpu)
        began = time.perf_counter()
        _trace._device_end_step()
        _trace._device_read()
        return step, (time.perf_counter() - began) / BLOCK * 1e6

    pairs = []
    for number in range(arguments.blocks + 1):
        cost = {is_on: run_block(is_on) for is_on in ((False, True) if number % 2 else (True, False))}
        pairs.append((cost[False][0], cost[True][0] - cost[False][0], cost[True][1]))
    print(json.dumps({"pairs": pairs[1:], "calls": count_calls(driver, run_block)}))


def count_calls(driver, run_block):
    """Calls of the driver in a step; a real one does not count them."""
    if driver is None:
        return {}
    names = ("created", "recorded", "queried", "elapsed")
    counts = [getattr(driver, f"fake_{name}") for name in names]
    for count in counts:
        count()
    run_block(True)
    return {name: count() / BLOCK for name, count in zip(names, counts)}


# ---- the measurement --------------------------------------------------------------------------------

def run(arguments, *options, trace, window=None):
    """Runs train() in a traced process, and returns what it measured. `window` are the steps that are traced."""
    command = [sys.executable, "-m", "millrace.trace", "-o", str(trace)]
    command += ["--steps", window] if window else []
    command += [__file__, "--device", arguments.device, "--side", str(arguments.side), *map(str, options)]
    command += ["--small"] if arguments.small else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed")
    return json.loads(done.stdout.splitlines()[-1])


def find_program():
    from millrace._program import PROGRAM
    return PROGRAM if os.path.isfile(PROGRAM) else shutil.which("millrace")


def report_of(*traces):
    text = subprocess.run([find_program(), "report", *map(str, traces), "--json"], stdout=subprocess.PIPE,
                          text=True, check=True).stdout
    return json.loads(text)


def compare_busy(arguments, name, host_ms, results):
    trace = arguments.output / f"trace-{name}"
    own = run(arguments, "--train", "resnet", "--steps", arguments.steps, "--batch", arguments.batch,
              "--host-ms", host_ms, trace=trace, window=f"{arguments.warmup}:{arguments.steps}")
    split = report_of(trace)["time"]
    mean, whole = split["mean"], own["seconds"]
    steps = own["steps"]
    row = {"run": name, "steps": own["steps"], "seconds": whole, "compute_basis": split["compute_basis"],
           "own_busy_share": own["busy_seconds"] / whole, "own_wait_share": own["wait_seconds"] / whole,
           "own_busy_ms_per_step": own["busy_seconds"] / own["steps"] * 1e3,
           "report_busy_ms_per_step": (mean["compute_ns"] + mean["copy_ns"]) / steps / 1e6,
           "report_wait_ms_per_step": mean["wait_ns"] / steps / 1e6,
           "report_wait_overlapped_ms_per_step": mean["wait_overlapped_ns"] / steps / 1e6,
           "report_launch_ms_per_step": mean["launch_ns"] / steps / 1e6,
           "report_copy_ms_per_step": mean["copy_ns"] / steps / 1e6}
    row["report_busy_share"] = row["report_busy_ms_per_step"] * own["steps"] / 1e3 / whole
    results["busy"].append(row)
    print(f"{name:12} {row['steps']:6} {1e3 * whole / own['steps']:10.2f} {row['own_busy_share']:10.3f} "
          f"{row['report_busy_share']:13.3f} {row['own_wait_share']:10.3f} {row['report_wait_ms_per_step']:14.2f} "
          f"{row['report_launch_ms_per_step']:10.2f}  {split['compute_basis']}", flush=True)
    return trace


def measure_cost(arguments, results):
    own = run(arguments, "--train", "blocks", "--steps", (2 * arguments.blocks + 4) * BLOCK, "--batch", 4, "--side", 8,
              "--host-ms", 0, "--blocks", arguments.blocks, trace=arguments.output / "trace-cost")
    shutil.rmtree(arguments.output / "trace-cost", ignore_errors=True)
    without = statistics.median(without for without, _, _ in own["pairs"])
    low, median, high = statistics.quantiles((cost for _, cost, _ in own["pairs"]), n=4)
    reading = statistics.median(reading for _, _, reading in own["pairs"])
    results["step_us_without"], results["gpu_time_costs_us_per_step"] = without, [low, median, high]
    results["reading_us"], results["calls_per_step"] = reading, own["calls"]
    print(f"\na tiny step takes the host {without:.1f} us without the GPU's time (median of {arguments.blocks} blocks of "
          f"{BLOCK} steps)\nthe GPU's time costs {median:.1f} us more (quartiles {low:.1f} and {high:.1f}; at most 20), and "
          f"{reading:.1f} us of a thread of its own, which reads")
    if arguments.device != "cuda":
        print("there is no GPU: the events do nothing, and this is the cost of our own code\ncalls of the driver in a step: "
              + ", ".join(f"{count:.2f} {name}" for name, count in own["calls"].items()), flush=True)


def compare_kernels(arguments, results):
    """The kernels that torch.profiler saw in three steps, beside the brackets of the same steps."""
    profile = arguments.output / "kineto.json.gz"
    own = run(arguments, "--train", "resnet", "--steps", arguments.warmup + 12, "--batch", arguments.batch,
              "--host-ms", 0, "--profile", profile, trace=arguments.output / "trace-profiled")
    results["profiled"] = {"own": own, "bytes": profile.stat().st_size}
    print(f"\ntorch.profiler's trace of three steps: {profile.stat().st_size:,} bytes")
    imported = arguments.output / "kineto"
    done = subprocess.run([find_program(), "import", str(profile), "-o", str(imported)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    print(done.stdout.strip())
    if done.returncode == 0:
        mean = report_of(imported)["time"]["mean"]
        results["profiled"]["kernels_ms_per_step"] = mean["compute_ns"] / 3e6
        results["profiled"]["copies_ms_per_step"] = mean["copy_ns"] / 3e6
        print(f"kernels: {mean['compute_ns'] / 3e6:.2f} ms a step, copies: {mean['copy_ns'] / 3e6:.2f} ms a step",
              flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("gpu-trace"), help="directory for results")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--side", type=int, default=224, help="of an image, in pixels")
    parser.add_argument("--host-ms", type=float, default=60, help="how long training waits for a batch")
    parser.add_argument("--blocks", type=int, default=1000, help=f"of {BLOCK} tiny steps, with the GPU's time and without")
    parser.add_argument("--small", action="store_true", help="a small network: only checks that it runs")
    hidden = argparse.SUPPRESS  # of the process that trains
    parser.add_argument("--train", choices=("resnet", "blocks"), help=hidden)
    parser.add_argument("--warmup", type=int, default=20, help=hidden)
    parser.add_argument("--profile", type=pathlib.Path, help=hidden)
    arguments = parser.parse_args()
    if arguments.small and not arguments.train:
        arguments.side, arguments.steps, arguments.blocks = 8, 40, 20
    return arguments


def main():
    arguments = parse()
    if arguments.train:
        return train_blocks(arguments) if arguments.train == "blocks" else train(arguments)
    arguments.output.mkdir(parents=True, exist_ok=True)
    if any(arguments.output.iterdir()):
        sys.exit(f"{arguments.output} is not empty; choose another --output")
    results = {"device": device_name(arguments), "busy": []}
    print(f"{results['device']}\nrun           steps  ms a step   own busy   report's busy   own wait  "
          "report: wait ms  launch ms  basis")
    traces = [compare_busy(arguments, "waiting", arguments.host_ms, results),
              compare_busy(arguments, "ahead", 0, results)]
    measure_cost(arguments, results)
    compare_kernels(arguments, results)
    (arguments.output / "gpu_trace.json").write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten: {arguments.output}/gpu_trace.json; traces: {', '.join(map(str, traces))}")


def device_name(arguments):
    import torch
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else "no GPU"
    return f"{name}, torch {torch.__version__}"


if __name__ == "__main__":
    main()
