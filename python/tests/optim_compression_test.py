#!/usr/bin/env python3
"""millrace.optim.GradientCompression and Accumulation: by hand, and with two processes over gloo."""

import copy
import math
import multiprocessing
import sys
import tempfile
import traceback
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(0)

from torch import nn

from millrace import optim
from millrace.optim import compression as module


class Selection(unittest.TestCase):
    def test_the_largest_are_sent_and_the_rest_is_kept(self):
        compression = optim.GradientCompression(sparsity=0.5, momentum=0.0)
        positions, values = compression.compress("w", torch.tensor([1.0, -4.0, 2.0, 3.0]))
        self.assertEqual(dict(zip(positions.tolist(), values.tolist())), {1: -4.0, 3: 3.0})
        positions, values = compression.compress("w", torch.tensor([1.5, 0.0, 2.0, 0.0]))
        self.assertEqual(dict(zip(positions.tolist(), values.tolist())), {0: 2.5, 2: 4.0})

    def test_the_momentum_is_that_of_all_gradients_since_a_value_was_sent(self):
        compression = optim.GradientCompression(sparsity=0.5, momentum=0.5)
        compression.compress("w", torch.tensor([1.0, 8.0]))       # u = (1, 8), sends 8 and masks its u
        positions, values = compression.compress("w", torch.tensor([1.0, 0.5]))
        # u = (1.5, 0.5), kept = (1 + 1.5, 0.5): the first gradient counts 1 + 0.5, as with momentum.
        self.assertEqual((positions.tolist(), values.tolist()), ([0], [2.5]))
        kept = compression.state_dict()["kept"]["w"]
        self.assertEqual(kept["residual"].tolist(), [0.0, 0.5])
        self.assertEqual(kept["velocity"].tolist(), [0.0, 0.5])

    def test_nothing_is_lost_over_many_steps(self):
        torch.manual_seed(0)
        compression = optim.GradientCompression(sparsity=0.99, momentum=0.0)
        total, sent = torch.zeros(1000), torch.zeros(1000)
        for _ in range(50):
            gradient = torch.randn(10, 100)
            total += gradient.reshape(-1)
            positions, values = compression.compress("w", gradient)
            self.assertEqual(len(positions), 10)
            sent.index_add_(0, positions, values)
        torch.testing.assert_close(sent + compression.state_dict()["kept"]["w"]["residual"], total,
                                   rtol=1e-5, atol=1e-5)

    def test_a_sampled_threshold_finds_the_same_values(self):
        torch.manual_seed(0)
        for values in (torch.randn(300_000), torch.randn(300_000).pow(5), torch.zeros(300_000),
                       torch.cat([torch.zeros(299_990), torch.ones(10)])):
            found = module._largest(values, 300)
            self.assertEqual(len(set(found.tolist())), 300)
            torch.testing.assert_close(values.abs()[found].sort().values,
                                       values.abs().topk(300).values.sort().values)

    def test_gradients_are_clipped_to_the_share_of_a_rank(self):
        compression = optim.GradientCompression(sparsity=0.0, momentum=0.0, clip_norm=1.0)
        _, values = compression.compress("w", torch.tensor([3.0, 4.0]), ranks=4)
        torch.testing.assert_close(values.sort().values, torch.tensor([0.3, 0.4]))
        _, values = compression.compress("w", torch.tensor([0.03, 0.04]), ranks=4)
        torch.testing.assert_close(values.sort().values, torch.tensor([0.03, 0.04]))

    def test_a_bad_gradient_is_passed_on_but_not_kept(self):
        compression = optim.GradientCompression(sparsity=0.5, momentum=0.0)
        compression.compress("w", torch.tensor([1.0, 8.0]))
        _, values = compression.compress("w", torch.tensor([math.inf, 1.0]))
        self.assertTrue(values.isnan().all())
        for tensor in compression.state_dict()["kept"]["w"].values():
            self.assertTrue(tensor.isfinite().all())
        self.assertTrue(compression.whole("b", torch.tensor([math.nan])).isnan().all())
        self.assertEqual(compression.whole("b", torch.tensor([2.0])).tolist(), [2.0])

    def test_a_bad_gradient_changes_nothing_that_is_kept(self):
        compression = optim.GradientCompression(sparsity=0.75, momentum=0.5)
        compression.compress("w", torch.tensor([1.0, 8.0, 2.0, 3.0]))
        compression.whole("b", torch.tensor([4.0]))
        before = copy.deepcopy(compression.state_dict()["kept"])
        compression.compress("w", torch.tensor([math.nan, 1.0, 1.0, 1.0]))
        compression.whole("b", torch.tensor([math.inf]))
        after = compression.state_dict()["kept"]
        self.assertEqual(after["w"]["residual"].tolist(), [1.0, 0.0, 2.0, 3.0])
        for name in "wb":
            torch.testing.assert_close(after[name]["velocity"], before[name]["velocity"])
        positions, values = compression.compress("w", torch.zeros(4))
        self.assertEqual((positions.tolist(), values.tolist()), ([3], [4.5]))  # 3, and half of its momentum

    def test_the_sparsity_rises_during_the_warm_up(self):
        compression = optim.GradientCompression(warmup_steps=8)
        seen = []
        for _ in range(10):
            seen.append(compression.sparsity)
            compression.end_step()
        self.assertEqual(seen, [0.75] * 2 + [0.9375] * 2 + [0.984375] * 2 + [0.996] * 2 + [0.999] * 2)

    def test_wrong_arguments_are_named(self):
        for options, message in (({"sparsity": 1.0}, "sparsity is 1.0"), ({"momentum": 1.5}, "momentum is 1.5"),
                                 ({"clip_norm": 0.0}, "clip_norm is 0.0"),
                                 ({"warmup_steps": -1}, "warmup_steps is -1"),
                                 ({"warmup_steps": 5, "warmup": ()}, "0 sparsities")):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                optim.GradientCompression(**options)
        with self.assertRaisesRegex(TypeError, "Linear has no communication hooks"):
            optim.GradientCompression().register(nn.Linear(1, 1))
        compression = optim.GradientCompression()
        compression.compress("w", torch.ones(4))
        with self.assertRaisesRegex(ValueError, "gradient of w has 5 numbers.*has 4"):
            compression.compress("w", torch.ones(5))
        with self.assertRaisesRegex(ValueError, "not that of a GradientCompression"):
            compression.load_state_dict({})


