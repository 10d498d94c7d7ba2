#!/usr/bin/env python3
"""LARS of millrace.optim beside that of timm: the same weights, and the time of a step.

    pip install timm                 # into an environment of its own, with torch 2
    PYTHONPATH=build/release/python benchmarks/optim_peers.py

timm's has the rate outside of the velocity and adapts every parameter if asked to; this is
`lr_in_momentum=False`. Weights are compared in float64 after 20 steps with a rate that changes."""

import itertools
import statistics
import time

import timm
import torch
from timm.optim import Lars

from millrace import optim
from optim_cost import resnet50_shapes


def difference(clip, momentum, decay, trust):
    """The largest relative difference of a weight after 20 steps."""
    torch.manual_seed(1)
    shapes = [(64, 3, 7, 7), (64,), (128, 64, 3, 3), (10, 128), (10,)]
    start = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    ours, theirs = ([torch.nn.Parameter(each.clone()) for each in start] for _ in range(2))
    optimizers = (optim.LARS(ours, lr=0.5, momentum=momentum, weight_decay=decay, trust_coefficient=trust,
                             lr_in_momentum=False, clip=clip),
                  Lars(theirs, lr=0.5, momentum=momentum, weight_decay=decay, trust_coeff=trust, eps=0.0,
                       trust_clip=clip, always_adapt=True))
    for step in range(20):
        for own, other in zip(ours, theirs):
            own.grad = torch.randn_like(own)
            other.grad = own.grad.clone()
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = 0.5 * (1 - step / 20)**2
            optimizer.step()
    return max(((own - other).abs().max() / other.abs().max()).item() for own, other in zip(ours, theirs))


def milliseconds(make, rounds=7):
    parameters = [torch.nn.Parameter(torch.randn(shape) * 0.02) for shape, _ in resnet50_shapes()]
    for each in parameters:
        each.grad = torch.randn_like(each) * 0.001
    optimizer = make(parameters)
    optimizer.step()
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        optimizer.step()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e3


def main():
    settings = list(itertools.product((False, True), (0.0, 0.9), (0.0, 5e-4), (0.001, 0.02)))
    worst = max(difference(*setting) for setting in settings)
    print(f"timm {timm.__version__}, torch {torch.__version__}: {len(settings)} settings, 20 steps; the largest "
          f"relative difference of a weight is {worst:.1e}")
    ours = milliseconds(lambda parameters: optim.LARS(parameters, lr=1e-3, lr_in_momentum=False))
    theirs = milliseconds(lambda parameters: Lars(parameters, lr=1e-3, momentum=0.9, weight_decay=5e-4))
    print(f"a step on the parameters of ResNet-50, CPU: millrace {ours:.1f} ms, timm {theirs:.1f} ms")
    assert worst < 1e-12


if __name__ == "__main__":
    main()
