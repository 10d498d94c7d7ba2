#!/usr/bin/env python3
"""Checks on a GPU what the tests can check only on a CPU: LARS with mixed precision and torch.compile, ranks, the lab
and waits for the GPU in traces. Prints a line for each fact, and exits with 1 if one is not as it should be.

    benchmarks/gpu/on_gpu.sh benchmarks/gpu/gpu_checks.py --json gpu_checks.json      # builds the package first
    python benchmarks/gpu/gpu_checks.py --device cpu                         # what needs no GPU, over gloo

NCCL refuses two ranks on one GPU. With one GPU, NCCL is therefore checked with one rank, and two ranks exchange CUDA
tensors through gloo, which copies them through host memory. Needs torch 2.3 or newer.
"""

import argparse
import copy
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch import nn

from millrace import optim


class Checks:
    """The lines of the table."""

    def __init__(self):
        self.rows = []

    def line(self, what, value, limit, is_ok):
        """`is_ok` is None if it could not be checked here."""
        self.rows.append({"what": what, "value": value, "limit": limit, "ok": is_ok})
        word = {True: "ok", False: "NOT", None: "skipped"}[is_ok]
        value = f"{value:.3g}" if isinstance(value, float) else str(value)
        print(f"{what:80} {value:>13}  {limit:19} {word}", flush=True)

    def at_most(self, what, value, limit):
        self.line(what, float(value), f"at most {limit:g}", bool(value <= limit))

    def at_least(self, what, value, limit):
        self.line(what, float(value), f"at least {limit:g}", bool(value >= limit))

    def equal(self, what, value, expected):
        self.line(what, value, f"{expected}", value == expected)

    def run(self, check, arguments):
        """A check that raises is a line too."""
        began = time.monotonic()
        try:
            check(self, arguments)
        except Exception as error:  # noqa: BLE001: the other checks are still worth their time
            traceback.print_exc()
            self.line(check.__name__, f"{type(error).__name__}", "no error", False)
        print(f"    {check.__doc__.splitlines()[0]} {time.monotonic() - began:.1f} s", flush=True)


# ---- the optimizer ----------------------------------------------------------------------------------

def make_net(device, width=16):
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
                         nn.Conv2d(width, width, 3, stride=2), nn.BatchNorm2d(width), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)).to(device)


def make_batch(device, number=0, size=32):
    generator = torch.Generator().manual_seed(number)
    return (torch.randn(size, 3, 16, 16, generator=generator).to(device),
            torch.randint(10, (size,), generator=generator).to(device))


def make_lars(net, lr=1.0, **options):
    return optim.LARS(optim.parameter_groups(net), lr=lr, trust_coefficient=0.02, **options)


def weights(net):
    return torch.cat([each.detach().reshape(-1) for each in net.parameters()])


def difference(one, other):
    """The largest, as a part of the largest value."""
    return float((one - other).abs().max() / other.abs().max())