class Accumulated(unittest.TestCase):
    def test_gradients_are_those_of_the_large_batch(self):
        torch.manual_seed(0)
        net = nn.Linear(6, 3)
        large, images = copy.deepcopy(net), torch.randn(12, 6)
        large(images).square().mean().backward()
        accumulation = optim.Accumulation(net, batches=4)
        due = []
        for batch in images.split(3):
            with accumulation:
                accumulation.part_of(net(batch).square().mean()).backward()
            due.append(accumulation.is_due)
        self.assertEqual(due, [False, False, False, True])
        torch.testing.assert_close(net.weight.grad, large.weight.grad)

    def test_a_wrong_number_is_refused(self):
        with self.assertRaisesRegex(ValueError, "batches is 0"):
            optim.Accumulation(nn.Linear(1, 1), 0)


# ---- two processes ----


def make_net() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))


def batches(rank: int, begin: int, end: int):
    for number in range(begin, end):
        generator = torch.Generator().manual_seed(100 * number + rank)
        yield (torch.randn(4, 1, 8, 8, generator=generator),
               torch.randint(10, (4,), generator=generator))


def train(model, optimizer, rank, begin, end) -> list:
    losses = []
    for images, labels in batches(rank, begin, end):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def flat(model) -> torch.Tensor:
    return torch.cat([each.detach().reshape(-1) for each in model.parameters()])


def same_on_all(tensor: torch.Tensor) -> bool:
    others = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(others, tensor)
    return all(torch.equal(each, tensor) for each in others)


def compressed(sparsity=0.9, momentum=0.9, **options):
    net = make_net()
    optimizer = optim.LARS(optim.parameter_groups(net), lr=1.0, momentum=0.0, trust_coefficient=0.02)
    model = nn.parallel.DistributedDataParallel(net)
    compression = optim.GradientCompression(sparsity=sparsity, momentum=momentum, **options)
    compression.register(model, optimizer)
    return model, optimizer, compression


def check_that_ranks_agree_and_bytes_are_counted(rank):
    model, optimizer, compression = compressed(clip_norm=5.0)
    train(model, optimizer, rank, 0, 6)
    assert same_on_all(flat(model)), "ranks have different weights"
    large = [each.numel() for each in model.parameters() if each.dim() >= 2]
    small = [each.numel() for each in model.parameters() if each.dim() < 2]
    expected = 6 * (sum(8 * math.ceil(round(count * (1 - 0.9), 6)) for count in large) + 4 * sum(small))
    assert compression.bytes_sent == expected, (compression.bytes_sent, expected)
    assert compression.dense_bytes == 6 * 4 * (sum(large) + sum(small)), compression.dense_bytes
    assert compression.steps == 6
    assert f"in 6 steps, {expected / compression.dense_bytes:.2%} of the" in compression.report()


