#!/usr/bin/env python3
"""What a step of LARS costs, beside a step of torch's SGD with foreach=True on the same parameters.

    PYTHONPATH=build/release/python benchmarks/optim_cost.py                      # about 20 s on two cores
    PYTHONPATH=build/release/python benchmarks/optim_cost.py --device cuda --json optim_cost.json

The parameters have the shapes of ResNet-50: 161 tensors, 25.6 million numbers. Rounds of the optimizers
alternate, so that a busy machine slows all of them; the ratio is that of the medians. On a GPU,
`torch.cuda.set_sync_debug_mode` makes any wait of the host for the device an error."""

import argparse
import json
import statistics
import time

import torch

from millrace import optim

STAGES = ((64, 256, 3), (256, 512, 4), (512, 1024, 6), (1024, 2048, 3))  # inputs, outputs, blocks


def resnet50_shapes():
    """(shape, whether LARS adapts it)."""
    def convolution(outputs, inputs, size):
        return [((outputs, inputs, size, size), True), ((outputs,), False), ((outputs,), False)]

    shapes = convolution(64, 3, 7)
    for inputs, outputs, blocks in STAGES:
        middle = outputs // 4
        for block in range(blocks):
            width = inputs if block == 0 else outputs
            shapes += convolution(middle, width, 1) + convolution(middle, middle, 3)
            shapes += convolution(outputs, middle, 1)
            if block == 0:
                shapes += convolution(outputs, width, 1)
    return shapes + [((1000, 2048), True), ((1000,), False)]


def make_parameters(shapes, device, dtype):
    generator = torch.Generator().manual_seed(1)
    groups = [{"params": [], "adapt": True}, {"params": [], "adapt": False, "weight_decay": 0.0}]
    for shape, is_adapted in shapes:
        values = torch.randn(shape, generator=generator).mul_(0.02).to(device, dtype)
        parameter = torch.nn.Parameter(values)
        parameter.grad = torch.randn(shape, generator=generator).mul_(0.001).to(device, dtype)
        groups[0 if is_adapted else 1]["params"].append(parameter)
    return groups


def optimizers(shapes, device, dtype):
    def groups():
        return make_parameters(shapes, device, dtype)

    def plain():
        return [{key: value for key, value in group.items() if key != "adapt"} for group in groups()]

    made = {"SGD, foreach": torch.optim.SGD(plain(), lr=1e-3, momentum=0.9, weight_decay=5e-4, foreach=True),
            "LARS": optim.LARS(groups(), lr=1e-3),
            "LARS, lr outside": optim.LARS(groups(), lr=1e-3, lr_in_momentum=False),
            "LARS, clipped": optim.LARS(groups(), lr=1e-3, clip=True)}
    try:
        made["SGD, fused"] = torch.optim.SGD(plain(), lr=1e-3, momentum=0.9, weight_decay=5e-4, fused=True)
    except (TypeError, RuntimeError):  # torch before 2.3, or a device that has none
        pass
    return made


def seconds_of(optimizer, steps, synchronize):
    synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        optimizer.step()
    host = time.perf_counter() - began
    synchronize()
    return (time.perf_counter() - began) / steps, host / steps


def measure(made, rounds, steps, synchronize):
    total = {name: [] for name in made}
    host = {name: [] for name in made}
    for round_number in range(rounds + 1):
        for name, optimizer in made.items():
            both = seconds_of(optimizer, steps, synchronize)
            if round_number > 0:  # the first one allocates
                total[name].append(both[0])
                host[name].append(both[1])
    return [{"optimizer": name, "ms": statistics.median(total[name]) * 1e3,
             "best_ms": min(total[name]) * 1e3, "host_ms": statistics.median(host[name]) * 1e3}
            for name in made]


def difference_to_cpu(shapes, device):
    """The largest relative difference of a weight after 5 steps, one of them skipped; and the number of
    skipped steps."""
    made = []
    for where in (device, "cpu"):
        groups = make_parameters(shapes, where, torch.float32)
        optimizer = optim.LARS(groups, lr=1.0)
        for step in range(5):
            gradient = groups[1]["params"][0].grad
            kept = gradient.clone()
            if step == 2:
                gradient[0] = float("nan")
            optimizer.step()
            gradient.copy_(kept)
        made.append((groups, optimizer.skipped_steps))
    (ours, skipped), (others, _) = made
    worst = max(((own.cpu() - other).abs().max() / other.abs().max()).item()
                for group, twins in zip(ours, others) for own, other in zip(group["params"], twins["params"]))
    return worst, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, help="of a round; by default 1 on a CPU and 50 on a GPU")
    parser.add_argument("--tiny", action="store_true", help="parameters of 1/64 of the size, to try the script")
    parser.add_argument("--json", help="a file for the figures")
    arguments = parser.parse_args()
    is_gpu = arguments.device.startswith("cuda")
    shapes = resnet50_shapes()
    if arguments.tiny:
        shapes = [((*(max(1, size // 8) for size in shape[:2]), *shape[2:]), adapts)
                  for shape, adapts in shapes]
    made = optimizers(shapes, arguments.device, getattr(torch, arguments.dtype))
    for optimizer in made.values():  # makes the velocities, and loads what is loaded on first use
        optimizer.step()
    if is_gpu:
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
    rows = measure(made, arguments.rounds, arguments.steps or (50 if is_gpu else 1),
                   torch.cuda.synchronize if is_gpu else lambda: None)
    if is_gpu:
        torch.cuda.set_sync_debug_mode("default")
    skipped = sum(each.skipped_steps for each in made.values() if isinstance(each, optim.LARS))
    where = torch.cuda.get_device_name() if is_gpu else f"CPU, {torch.get_num_threads()} threads"
    size = sum(torch.Size(shape).numel() for shape, _ in shapes)
    print(f"torch {torch.__version__}, {where}, {arguments.dtype}: {len(shapes)} tensors, {size:,} numbers; "
          f"{skipped} steps skipped")
    print(f"{'':18} {'ms a step':>10} {'best':>8} {'host':>8} {'to SGD, foreach':>16} {'best':>6}")
    for row in rows:
        row["ratio"], row["best_ratio"] = (row[key] / rows[0][key] for key in ("ms", "best_ms"))
        print(f"{row['optimizer']:18} {row['ms']:10.3f} {row['best_ms']:8.3f} {row['host_ms']:8.3f} "
              f"{row['ratio']:16.2f} {row['best_ratio']:6.2f}")
    worst, skipped = difference_to_cpu(shapes, arguments.device)
    print(f"after 5 steps, one with a NaN gradient: {skipped} skipped; weights differ from the CPU's by {worst:.1e}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "device": where, "dtype": arguments.dtype,
                       "tensors": len(shapes), "numbers": size, "rows": rows,
                       "difference_to_cpu": worst, "skipped": skipped}, file, indent=1)


if __name__ == "__main__":
    main()
