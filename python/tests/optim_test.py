#!/usr/bin/env python3
"""millrace.optim: LARS against values computed by hand and a float64 reference; its groups and
schedules."""

import copy
import io
import math
import subprocess
import sys
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(0)

from torch import nn

from millrace import optim
from millrace.optim import lars


def with_numbers() -> bool:
    return False


def with_tensors() -> bool:
    """As on a GPU without the kernels, and under torch.compile."""
    return True


WAYS = [with_numbers, with_tensors]  # instead of lars._is_compiling


def parameter(values, dtype=torch.float64) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values, dtype=dtype))


def small_net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 5))


def reference(w, gradients, rates, momentum=0.9, decay=5e-4, trust=1e-3, inside=True, clip=False,
              adapt=True):
    """LARS as the facts say it, in float64, one parameter at a time."""
    w = w.detach().double().clone()
    v = torch.zeros_like(w)
    for g, lr in zip(gradients, rates):
        g = g.double()
        w_norm, g_norm = float((w * w).sum().sqrt()), float((g * g).sum().sqrt())
        ratio = 1.0
        if adapt and w_norm > 0 and g_norm > 0:
            ratio = trust * w_norm / (g_norm + decay * w_norm)
        if adapt and clip:
            ratio = min(ratio / lr, 1.0) if lr > 0 else 1.0
        if inside:
            v = momentum * v + lr * ratio * (g + decay * w)
            w = w - v
        else:
            v = momentum * v + ratio * (g + decay * w)
            w = w - lr * v
    return w


