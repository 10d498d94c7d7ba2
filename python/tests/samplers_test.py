#!/usr/bin/env python3
"""Samplers of torch and of programs: taken over if their order can be known ahead, else refused."""

import collections
import random
import unittest

import numpy
import torch
from torch.utils.data import (BatchSampler, RandomSampler, Sampler, SequentialSampler, Subset,
                              TensorDataset, WeightedRandomSampler)

import millrace

DATA = TensorDataset(torch.arange(20))


def visited(loader) -> list:
    return [sample for (numbers,) in loader for sample in numbers.tolist()]


def loader_of(**options) -> millrace.DataLoader:
    return millrace.DataLoader(DATA, num_workers=0, **options)


class ByEpoch(Sampler):
    """Shuffles with a generator that set_epoch() seeds, as samplers for several ranks do."""

    def __init__(self, count: int = 20) -> None:
        self.count = count
        self.current = 0
        self.generator_of_mine = torch.Generator()

    def set_epoch(self, epoch: int) -> None:
        self.current = epoch

    def __iter__(self):
        self.generator_of_mine.manual_seed(1000 + self.current)
        return iter(torch.randperm(self.count, generator=self.generator_of_mine).tolist())

    def __len__(self) -> int:
        return self.count


class Reversed(Sampler):
    def __init__(self) -> None:
        self.times = 0

    def __iter__(self):
        self.times += 1
        return iter(range(19, -1, -1))


class AtRandom(Sampler):
    def __init__(self, count: int = 20, generator=None) -> None:
        self.count = count
        self.generator = generator

    def __iter__(self):
        return iter(torch.randperm(self.count, generator=self.generator).tolist())


class TorchSamplers(unittest.TestCase):
    def test_a_weighted_sampler_becomes_weighted(self):
        loader = loader_of(batch_size=50, sampler=WeightedRandomSampler([0.0] * 18 + [1.0, 3.0], 4000))
        counts = collections.Counter(visited(loader))
        self.assertEqual(sorted(counts), [18, 19])
        self.assertLess(abs(counts[19] - 3000), 140)  # the standard deviation is 27
        again = loader_of(batch_size=50, shuffle=millrace.Weighted([0.0] * 18 + [1.0, 3.0], 4000))
        loader.set_epoch(5)
        again.set_epoch(5)
        self.assertEqual(visited(loader), visited(again))

    def test_a_weighted_sampler_without_replacement(self):
        sampler = WeightedRandomSampler([1.0] * 10, 10, replacement=False)  # of the first 10 samples
        self.assertEqual(sorted(visited(loader_of(batch_size=4, sampler=sampler))), list(range(10)))

    def test_the_seed_is_that_of_the_generator(self):
        def order(seed: int) -> list:
            generator = torch.Generator().manual_seed(seed)
            return visited(loader_of(sampler=WeightedRandomSampler([1.0] * 20, 50, generator=generator)))

        self.assertEqual(order(3), order(3))
        self.assertNotEqual(order(3), order(4))

    def test_a_random_sampler_with_replacement_or_another_length(self):
        twice = visited(loader_of(batch_size=8, sampler=RandomSampler(DATA, num_samples=40)))
        self.assertEqual(collections.Counter(twice), {sample: 2 for sample in range(20)})
        few = loader_of(batch_size=8, sampler=RandomSampler(DATA, num_samples=10))
        self.assertEqual(sorted(visited(few) + visited(few)), list(range(20)))
        drawn = visited(loader_of(sampler=RandomSampler(DATA, replacement=True, num_samples=400)))
        self.assertEqual(len(drawn), 400)
        self.assertEqual(len(set(drawn)), 20)
        self.assertGreater(max(collections.Counter(drawn).values()), 20)

    def test_a_batch_sampler_of_any_of_them(self):
        batches = BatchSampler(WeightedRandomSampler([1.0] * 20, 50), 6, drop_last=True)
        loader = loader_of(batch_sampler=batches)
        self.assertEqual([len(numbers) for (numbers,) in loader], [6] * 8)