def check_that_nothing_left_out_is_plain_training(rank):
    model, optimizer, _ = compressed(sparsity=0.0, momentum=0.0)
    net = make_net()
    plain = nn.parallel.DistributedDataParallel(net)
    other = optim.LARS(optim.parameter_groups(net), lr=1.0, momentum=0.0, trust_coefficient=0.02)
    train(model, optimizer, rank, 0, 4)
    train(plain, other, rank, 0, 4)
    torch.testing.assert_close(flat(model), flat(plain), rtol=1e-4, atol=1e-5)


def check_that_a_resumed_run_is_the_same(rank):
    whole, optimizer, _ = compressed(warmup_steps=4)
    train(whole, optimizer, rank, 0, 3)
    train(whole, optimizer, rank, 3, 6)
    first, optimizer, compression = compressed(warmup_steps=4)
    train(first, optimizer, rank, 0, 3)
    saved = copy.deepcopy((first.state_dict(), optimizer.state_dict(), compression.state_dict()))
    second, optimizer, compression = compressed(warmup_steps=4)
    second.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    compression.load_state_dict(saved[2])
    train(second, optimizer, rank, 3, 6)
    assert torch.equal(flat(second), flat(whole)), "a resumed run differs"
    assert compression.steps == 6


def check_that_all_ranks_skip_the_bad_gradient_of_one(rank):
    model, optimizer, _ = compressed()
    train(model, optimizer, rank, 0, 2)
    before = flat(model).clone()
    images, labels = next(batches(rank, 2, 3))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    (loss * (math.inf if rank == 1 else 1.0)).backward()
    optimizer.step()
    assert optimizer.skipped_steps == 1, optimizer.skipped_steps
    assert torch.equal(flat(model), before)
    train(model, optimizer, rank, 3, 5)
    assert optimizer.skipped_steps == 1 and flat(model).isfinite().all() and same_on_all(flat(model))


def check_that_it_learns(rank):
    model, optimizer, _ = compressed(sparsity=0.99, momentum=0.9)
    images, labels = next(batches(rank, 0, 1))
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0], losses


def check_that_a_second_momentum_is_refused(rank):
    net = make_net()
    model = nn.parallel.DistributedDataParallel(net)
    try:
        optim.GradientCompression().register(model, optim.LARS(net.parameters(), lr=1.0))
    except ValueError as error:
        assert "momentum 0.9" in str(error) and "momentum=0" in str(error), error
    else:
        raise AssertionError("not refused")


def check_that_accumulation_sends_once(rank):
    """Before the last batch of a step, gradients are those of this rank; after it, the average."""
    net = make_net().eval()
    model = nn.parallel.DistributedDataParallel(net)
    accumulation = optim.Accumulation(model, batches=2)
    seen = []
    for images, labels in batches(rank, 0, 2):
        with accumulation:
            accumulation.part_of(nn.functional.cross_entropy(model(images), labels)).backward()
        seen.append(same_on_all(net[0].weight.grad))
    assert seen == [False, True], seen
    alone = make_net().eval()
    all_batches = [pair for every in (0, 1) for pair in batches(every, 0, 2)]
    images, labels = (torch.cat(each) for each in zip(*all_batches))
    nn.functional.cross_entropy(alone(images), labels).backward()
    torch.testing.assert_close(net[0].weight.grad, alone[0].weight.grad)


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_that")]


def rank_main(rank, folder, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    for check in CHECKS:
        try:
            check(rank)
            results.put((check.__name__, None))
        except BaseException:  # the other rank would wait for this one
            results.put((check.__name__, f"rank {rank}: {traceback.format_exc()}"))
            break
    dist.destroy_process_group()


class TwoProcesses(unittest.TestCase):
    def test_checks(self):
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        with tempfile.TemporaryDirectory() as folder:
            ranks = [context.Process(target=rank_main, args=(rank, folder, results)) for rank in (0, 1)]
            for each in ranks:
                each.start()
            passed = []
            try:
                while len(passed) < 2 * len(CHECKS):
                    name, failure = results.get(timeout=600)
                    if failure is not None:
                        self.fail(f"{name}\n{failure}")
                    passed.append(name)
            finally:
                if len(passed) < 2 * len(CHECKS):
                    for each in ranks:
                        each.terminate()
                for each in ranks:
                    each.join()
        self.assertEqual(sorted(passed), sorted(2 * [check.__name__ for check in CHECKS]))


if __name__ == "__main__":
    unittest.main()