class Values(unittest.TestCase):
    def test_two_steps_are_those_computed_by_hand(self):
        for way in WAYS:
            with self.subTest(way.__name__), mock.patch.object(lars, "_is_compiling", way):
                w = parameter([3.0, 4.0])
                optimizer = optim.LARS([w], lr=1.0)
                w.grad = torch.tensor([0.6, 0.8], dtype=torch.float64)
                optimizer.step()
                torch.testing.assert_close(w.detach(), torch.tensor([2.997, 3.996]).double(),
                                           rtol=0, atol=1e-6)
                optimizer.step()
                torch.testing.assert_close(w.detach(), torch.tensor([2.991303, 3.988404]).double(),
                                           rtol=0, atol=1e-6)

    def test_a_gradient_along_the_weights_moves_them_by_lr_times_trust(self):
        w = parameter([3.0, 4.0])
        optimizer = optim.LARS([w], lr=0.5, trust_coefficient=0.01)
        w.grad = 7 * w.detach()
        optimizer.step()
        moved = (w.detach() - torch.tensor([3.0, 4.0]).double()).norm()
        self.assertAlmostEqual(float(moved), 0.5 * 0.01 * 5, places=12)

    def test_without_decay_the_scale_of_the_gradient_does_not_matter(self):
        results = []
        for scale in (1e-6, 1.0, 1e6):
            w = parameter([[1.0, -2.0], [0.5, 3.0]])
            optimizer = optim.LARS([w], lr=1.0, weight_decay=0)
            w.grad = scale * torch.tensor([[0.3, 0.1], [-0.2, 0.9]]).double()
            optimizer.step()
            results.append(w.detach())
        torch.testing.assert_close(results[0], results[1])
        torch.testing.assert_close(results[2], results[1])

    def test_a_zero_norm_is_not_adapted(self):
        for way in WAYS:
            with self.subTest(way.__name__), mock.patch.object(lars, "_is_compiling", way):
                zero, still = parameter([0.0, 0.0]), parameter([3.0, 4.0])
                optimizer = optim.LARS([zero, still], lr=0.1)
                zero.grad = torch.tensor([1.0, 2.0]).double()
                still.grad = torch.zeros(2).double()
                optimizer.step()
                torch.testing.assert_close(zero.detach(), torch.tensor([-0.1, -0.2]).double())
                kept = 1 - 0.1 * 5e-4
                torch.testing.assert_close(still.detach(), torch.tensor([3.0, 4.0]).double() * kept)

    def test_every_form_follows_the_float64_reference(self):
        torch.manual_seed(1)
        start = torch.randn(7, 5)
        gradients = [torch.randn(7, 5) * 10.0**(k - 2) for k in range(6)]
        rates = [0.0, 0.4, 1.5, 1.0, 0.5, 0.01]  # a schedule may begin with 0
        forms = [{"inside": inside, "clip": clip, "adapt": adapt}
                 for inside in (True, False) for clip in (True, False) for adapt in (True, False)]
        for way in WAYS:
            for dtype, near in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
                for form in forms:
                    with self.subTest(way=way.__name__, dtype=dtype, **form), \
                            mock.patch.object(lars, "_is_compiling", way):
                        w = nn.Parameter(start.to(dtype, copy=True))
                        optimizer = optim.LARS([w], lr=rates[0], lr_in_momentum=form["inside"],
                                               clip=form["clip"], adapt=form["adapt"])
                        for gradient, rate in zip(gradients, rates):
                            optimizer.param_groups[0]["lr"] = rate
                            w.grad = gradient.to(dtype)
                            optimizer.step()
                        expected = reference(start.to(dtype), gradients, rates, **form)
                        torch.testing.assert_close(w.detach().double(), expected, rtol=near, atol=near)

    def test_kernels_are_for_parameters_on_one_gpu(self):
        def on(*devices: str) -> list:
            return [mock.Mock(device=torch.device(name)) for name in devices]

        with mock.patch.object(lars, "_kernels", mock.Mock()):
            self.assertTrue(lars._can_use_kernels(on("cuda:1", "cuda:1")))
            for devices in (("cuda:0", "cuda:1"), ("cuda:0", "cpu"), ("mps",), ("cpu",)):
                self.assertFalse(lars._can_use_kernels(on(*devices)))

    def test_maximize_ascends(self):
        for way in WAYS:
            with self.subTest(way.__name__), mock.patch.object(lars, "_is_compiling", way):
                down, up = parameter([[3.0, 4.0]]), parameter([[3.0, 4.0]])
                down.grad = torch.tensor([[0.6, -0.8]]).double()
                up.grad = -down.grad
                optim.LARS([down], lr=1.0).step()
                optim.LARS([up], lr=1.0, maximize=True).step()
                torch.testing.assert_close(up.detach(), down.detach())

    def test_not_adapted_it_is_sgd(self):
        net, twin = small_net(), small_net()
        mine = optim.LARS(net.parameters(), lr=0.1, adapt=False, lr_in_momentum=False)
        theirs = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        for _ in range(4):
            batch = torch.randn(2, 3, 8, 8)
            for model, optimizer in ((net, mine), (twin, theirs)):
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()
        for ours, other in zip(net.parameters(), twin.parameters()):
            torch.testing.assert_close(ours, other)

    def test_half_precision_weights_keep_their_dtype_and_norms_do_not_overflow(self):
        for way in WAYS:
            with self.subTest(way.__name__), mock.patch.object(lars, "_is_compiling", way):
                w = nn.Parameter(torch.full((64, 64), 30.0, dtype=torch.bfloat16))
                w.grad = torch.full_like(w, 3e4)
                optimizer = optim.LARS([w], lr=10.0)
                optimizer.step()
                self.assertEqual(w.dtype, torch.bfloat16)
                self.assertAlmostEqual(float(w[0, 0]), 30 - 0.3, delta=0.13)
                self.assertEqual(optimizer.skipped_steps, 0)