class TakenOver(unittest.TestCase):
    def test_a_sampler_with_set_epoch_is_asked_for_each_epoch(self):
        sampler = ByEpoch()
        loader = loader_of(batch_size=6, sampler=sampler)
        for epoch in range(3):
            expected = ByEpoch()
            expected.set_epoch(epoch)
            self.assertEqual(visited(loader), list(expected))

    def test_set_epoch_of_the_program_selects_the_epoch(self):
        for in_batches in (False, True):
            sampler = ByEpoch()
            loader = (loader_of(batch_sampler=BatchSampler(sampler, 4, False)) if in_batches else
                      loader_of(batch_size=4, sampler=sampler))
            epochs = []
            for epoch in (0, 1, 5):
                sampler.set_epoch(epoch)
                epochs.append(visited(loader))
                self.assertEqual((sampler.current, loader.epoch), (epoch, epoch + 1))
            expected = ByEpoch()
            expected.set_epoch(5)
            self.assertEqual(epochs[2], list(expected))
            self.assertEqual(list(sampler), list(expected))  # the program may still iterate over it
            sampler.set_epoch(1)
            self.assertEqual(visited(loader), epochs[1])

    def test_a_state_resumes_the_epoch_of_a_sampler(self):
        loader = loader_of(batch_size=3, sampler=ByEpoch())
        visited(loader)
        batches = iter(loader)
        first = [sample for _ in range(2) for sample in next(batches)[0].tolist()]
        state = loader.state_dict()
        resumed = loader_of(batch_size=5, sampler=ByEpoch())
        resumed.load_state_dict(state)
        expected = ByEpoch()
        expected.set_epoch(1)
        self.assertEqual(first + visited(resumed), list(expected))

    def test_a_constant_order_is_taken_over(self):
        sampler = Reversed()
        loader = loader_of(batch_size=6, sampler=sampler)
        self.assertEqual([visited(loader), visited(loader)], [list(range(19, -1, -1))] * 2)
        self.assertEqual(sampler.times, 0)  # only copies were iterated over
        self.assertEqual(visited(loader_of(sampler=[3, 1, 3])), [3, 1, 3])
        self.assertEqual(visited(loader_of(sampler=SequentialSampler(Subset(DATA, [5, 7])))), [0, 1])

    def test_batches_of_one_size_are_taken_over(self):
        loader = loader_of(batch_sampler=[[3, 1], [4, 1], [5]])
        self.assertEqual([numbers.tolist() for (numbers,) in loader], [[3, 1], [4, 1], [5]])
        self.assertEqual(loader.batch_size, 2)

        class Pairs(ByEpoch):
            def __iter__(self):
                order = list(super().__iter__())
                return iter([order[i:i + 2] for i in range(0, 20, 2)])

        loader = loader_of(batch_sampler=Pairs())
        expected = ByEpoch()
        self.assertEqual(visited(loader), list(expected))
        expected.set_epoch(1)
        self.assertEqual(visited(loader), list(expected))

    def test_generators_of_the_program_stay_as_they_were(self):
        class Everything(Sampler):
            def __init__(self) -> None:
                self.own = numpy.random.default_rng(3)
                self.torch_generator = torch.Generator().manual_seed(7)

            def set_epoch(self, epoch: int) -> None:
                random.seed(epoch)
                numpy.random.seed(epoch)
                torch.manual_seed(epoch)

            def __iter__(self):
                self.own.random()
                torch.randperm(3, generator=self.torch_generator)
                order = torch.randperm(20).tolist()
                random.shuffle(order)
                numpy.random.shuffle(order)
                return iter(order)

        def drawn(sampler) -> list:
            return [random.random(), numpy.random.rand(), torch.rand(1).item(), sampler.own.random(),
                    torch.rand(1, generator=sampler.torch_generator).item()]

        def begin() -> Everything:
            random.seed(5), numpy.random.seed(5), torch.manual_seed(5)
            return Everything()

        expected = drawn(begin())
        sampler = begin()
        visited(loader_of(sampler=sampler))
        self.assertEqual(drawn(sampler), expected)


class Refused(unittest.TestCase):
    def refuses(self, sentence: str, **options) -> None:
        with self.subTest(options), self.assertRaisesRegex(ValueError, sentence):
            loader_of(**options)

    def test_orders_that_cannot_be_known_are_refused_with_what_to_do(self):
        self.refuses(r"sampler=AtRandom: .*no set_epoch\(epoch\).*millrace.Listed\(function\)",
                     sampler=AtRandom())
        self.refuses("sampler=AtRandom", sampler=AtRandom(3))
        self.refuses("sampler=AtRandom", sampler=AtRandom(generator=torch.Generator()))
        self.refuses("sampler=RandomSampler", sampler=RandomSampler(Subset(DATA, list(range(13)))))
        self.refuses("batch_sampler=Chunks: .*millrace.Listed",
                     batch_sampler=type("Chunks", (AtRandom,), {
                         "__iter__": lambda self: iter([torch.randperm(20).tolist()])})())

        class Careless(AtRandom):
            def set_epoch(self, epoch: int) -> None:
                pass

        self.refuses(r"set_epoch\(0\) gives another order each time: it must seed", sampler=Careless())

    def test_a_sampler_without_end_is_refused(self):
        class Endless(Sampler):
            def __init__(self) -> None:
                pass

            def __iter__(self):
                while True:
                    yield 0

        self.refuses("sampler=Endless returns more than .* it may have no end", sampler=Endless())

    def test_batches_of_different_sizes_are_refused(self):
        self.refuses("batch_sampler=list: batch 1 has 2 samples, and the first one had 1",
                     batch_sampler=[[1], [2, 3]])
        self.refuses("batch 1 has 1 samples, and the first one had 2", batch_sampler=[[1, 2], [3], [4, 5]])

    def test_batches_that_change_their_size_later_are_refused(self):
        class Growing(Sampler):
            def __init__(self) -> None:
                self.size = 2

            def set_epoch(self, epoch: int) -> None:
                self.size = 2 + 2 * epoch

            def __iter__(self):
                return iter([list(range(i, i + self.size)) for i in range(0, 4, self.size)])

        loader = loader_of(batch_sampler=Growing())
        self.assertEqual(visited(loader), [0, 1, 2, 3])
        with self.assertRaisesRegex(RuntimeError, "batch 0 has 4 samples, and the first one had 2"):
            visited(loader)

    def test_what_one_rank_would_take_from_others_is_refused(self):
        world = millrace.World(0, 2)
        self.refuses("its batches would be mixed", batch_sampler=[[1, 2], [3, 4]], world=world)
        of_a_rank = ByEpoch()
        of_a_rank.num_replicas = 2
        self.refuses("only the indices of one rank", sampler=of_a_rank, world=world)

    def test_an_index_out_of_range_is_named(self):
        self.refuses("index 20 at position 1 is out of range", sampler=[0, 20])
        self.refuses("index -1 at position 0", sampler=[-1])

    def test_conflicts_are_refused(self):
        self.refuses("not both", sampler=[1, 2], shuffle=millrace.Weighted())


if __name__ == "__main__":
    unittest.main()
