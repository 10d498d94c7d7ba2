#!/usr/bin/env python3
"""The kernels of LARS, in Triton's interpreter on the CPU: they change parameters as the step on tensors does."""

import os
import sys
import unittest

os.environ["TRITON_INTERPRET"] = "1"

try:
    import torch
    import triton  # noqa: F401
except ImportError:
    print("skipped: torch or Triton is not installed")
    sys.exit(0)

from millrace.optim import LARS, _kernels, lars

CPU = torch.device("cpu")


def step_by_kernels(optimizer: LARS, table: "_kernels.Table") -> None:
    groups = optimizer._groups()
    assert table.look(groups)
    table.step(groups, [], optimizer._skipped_on(CPU))


class Kernels(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(7)
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, True)
        for name, value in (("CHUNK", 256), ("BLOCK", 64), ("PARTS", 4)):  # several chunks, and sums of them
            self.addCleanup(setattr, _kernels, name, getattr(_kernels, name))
            setattr(_kernels, name, value)

    def make(self, values: list, **options) -> tuple:
        own = [torch.nn.Parameter(each.clone(memory_format=torch.preserve_format)) for each in values]
        groups = [{"params": own[:3]}, {"params": own[3:], "adapt": False, "weight_decay": 0.0}]
        return own, LARS(groups, lr=0.5, **options)

    def test_steps_are_those_on_tensors(self) -> None:
        values = [torch.randn(3000), torch.randn(7, 5), torch.zeros(4),
                  torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.randn(())]
        for options in ({}, {"lr_in_momentum": False}, {"clip": True}, {"maximize": True},
                        {"clip": True, "lr_in_momentum": False}):
            with self.subTest(**options):
                host, on_host = self.make(values, **options)
                device, on_device = self.make(values, **options)
                table = _kernels.Table(CPU)
                for step in range(4):
                    for group in on_host.param_groups + on_device.param_groups:
                        group["lr"] = 0.0 if step == 0 else 0.5
                    for one, other in zip(host, device):
                        one.grad = torch.randn_like(one)
                        if step == 2 and one.dim() == 2:
                            one.grad[0, 0] = float("nan")  # skipped
                        other.grad = one.grad.clone(memory_format=torch.preserve_format)
                    lars._step_on_tensors(on_host, on_host._groups())
                    step_by_kernels(on_device, table)
                for one, other in zip(host, device):
                    torch.testing.assert_close(other, one, rtol=0, atol=1e-6)
                self.assertEqual((on_host.skipped_steps, on_device.skipped_steps), (1, 1))

    def test_other_kinds_are_refused(self) -> None:
        for value, gradient in ((torch.ones(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16)),
                                (torch.ones(3, 4).t(), torch.ones(4, 3)), (torch.ones(6)[::2], torch.ones(3))):
            parameter = torch.nn.Parameter(value)
            parameter.grad = gradient
            optimizer = LARS([parameter], lr=1.0)
            self.assertFalse(_kernels.Table(CPU).look(optimizer._groups()))


if __name__ == "__main__":
    unittest.main()