class BadGradients(unittest.TestCase):
    def test_a_step_with_a_bad_gradient_changes_nothing_and_is_counted(self):
        for way in WAYS:
            for bad in (math.nan, math.inf, -math.inf):
                with self.subTest(way=way.__name__, bad=bad), \
                        mock.patch.object(lars, "_is_compiling", way):
                    w, bias = parameter([[3.0, 4.0]]), parameter([1.0])
                    optimizer = optim.LARS(optim.parameter_groups([w, bias]), lr=1.0)
                    w.grad, bias.grad = torch.ones(1, 2).double(), torch.ones(1).double()
                    optimizer.step()
                    before = copy.deepcopy((w, bias, optimizer.state_dict()["state"]))
                    bias.grad = torch.tensor([bad]).double()
                    optimizer.step()
                    optimizer.step()
                    self.assertEqual(optimizer.skipped_steps, 2)
                    torch.testing.assert_close((w, bias), before[:2], rtol=0, atol=0)
                    for place, state in optimizer.state_dict()["state"].items():
                        torch.testing.assert_close(state["momentum_buffer"],
                                                   before[2][place]["momentum_buffer"], rtol=0, atol=0)
                    bias.grad = torch.ones(1).double()
                    optimizer.step()
                    self.assertEqual(optimizer.skipped_steps, 2)
                    self.assertFalse(torch.equal(bias, before[1]))

    def test_skipped_steps_are_in_the_state(self):
        w = parameter([[3.0, 4.0]])
        optimizer = optim.LARS([w], lr=1.0)
        w.grad = torch.full((1, 2), math.nan).double()
        optimizer.step()
        other = optim.LARS([parameter([[3.0, 4.0]])], lr=1.0)
        other.load_state_dict(optimizer.state_dict())
        self.assertEqual(other.skipped_steps, 1)

    def test_what_a_scaler_found_is_skipped_and_its_scale_removed(self):
        if not hasattr(torch, "compile"):
            self.skipTest("needs GradScaler's protocol of torch 2")
        for way in WAYS:
            with self.subTest(way.__name__), mock.patch.object(lars, "_is_compiling", way):
                scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
                w = nn.Parameter(torch.tensor([[3.0, 4.0]]))
                optimizer = optim.LARS([w], lr=1.0)
                scaler.scale((w * torch.tensor([[0.6, 0.8]])).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
                torch.testing.assert_close(w.detach(), torch.tensor([[2.997, 3.996]]))
                optimizer.zero_grad()
                scaler.scale((w * math.inf).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
                torch.testing.assert_close(w.detach(), torch.tensor([[2.997, 3.996]]))
                self.assertEqual((optimizer.skipped_steps, scaler.get_scale()), (1, 512.0))

    def test_sparse_gradients_are_refused(self):
        table = nn.Embedding(10, 3, sparse=True)
        optimizer = optim.LARS(table.parameters(), lr=1.0)
        table(torch.tensor([1, 2])).sum().backward()
        with self.assertRaisesRegex(RuntimeError, "dense gradients.*(10, 3).*sparse=False"):
            optimizer.step()

    def test_complex_parameters_are_refused(self):
        with self.assertRaisesRegex(TypeError, "parameter 0 of group 0 has dtype torch.complex64"):
            optim.LARS([nn.Parameter(torch.zeros(2, dtype=torch.complex64))], lr=1.0)


class Interface(unittest.TestCase):
    def train(self, net, optimizer, steps, seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            optimizer.zero_grad()
            net(torch.randn(2, 3, 8, 8, generator=generator)).square().sum().backward()
            optimizer.step()

    def test_a_resumed_run_is_the_same_run(self):
        whole, first, second = small_net(), small_net(), small_net()
        optimizer = optim.LARS(optim.parameter_groups(whole), lr=0.5)
        self.train(whole, optimizer, 3, seed=1)
        self.train(whole, optimizer, 3, seed=2)
        optimizer = optim.LARS(optim.parameter_groups(first), lr=0.5)
        self.train(first, optimizer, 3, seed=1)
        file = io.BytesIO()
        torch.save((first.state_dict(), optimizer.state_dict()), file)
        file.seek(0)
        weights, state = torch.load(file)
        second.load_state_dict(weights)
        optimizer = optim.LARS(optim.parameter_groups(second), lr=0.1)
        optimizer.load_state_dict(state)
        self.train(second, optimizer, 3, seed=2)
        for ours, other in zip(second.parameters(), whole.parameters()):
            torch.testing.assert_close(ours, other, rtol=0, atol=0)

    def test_a_state_of_another_model_is_refused(self):
        wide, narrow = nn.Linear(5, 2), nn.Linear(4, 2)
        optimizer = optim.LARS(wide.parameters(), lr=1.0)
        wide(torch.ones(1, 5)).sum().backward()
        optimizer.step()
        with self.assertRaisesRegex(ValueError, r"velocity of parameter 0 has shape \(2, 5\).*\(2, 4\)"):
            optim.LARS(narrow.parameters(), lr=1.0).load_state_dict(optimizer.state_dict())

    def test_a_group_can_be_added_and_has_its_own_options(self):
        first, second = parameter([[3.0, 4.0]]), parameter([[3.0, 4.0]])
        optimizer = optim.LARS([first], lr=1.0)
        optimizer.add_param_group({"params": [second], "lr": 2.0, "weight_decay": 0.0})
        first.grad = second.grad = torch.tensor([[0.6, 0.8]]).double()
        optimizer.step()
        torch.testing.assert_close(first.detach(), torch.tensor([[2.997, 3.996]]).double())
        torch.testing.assert_close(second.detach(), torch.tensor([[2.994, 3.992]]).double())

    def test_a_closure_is_called_with_gradients_enabled(self):
        w = parameter([[3.0, 4.0]])
        optimizer = optim.LARS([w], lr=1.0)

        def closure():
            optimizer.zero_grad()
            loss = (w * torch.tensor([[0.6, 0.8]]).double()).sum()
            loss.backward()
            return loss

        self.assertAlmostEqual(optimizer.step(closure).item(), 5.0, places=5)
        torch.testing.assert_close(w.detach(), torch.tensor([[2.997, 3.996]]).double())

    def test_parameters_without_a_gradient_are_left_alone(self):
        used, unused = parameter([[3.0, 4.0]]), parameter([[3.0, 4.0]])
        optimizer = optim.LARS([unused, used], lr=1.0)
        optimizer.step()
        used.grad = torch.tensor([[0.6, 0.8]]).double()
        optimizer.step()
        self.assertEqual(unused.tolist(), [[3.0, 4.0]])
        self.assertNotEqual(used.tolist(), [[3.0, 4.0]])
        self.assertEqual(list(optimizer.state_dict()["state"]), [1])

    def test_mixed_dtypes_and_a_rate_in_a_tensor(self):
        for way in WAYS:
            with self.subTest(way.__name__), mock.patch.object(lars, "_is_compiling", way):
                wide, narrow = parameter([[3.0, 4.0]]), parameter([[3.0, 4.0]], torch.float32)
                optimizer = optim.LARS([wide, narrow], lr=torch.tensor(1.0))
                wide.grad, narrow.grad = (torch.tensor([[0.6, 0.8]], dtype=each.dtype)
                                          for each in (wide, narrow))
                optimizer.step()
                torch.testing.assert_close(wide.float(), torch.tensor([[2.997, 3.996]]))
                torch.testing.assert_close(narrow.detach(), torch.tensor([[2.997, 3.996]]))

    def test_autocast_to_bfloat16_trains_float32_weights(self):
        net = small_net()
        optimizer = optim.LARS(optim.parameter_groups(net), lr=0.5)
        torch.manual_seed(0)
        images = torch.randn(4, 3, 8, 8)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = net(images).float().square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0])
        self.assertTrue(all(each.dtype == torch.float32 for each in net.parameters()))

    def test_channels_last_and_empty_parameters_are_updated(self):
        for way in WAYS:
            with self.subTest(way.__name__), mock.patch.object(lars, "_is_compiling", way):
                torch.manual_seed(2)
                start, gradient = torch.randn(4, 3, 5, 5), torch.randn(4, 3, 5, 5)
                last = nn.Parameter(start.clone().to(memory_format=torch.channels_last))
                last.grad = gradient.to(memory_format=torch.channels_last)
                empty = nn.Parameter(torch.zeros(0, 3))
                empty.grad = torch.zeros(0, 3)
                optimizer = optim.LARS([last, empty], lr=1.0)
                optimizer.step()
                optimizer.step()
                expected = reference(start, [gradient, gradient], [1.0, 1.0])
                torch.testing.assert_close(last.detach().double(), expected, rtol=1e-5, atol=1e-5,
                                           check_stride=False)

    def test_a_gradient_that_comes_later_finds_its_place(self):
        for way in WAYS:
            with self.subTest(way.__name__), mock.patch.object(lars, "_is_compiling", way):
                first, second = parameter([[3.0, 4.0]]), parameter([[3.0, 4.0]])
                optimizer = optim.LARS([first, second], lr=1.0)
                first.grad = torch.tensor([[0.6, 0.8]]).double()
                optimizer.step()
                second.grad = torch.tensor([[0.6, 0.8]]).double()
                optimizer.step()
                torch.testing.assert_close(first.detach(), torch.tensor([[2.991303, 3.988404]]).double(),
                                           rtol=0, atol=1e-6)
                torch.testing.assert_close(second.detach(), torch.tensor([[2.997, 3.996]]).double())

    def test_a_pickled_optimizer_continues(self):
        w = parameter([[3.0, 4.0]])
        w.grad = torch.tensor([[0.6, 0.8]]).double()
        optimizer = optim.LARS([w], lr=1.0)
        optimizer.step()
        other = copy.deepcopy(optimizer)
        moved = other.param_groups[0]["params"][0]
        moved.grad = w.grad.clone()
        other.step()
        torch.testing.assert_close(moved.detach(), torch.tensor([[2.991303, 3.988404]]).double(),
                                   rtol=0, atol=1e-6)

    def test_a_compiled_step_is_the_same_step(self):
        if not hasattr(torch, "compile"):
            self.skipTest("needs torch.compile")
        eager, compiled = small_net(), small_net()
        steps = []
        for net in (eager, compiled):
            optimizer = optim.LARS(optim.parameter_groups(net), lr=torch.tensor(0.5))
            steps.append((net, optimizer, optimizer.step))
        whole = torch.compile(lambda: optimizer.step(), backend="eager", fullgraph=True)
        steps[1] = (compiled, optimizer, whole)
        for number in range(4):
            images = torch.randn(2, 3, 8, 8)
            for net, optimizer, step in steps:
                optimizer.zero_grad()
                net(images).square().mean().backward()
                if number == 2:
                    net[3].bias.grad.fill_(math.nan)
                step()
        for ours, other in zip(compiled.parameters(), eager.parameters()):
            torch.testing.assert_close(ours, other)
        self.assertEqual([each.skipped_steps for _, each, _ in steps], [1, 1])

    def test_wrong_options_are_named(self):
        w = parameter([1.0])
        for options, message in (({"lr": -1.0}, "lr of parameter group 0 is -1.0"),
                                 ({"lr": math.nan}, "lr of parameter group 0 is nan"),
                                 ({"lr": torch.ones(2)}, r"lr of parameter group 0 has shape \(2,\)"),
                                 ({"lr": 1.0, "momentum": -0.1}, "momentum of parameter group 0 is -0.1"),
                                 ({"lr": 1.0, "weight_decay": -1}, "weight_decay of parameter group 0"),
                                 ({"lr": 1.0, "trust_coefficient": "a"}, "trust_coefficient.* is 'a'")):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                optim.LARS([w], **options)
        with self.assertRaisesRegex(ValueError, "list of parameters is empty"):
            optim.LARS([], lr=1.0)
        with self.assertRaisesRegex(ValueError, "parameter group 1 is empty"):
            optim.LARS([{"params": [w]}, {"params": []}], lr=1.0)
        with self.assertRaisesRegex(TypeError, "one tensor"):
            optim.LARS(w, lr=1.0)

    def test_importing_millrace_does_not_import_torch(self):
        program = "import millrace, sys; assert 'torch' not in sys.modules; millrace.optim; " \
                  "assert 'torch' in sys.modules"
        subprocess.run([sys.executable, "-c", program], check=True)


class Groups(unittest.TestCase):
    def names(self, net, groups):
        name_of = {id(each): name for name, each in net.named_parameters()}
        return [[name_of[id(each)] for each in group["params"]] for group in groups]

    def test_biases_and_norm_layers_are_not_adapted(self):
        net = small_net()
        groups = optim.parameter_groups(net)
        self.assertEqual(self.names(net, groups), [["0.weight", "3.weight"],
                                                   ["0.bias", "1.weight", "1.bias", "3.bias"]])
        self.assertEqual((groups[1]["weight_decay"], groups[1]["adapt"]), (0.0, False))

    def test_dimensions_find_what_names_do_not(self):
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.gain = nn.Parameter(torch.ones(4))
                self.inner = nn.Linear(4, 4)

        net = Scaled()
        self.assertEqual(self.names(net, optim.parameter_groups(net)),
                         [["gain", "inner.weight"], ["inner.bias"]])
        by_dimension = [["inner.weight"], ["gain", "inner.bias"]]
        self.assertEqual(self.names(net, optim.parameter_groups(net, by_dimension=True)), by_dimension)
        self.assertEqual(self.names(net, optim.parameter_groups(net.parameters())), by_dimension)

    def test_frozen_parameters_are_left_out_and_empty_groups_too(self):
        net = nn.Linear(3, 2, bias=False)
        self.assertEqual(len(optim.parameter_groups(net)), 1)
        net.weight.requires_grad_(False)
        with self.assertRaisesRegex(ValueError, "no parameter that needs a gradient"):
            optim.parameter_groups(net)

    def test_a_shared_parameter_comes_once(self):
        net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        net[1].weight = net[0].weight
        self.assertEqual(self.names(net, optim.parameter_groups(net)), [["0.weight"], ["0.bias", "1.bias"]])


class Schedules(unittest.TestCase):
    def rates(self, steps, *args, **options):
        optimizer = torch.optim.SGD([parameter([1.0])], lr=2.0)
        schedule = optim.WarmupPolynomial(optimizer, *args, **options)
        rates = []
        for _ in range(steps):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return rates

    def test_the_rate_scales_with_the_batch(self):
        self.assertAlmostEqual(optim.scaled_lr(0.1, 8192), 3.2)
        self.assertAlmostEqual(optim.scaled_lr(0.1, 64, base_batch=128), 0.05)
        for arguments, message in (((0.1, 0), "batch is 0"), ((-0.1, 256), "base rate is -0.1"),
                                   ((0.1, 256, 0), "base_batch is 0"), ((0.1, 2.5), "batch is 2.5")):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                optim.scaled_lr(*arguments)

    def test_warm_up_then_a_parabola(self):
        rates = self.rates(9, 3, 7)
        expected = [0.5, 1.0, 1.5, 2.0, 2 * 0.75**2, 2 * 0.5**2, 2 * 0.25**2, 0.0, 0.0]
        for rate, value in zip(rates, expected):
            self.assertAlmostEqual(rate, value)

    def test_ends_and_powers_can_be_chosen(self):
        rates = self.rates(5, 1, 4, power=1, start_factor=0.5, end_factor=0.1)
        for rate, factor in zip(rates, [0.75, 1.0, 0.7, 0.4, 0.1]):
            self.assertAlmostEqual(rate, 2 * factor)

    def test_epochs_become_steps(self):
        optimizer = torch.optim.SGD([parameter([1.0])], lr=2.0)
        schedule = optim.WarmupPolynomial.in_epochs(optimizer, 5, 90, steps_per_epoch=10)
        self.assertEqual((schedule.warmup_steps, schedule.total_steps), (50, 900))
        with self.assertRaisesRegex(ValueError, "steps_per_epoch is 0.*samples"):
            optim.WarmupPolynomial.in_epochs(optimizer, 5, 90, steps_per_epoch=0)

    def test_a_resumed_schedule_continues(self):
        whole = self.rates(8, 2, 8)
        first = torch.optim.SGD([parameter([1.0])], lr=2.0)
        schedule = optim.WarmupPolynomial(first, 2, 8)
        for _ in range(4):
            first.step()
            schedule.step()
        second = torch.optim.SGD([parameter([1.0])], lr=2.0)
        resumed = optim.WarmupPolynomial(second, 2, 8)
        second.load_state_dict(first.state_dict())
        resumed.load_state_dict(schedule.state_dict())
        rates = []
        for _ in range(4):
            rates.append(second.param_groups[0]["lr"])
            second.step()
            resumed.step()
        self.assertEqual(rates, whole[4:])

    def test_wrong_lengths_are_refused(self):
        optimizer = torch.optim.SGD([parameter([1.0])], lr=2.0)
        for arguments in ((5, 5), (-1, 5), (0, 0)):
            with self.assertRaisesRegex(ValueError, "shorter than the run"):
                optim.WarmupPolynomial(optimizer, *arguments)
        with self.assertRaisesRegex(ValueError, "power is 0"):
            optim.WarmupPolynomial(optimizer, 1, 5, power=0)


if __name__ == "__main__":
    unittest.main()
