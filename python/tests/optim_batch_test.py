#!/usr/bin/env python3
"""Batch sizes that change: DataLoader.set_batch_size and millrace.optim.AdaptiveBatch."""

import sys
import tempfile
import unittest
from pathlib import Path

import numpy

try:
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(0)

import millrace
from millrace import optim

COUNT = 150


def double(sample):
    return 2 * sample


class Numbers:
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return index


class LoaderTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        for index in range(COUNT):
            numpy.full((2,), index, "int32").tofile(self.folder / f"{index:05}.bin")

    def make(self, kind, **options):
        """A loader, and a function of a batch that returns its samples."""
        options = {"batch_size": 4, "shuffle": True, "seed": 3, **options}
        workers = {"python": {"num_workers": 1}, "here": {"num_workers": 0},
                   "persistent": {"num_workers": 1, "persistent_workers": True},
                   "thread": {"num_workers": 2, "worker": "thread"}}
        if kind in workers:
            options.update(workers[kind])
            return millrace.DataLoader(Numbers(), **options), lambda batch: batch.tolist()
        if kind == "map":
            data = millrace.RawFolder(self.folder, shape=(2,), dtype="int32", map=double)
            return (millrace.DataLoader(data, num_workers=1, **options),
                    lambda batch: (batch[:, 0] // 2).tolist())
        if kind == "cache":
            options["cache"] = millrace.Cache(memory="1MiB")
        data = millrace.RawFolder(self.folder, shape=(2,), dtype="int32")
        return millrace.DataLoader(data, **options), lambda batch: batch[:, 0].tolist()


class NewBatchSize(LoaderTest):
    KINDS = ("files", "cache", "map", "python", "persistent", "here", "thread")

    def test_every_sample_comes_once_and_in_the_same_order(self):
        for kind in self.KINDS:
            with self.subTest(kind):
                plain, samples = self.make(kind)
                expected = [[sample for batch in plain for sample in samples(batch)] for _ in range(3)]
                plain.close()
                loader, samples = self.make(kind)
                for epoch in range(3):
                    seen, sizes = [], []
                    for number, batch in enumerate(loader):
                        seen += samples(batch)
                        sizes.append(len(samples(batch)))
                        if number in (2, 5):
                            loader.set_batch_size(2 * loader.batch_size)
                    self.assertEqual(seen, expected[epoch])
                    base = 4 + epoch
                    self.assertEqual(sizes[:7], 3 * [base] + 3 * [2 * base] + [4 * base])
                    self.assertEqual(len(loader), -(-COUNT // (4 * base)))
                    loader.set_batch_size(5 + epoch)
                loader.close()

    def test_a_run_resumes_with_the_size_that_it_has_then(self):
        for kind in self.KINDS:
            with self.subTest(kind):
                plain, samples = self.make(kind)
                expected = [sample for batch in plain for sample in samples(batch)]
                plain.close()
                first, samples = self.make(kind)
                seen = []
                for number, batch in enumerate(first):
                    seen += samples(batch)
                    if number == 1:
                        first.set_batch_size(10)
                    if number == 4:
                        break
                state = first.state_dict()
                first.close()
                self.assertEqual(state["done"], 2 * 4 + 3 * 10)
                second, samples = self.make(kind)
                second.load_state_dict(state)
                second.set_batch_size(10)  # after the state, or before it
                self.assertEqual(second.state_dict(), state)
                sizes = []
                for batch in second:
                    seen += samples(batch)
                    sizes.append(len(samples(batch)))
                self.assertEqual(seen, expected)
                self.assertEqual(sizes, 11 * [10] + [2])
                second.close()

    def test_several_ranks_share_the_epoch(self):
        for kind in ("files", "here"):
            seen = []
            for rank in range(3):
                loader, samples = self.make(kind, world=millrace.World(rank, 3), tail="uneven")
                for number, batch in enumerate(loader):
                    seen += samples(batch)
                    if number == 3:
                        loader.set_batch_size(9)
            self.assertEqual(sorted(seen), list(range(COUNT)))

    def test_statistics_count_all_sizes(self):
        loader, samples = self.make("files")
        for number, batch in enumerate(loader):
            if number == 3:
                loader.set_batch_size(20)
        self.assertEqual(loader.stats()["samples"], COUNT)
        self.assertGreaterEqual(loader.stats()["bytes_read"], 8 * COUNT)

    def test_a_size_that_is_impossible_changes_nothing(self):
        loader, samples = self.make("files")
        for size in (0, -3, 2.5):
            with self.assertRaisesRegex((ValueError, TypeError), "batch_size"):
                loader.set_batch_size(size)
        self.assertEqual(loader.batch_size, 4)
        self.assertEqual(sum(len(samples(batch)) for batch in loader), COUNT)


class Adaptive(LoaderTest):
    def optimizer(self, lr=0.8):
        weight = torch.nn.Parameter(torch.ones(2, 2))
        weight.grad = torch.zeros(2, 2)
        return optim.LARS([weight], lr=lr)

    def run_epochs(self, loader, samples, optimizer, adaptive, epochs, stop=None):
        """(epoch, batch size, rate) of every step, and the samples by epoch."""
        steps, seen = [], []
        for epoch in range(loader.epoch, epochs):
            seen.append([])
            for batch in loader:
                seen[-1] += samples(batch)
                steps.append((epoch, len(samples(batch)), round(adaptive.get_last_lr()[0], 9)))
                optimizer.step()
                adaptive.step()
                if stop is not None and len(steps) == stop:
                    return steps, seen
        return steps, seen

    def test_the_batch_grows_where_the_rate_would_decay(self):
        loader, samples = self.make("files", batch_size=5)
        optimizer = self.optimizer()
        adaptive = optim.AdaptiveBatch(optimizer, loader, optim.milestones(1, 2, 3, gamma=0.5), max_batch=20)
        steps, seen = self.run_epochs(loader, samples, optimizer, adaptive, 4)
        epochs = [epoch for epoch, _, _ in steps]
        self.assertEqual([epochs.count(each) for each in range(4)], [30, 15, 8, 8])
        self.assertEqual({(epoch, rate) for epoch, _, rate in steps}, {(0, 0.8), (1, 0.8), (2, 0.8), (3, 0.4)})
        for epoch in seen:
            self.assertEqual(sorted(epoch), list(range(COUNT)))
        self.assertEqual(adaptive.steps, len(steps))

    def test_rate_over_batch_is_that_of_the_schedule(self):
        loader, samples = self.make("here", batch_size=2)
        optimizer = self.optimizer()
        schedule = optim.polynomial(warmup=1, total=4)
        adaptive = optim.AdaptiveBatch(optimizer, loader, schedule, max_batch=16)
        sizes = set()
        for epoch in range(4):
            seen = []
            for batch in loader:
                part, rate = schedule(adaptive.epochs), adaptive.get_last_lr()[0]
                self.assertAlmostEqual(rate / loader.batch_size, part * 0.8 / 2)
                self.assertLessEqual(rate, 0.8 + 1e-9)
                if adaptive.epochs < 1:
                    self.assertEqual(loader.batch_size, 2)
                sizes.add(loader.batch_size)
                seen += samples(batch)
                optimizer.step()
                adaptive.step()
            self.assertEqual(sorted(seen), list(range(COUNT)))
        self.assertEqual(sizes, {2, 4, 8, 16})

    def test_a_run_resumes_in_the_middle_of_an_epoch(self):
        def make():
            loader, samples = self.make("files", batch_size=3)
            optimizer = self.optimizer()
            adaptive = optim.AdaptiveBatch(optimizer, loader, optim.polynomial(0.5, 3), max_batch=24)
            return loader, samples, optimizer, adaptive

        steps, seen = self.run_epochs(*make(), 3)
        for stop in (1, 30, 75, len(steps) - 2):
            first = make()
            before, _ = self.run_epochs(*first, 3, stop=stop)
            states = [first[0].state_dict(), first[2].state_dict(), first[3].state_dict()]
            for order in ((0, 2), (2, 0)):
                loader, samples, optimizer, adaptive = second = make()
                optimizer.load_state_dict(states[1])
                for each in order:
                    (loader, None, adaptive)[each].load_state_dict(states[each])
                after, rest = self.run_epochs(*second, 3)
                self.assertEqual(before + after, steps)
                self.assertEqual(rest[-1], seen[-1][-len(rest[-1]):])

    def test_ranks_change_at_the_same_step(self):
        sizes, seen = [], []
        for rank in range(2):
            loader, samples = self.make("here", batch_size=2, world=millrace.World(rank, 2), tail="drop")
            optimizer = self.optimizer()
            adaptive = optim.AdaptiveBatch(optimizer, loader, optim.polynomial(0, 2), max_batch=16)
            steps, epochs = self.run_epochs(loader, samples, optimizer, adaptive, 2)
            sizes.append(steps)
            seen.append(epochs[0])
        self.assertEqual(sizes[0], sizes[1])
        self.assertEqual(len(set(seen[0]) & set(seen[1])), 0)

    def test_a_rate_in_a_tensor_is_changed_in_place(self):
        loader, samples = self.make("here")
        weight = torch.nn.Parameter(torch.ones(2, 2))
        lr = torch.tensor(0.8)
        optimizer = optim.LARS([weight], lr=lr)
        optim.AdaptiveBatch(optimizer, loader, optim.polynomial(1, 4, start_factor=0.5), max_batch=16)
        self.assertAlmostEqual(lr.item(), 0.4, places=6)
        self.assertIs(optimizer.param_groups[0]["lr"], lr)

    def test_wrong_arguments_are_named(self):
        loader, _ = self.make("here")
        optimizer, schedule = self.optimizer(), optim.polynomial(0, 4)
        with self.assertRaisesRegex(ValueError, "max_batch is 2, but the loader starts with 4"):
            optim.AdaptiveBatch(optimizer, loader, schedule, max_batch=2)
        with self.assertRaisesRegex(ValueError, "some worker would have none. Use at most 150"):
            optim.AdaptiveBatch(optimizer, loader, schedule, max_batch=151)
        with self.assertRaisesRegex(ValueError, "growth is 1"):
            optim.AdaptiveBatch(optimizer, loader, schedule, max_batch=8, growth=1)
        with self.assertRaisesRegex(ValueError, "the schedule gives 2"):
            optim.AdaptiveBatch(optimizer, loader, lambda epochs: 2, max_batch=8)
        with self.assertRaisesRegex(TypeError, "a list cannot do that"):
            optim.AdaptiveBatch(optimizer, [], schedule, max_batch=8)
        adaptive = optim.AdaptiveBatch(optimizer, loader, schedule, max_batch=8)
        with self.assertRaisesRegex(ValueError, "has no 'base_batch'"):
            adaptive.load_state_dict({})
        with self.assertRaisesRegex(ValueError, "began with batches of 9"):
            adaptive.load_state_dict({**adaptive.state_dict(), "base_batch": 9})
        for make in (lambda: optim.polynomial(5, 4), lambda: optim.milestones(3, 2),
                     lambda: optim.milestones(3, gamma=2)):
            with self.assertRaises(ValueError):
                make()

    def test_rounding_does_not_delay_a_step_of_the_series(self):
        loader, _ = self.make("here", batch_size=1)
        adaptive = optim.AdaptiveBatch(self.optimizer(), loader, optim.milestones(1, gamma=0.1),
                                       max_batch=100, growth=10)
        self.assertEqual([adaptive._batch_for(0.1**each) for each in range(4)], [1, 10, 100, 100])


if __name__ == "__main__":
    unittest.main()