def loss_of(net, device, number, dtype=None):
    images, labels = make_batch(device, number)
    with torch.autocast(torch.device(device).type, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        return nn.functional.cross_entropy(net(images).float(), labels)


def check_grad_scaler(checks, arguments):
    """LARS with GradScaler, fp16:"""
    device = arguments.device
    net = make_net(device)
    optimizer, scaler = make_lars(net), torch.amp.GradScaler(device, init_scale=4096.0)
    by_hand = copy.deepcopy(net)
    other = make_lars(by_hand)
    first = weights(net)

    def step(number, factor=1.0):
        optimizer.zero_grad()
        scaler.scale(loss_of(net, device, number, torch.float16) * factor).backward()
        scaler.step(optimizer)
        scaler.update()

    scaler.scale(loss_of(net, device, 0, torch.float16)).backward()
    for each, scaled in zip(by_hand.parameters(), net.parameters()):
        each.grad = scaled.grad / 4096.0
    scaler.step(optimizer)
    scaler.update()
    other.step()
    checks.at_most("GradScaler, fp16: LARS's own unscaling differs from unscaling by hand, relative",
                   difference(weights(net), weights(by_hand)), 1e-6)
    checks.at_least("GradScaler, fp16: a good step changes the weights by", difference(weights(net), first), 1e-6)
    before, scale = weights(net), scaler.get_scale()
    step(1, 1e30)
    checks.equal("GradScaler, fp16: a step that overflows changes the weights by", difference(weights(net), before), 0.0)
    checks.equal("GradScaler, fp16: skipped steps", optimizer.skipped_steps, 1)
    checks.equal(f"GradScaler, fp16: the scale of {scale:g} becomes", scaler.get_scale(), scale / 2)
    step(2)
    checks.at_least("GradScaler, fp16: the next step changes the weights by", difference(weights(net), before), 1e-6)
    checks.equal("GradScaler, fp16: all weights are finite", bool(weights(net).isfinite().all()), True)
    if device == "cpu":
        return checks.line("GradScaler, fp16: waits of the host for the GPU in a step", "no GPU", "0", None)
    checks.equal("GradScaler, fp16: waits of the host for the GPU in a step", waits_of(lambda: step(3)), 0)


def waits_of(call):
    """How often a call made the host wait, as torch itself sees it. The transfer of the batch does not count."""
    call()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waits = [f"{each.filename}:{each.lineno}" for each in seen if "synchroniz" in str(each.message)]
    return len([each for each in waits if "gpu_checks" not in each])


def check_bf16(checks, arguments):
    """LARS with bf16 autocast:"""
    device = arguments.device
    net = make_net(device)
    optimizer = make_lars(net)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = loss_of(net, device, 0, torch.bfloat16)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    checks.at_most("bf16 autocast: loss after 30 steps, as a part of the first", losses[-1] / losses[0], 0.7)
    checks.equal("bf16 autocast: dtype of the weights", str(net[0].weight.dtype), "torch.float32")
    before = weights(net)
    optimizer.zero_grad()
    (loss_of(net, device, 0, torch.bfloat16) * math.nan).backward()
    optimizer.step()
    checks.equal("bf16 autocast: skipped steps after a NaN", optimizer.skipped_steps, 1)
    checks.equal("bf16 autocast: the step with NaN changes the weights by", difference(weights(net), before), 0.0)
    held = make_net(device).to(torch.bfloat16)
    optimizer = make_lars(held)
    images, labels = make_batch(device)
    first = weights(held).clone()
    nn.functional.cross_entropy(held(images.bfloat16()).float(), labels).backward()
    optimizer.step()
    checks.equal("bf16 weights: a step changes them, and all are finite",
                 bool(weights(held).isfinite().all()) and difference(weights(held), first) > 0, True)


def check_compile(checks, arguments):
    """LARS under torch.compile:"""
    import torch._dynamo as dynamo
    device = arguments.device
    dynamo.reset()
    nets = [make_net(device) for _ in range(2)]
    optimizers = [make_lars(net, torch.tensor(1.0, device=device)) for net in nets]
    dynamo.utils.counters.clear()
    compiled = torch.compile(lambda: optimizers[1].step())
    for number in range(6):
        gradients = None
        for net, optimizer, step in zip(nets, optimizers, (optimizers[0].step, compiled)):
            optimizer.zero_grad()
            if gradients is None:
                loss_of(net, device, number).backward()
                gradients = [each.grad for each in net.parameters()]
            else:  # the same ones, so that only the step differs
                for each, gradient in zip(net.parameters(), gradients):
                    each.grad = gradient.clone()
            if number == 3:
                net[0].bias.grad.fill_(math.nan)
            step()
    breaks = dynamo.utils.counters["graph_break"]
    for message in breaks:
        print(f"    graph break: {message}")
    checks.equal("torch.compile: graph breaks", sum(breaks.values()), 0)
    checks.at_most("torch.compile: graphs, the first step makes the velocities",
                   dynamo.utils.counters["stats"]["unique_graphs"], 2)
    checks.at_most("torch.compile: weights after 5 steps differ from eager, relative",
                   difference(weights(nets[1]), weights(nets[0])), 1e-5)
    checks.equal("torch.compile: skipped steps, eager and compiled", str([each.skipped_steps for each in optimizers]),
                 "[1, 1]")


# ---- ranks ------------------------------------------------------------------------------------------

def check_compression(checks, arguments):
    """GradientCompression under DistributedDataParallel:"""
    settings = [("gloo", 2)] if arguments.device == "cpu" else [("nccl", 1), ("gloo", 2)]
    for backend, ranks in settings:
        found = run_ranks(arguments, backend, ranks)
        name = f"compression over {backend}, {ranks} rank{'s' if ranks > 1 else ''}"
        checks.equal(f"{name}: weights are the same on all", all(each["same"] for each in found), True)
        checks.equal(f"{name}: bytes sent in 6 steps", found[0]["bytes"], found[0]["expected"])
        checks.at_most(f"{name}: with nothing left out, differs from plain DDP", found[0]["plain"], 1e-4)
        checks.at_most(f"{name}: in another stream, differs from the usual one", found[0]["stream"], 1e-4)
        checks.equal(f"{name}: steps skipped by each for a NaN of the last rank",
                     str([each["skipped"] for each in found]), str([1] * ranks))
    if arguments.device != "cpu":
        checks.line("compression over nccl, 2 ranks", "one GPU", "a GPU for each rank", None)


def run_ranks(arguments, backend, ranks):
    """Starts this program as this many ranks. Returns what each has found."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--device", arguments.device, "--rank-of", str(ranks), "--backend", backend,
                   "--store", os.path.join(folder, "store")]
        with ThreadPoolExecutor(ranks) as pool:
            return list(pool.map(lambda rank: last_line([*command, "--rank", str(rank)]), range(ranks)))


def last_line(command, **environment):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=180,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **environment})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} exits with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def be_a_rank(arguments):
    device, ranks = arguments.device, arguments.rank_of
    if device == "cuda":
        torch.cuda.set_device(0)
    dist.init_process_group(arguments.backend, init_method=f"file://{arguments.store}", rank=arguments.rank,
                            world_size=ranks)
    net, compression, _ = train_compressed(arguments, sparsity=0.9)
    found = {"same": same_on_all(weights(net), ranks), "bytes": compression.bytes_sent,
             "expected": 6 * sum(8 * math.ceil(round(each.numel() * 0.1, 6)) if each.dim() >= 2 else 4 * each.numel()
                                 for each in net.parameters())}
    whole, _, _ = train_compressed(arguments, sparsity=0.0, momentum=0.0)
    plain, _, _ = train_compressed(arguments, sparsity=None)
    found["plain"] = difference(weights(whole), weights(plain))
    found["stream"] = 0.0
    if device == "cuda":
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            moved, _, _ = train_compressed(arguments, sparsity=0.9)
        torch.cuda.synchronize()
        found["stream"] = difference(weights(moved), weights(net))
    _, _, optimizer = train_compressed(arguments, sparsity=0.9, bad_step=3)
    found["skipped"] = optimizer.skipped_steps
    dist.destroy_process_group()
    print(json.dumps(found))


def train_compressed(arguments, sparsity, momentum=0.9, bad_step=None):
    """Six steps. `sparsity` None: without compression."""
    device = arguments.device
    net = make_net(device)
    optimizer = make_lars(net, 0.5, momentum=0.0)
    model = nn.parallel.DistributedDataParallel(net)
    compression = None
    if sparsity is not None:
        compression = optim.GradientCompression(sparsity=sparsity, momentum=momentum)
        compression.register(model, optimizer)
    for step in range(6):
        images, labels = make_batch(device, 10 * step + arguments.rank, 8)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        is_bad = step == bad_step and arguments.rank == arguments.rank_of - 1
        (loss * (math.nan if is_bad else 1.0)).backward()
        optimizer.step()
    return net, compression, optimizer


def same_on_all(tensor, ranks):
    others = [torch.empty_like(tensor) for _ in range(ranks)]
    dist.all_gather(others, tensor)
    return all(torch.equal(each, tensor) for each in others)


def check_lab(checks, arguments):
    """The lab's command with virtual workers and with real ranks:"""
    device = arguments.device
    ways = {"virtual": ["--device", device]}
    if device == "cuda":
        ways["nccl, 1 rank"] = ["--ranks", "nccl", "--processes", "1", "--device", device]
    ways["gloo, 2 ranks"] = ["--ranks", "gloo", "--processes", "2", "--device", "cuda:0" if device == "cuda" else "cpu"]
    # In float32, products of matrices of other sizes are added in another order, and steps amplify it.
    limits = {"float64": 1e-10, "float32": 1e-4}
    asked = [(way, precision) for precision in limits for way in ways]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as pool:
        reports = dict(zip(asked, pool.map(lambda each: run_lab(ways[each[0]], each[1], folder), asked)))
        written = {path.name for path in (pathlib.Path(folder) / "out").iterdir()}
    checks.equal("lab: writes table.txt, results.json, curves.svg and page.html",
                 {"table.txt", "results.json", "curves.svg", "page.html"} <= written, True)
    checks.equal("lab: device in its JSON", reports["virtual", "float32"]["device"].partition(":")[0], device)
    for way, precision in asked:
        if way != "virtual":
            losses = [reports[each, precision]["conditions"][0]["runs"][0]["loss"] for each in ("virtual", way)]
            checks.at_most(f"lab over {way}, {precision}: losses differ from virtual workers', relative",
                           max(abs(one - other) / abs(one) for one, other in zip(*losses)), limits[precision])


def run_lab(options, precision, folder):
    command = [sys.executable, "-m", "millrace.lab", "--dataset", "synthetic", "--samples", "1600", "--workers", "4",
               "--fractions", "0.3", "--epochs", "3", "--repeats", "1", "--batch", "10", "--precision", precision,
               "--quiet", "--json", "--output", os.path.join(folder, "out"), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=180,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} exits with {done.returncode}")
    return json.loads(done.stdout)


# ---- traces -----------------------------------------------------------------------------------------

STEPS = 20


def check_waits(checks, arguments):
    """Waits for the GPU in a trace:"""
    if arguments.device == "cpu":
        return checks.line("trace: waits for the GPU (loss.item() and others) are marked", "no GPU", "a GPU", None)
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace")
        own = last_line([sys.executable, "-m", "millrace.trace", "-o", trace, __file__, "--wait-in-steps"])
        text = [subprocess.run([find_program(), "report", trace, *options], stdout=subprocess.PIPE, text=True,
                               check=True).stdout for options in ((), ("--json",))]
    print("\n".join("    | " + line for line in text[0].splitlines() if "GPU" in line or "device" in line))
    waits = [each for each in json.loads(text[1])["functions"] if each["name"].startswith("device_wait.")]
    print(f"    | {', '.join(each['name'] for each in waits)}")
    checks.equal("trace: waits for the GPU that are marked", sum(each["count"] for each in waits), own["count"])
    ratio = sum(each["time_ns"] for each in waits) / 1e9 / own["seconds"]
    checks.line("trace: their time, as a part of what the program measured itself", ratio, "0.9 to 1.1",
                0.9 <= ratio <= 1.1)
    checks.equal("trace: the report says what waited", "item() 20 times" in " ".join(text[0].split()), True)


def wait_in_steps():
    """Each step waits for its loss, and twice more; the last copy waits for nothing."""
    device = torch.device("cuda")
    net = make_net(device)
    optimizer = make_lars(net)
    pinned = torch.empty(1, pin_memory=True)
    count, seconds = 0, 0.0
    for number in torch.utils.data.DataLoader(range(STEPS), batch_size=None):
        images, labels = make_batch(device, number)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        for wait in (loss.item, loss.detach().cpu, lambda: loss.detach().to("cpu"), lambda: float(loss.detach())):
            torch.cuda._sleep(4_000_000)  # cycles: about 2 ms
            began = time.monotonic()
            wait()
            seconds += time.monotonic() - began
            count += 1
        pinned.copy_(loss.detach().reshape(1), non_blocking=True)
    print(json.dumps({"count": count, "seconds": seconds}))


def find_program():
    from millrace._program import PROGRAM
    return PROGRAM if os.path.isfile(PROGRAM) else shutil.which("millrace")


CHECKS = (check_grad_scaler, check_bf16, check_compile, check_compression, check_lab, check_waits)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the lines here too")
    names = ", ".join(check.__name__[len("check_"):] for check in CHECKS)
    parser.add_argument("--only", metavar="NAME,...", help=f"of {names}")
    hidden = argparse.SUPPRESS  # of the processes that are started
    parser.add_argument("--rank-of", type=int, help=hidden)
    parser.add_argument("--rank", type=int, help=hidden)
    parser.add_argument("--backend", help=hidden)
    parser.add_argument("--store", help=hidden)
    parser.add_argument("--wait-in-steps", action="store_true", help=hidden)
    return parser.parse_args()


def main():
    arguments = parse()
    # Otherwise two runs of the same steps differ on a GPU.
    torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = True, False
    if arguments.rank_of:
        return be_a_rank(arguments)
    if arguments.wait_in_steps:
        return wait_in_steps()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("gpu_checks.py: PyTorch finds no GPU here; give --device cpu for the part that needs none")
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else "no GPU"
    print(f"{name}, torch {torch.__version__}")
    print("NCCL refuses two ranks on one GPU: one rank over NCCL, two over gloo with tensors of the GPU.")
    checks = Checks()
    for check in CHECKS:
        if not arguments.only or check.__name__[len("check_"):] in arguments.only.split(","):
            checks.run(check, arguments)
    failed = [row for row in checks.rows if row["ok"] is False]
    print(f"{len(checks.rows)} lines: {sum(row['ok'] is True for row in checks.rows)} ok, {len(failed)} NOT, "
          f"{sum(row['ok'] is None for row in checks.rows)} skipped")
    if arguments.json:
        arguments.json.write_text(json.dumps({"device": name, "torch": torch.__version__, "lines": checks.rows}, indent=1)
                                  + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
