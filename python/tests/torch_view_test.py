#!/usr/bin/env python3
"""What libraries read from torch's DataLoader. The functions of Accelerate, Hugging Face's Trainer, Ray and
Lightning that read it are repeated here, so that the test needs only torch."""

import copy
import gc
import pickle
import sys
import types
import unittest
import weakref
from unittest import mock

import numpy
import torch
from torch.utils.data import (BatchSampler, DistributedSampler, RandomSampler, SequentialSampler, Subset)

import millrace
from sample_files import FilesTest

COUNT = 22
OPTIONS = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context",
           "generator", "prefetch_factor", "persistent_workers", "pin_memory_device")


class Numbers:
    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple:
        return torch.tensor([index, -index]), index


class Skipped(BatchSampler):
    """As in Accelerate: the batches of another batch sampler but the first ones."""

    def __init__(self, batch_sampler, skip_batches: int) -> None:
        self.batch_sampler = batch_sampler
        self.skip_batches = skip_batches

    def __iter__(self):
        for index, samples in enumerate(self.batch_sampler):
            if index >= self.skip_batches:
                yield samples

    def __len__(self) -> int:
        return len(self.batch_sampler) - self.skip_batches


def skip_first_batches(loader, count: int):
    """As in Accelerate: what it reads of a loader, and what it makes of it."""
    sampler = loader.sampler if isinstance(loader.sampler, BatchSampler) else loader.batch_sampler
    return torch.utils.data.DataLoader(loader.dataset, batch_sampler=Skipped(sampler, count),
                                       **{name: getattr(loader, name) for name in OPTIONS})


def is_equal(one, other) -> bool:
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return type(one) is type(other) and one.dtype == other.dtype and bool((one == other).all())


class SkippedBatches(FilesTest):
    def assert_rest_is_same(self, make, epoch: int = 2, skipped: int = 2):
        ours, theirs = make(), make()
        ours.set_epoch(epoch)
        theirs.set_epoch(epoch)
        expected = list(ours)[skipped:]
        rest = list(skip_first_batches(theirs, skipped))
        self.assertEqual(len(rest), len(expected))
        self.assertTrue(all(map(is_equal, rest, expected)), (rest, expected))
        # The next pass is the next epoch, as if this one had been loaded by the loader itself.
        self.assertEqual(theirs.epoch, epoch + 1)
        self.assertTrue(all(map(is_equal, theirs, ours)))

    def test_the_rest_of_an_epoch_is_the_same_by_torchs_loader(self):
        numpy.save(self.folder / "rows.npy", numpy.arange(2 * COUNT, dtype="int32").reshape(COUNT, 2))
        rows = millrace.Files(self.folder / "rows.npy")
        for label in ("cat", "dog"):
            (self.folder / "classes" / label).mkdir(parents=True)
            for number in range(COUNT // 2):
                numpy.save(self.folder / "classes" / label / f"{number}.npy", numpy.full(3, number, "float32"))
        classes = millrace.ArrayFolder(self.folder / "classes")
        for name, dataset, options in (
                ("Python", Numbers(), {"shuffle": True}),
                ("without shuffling", Numbers(), {}),
                ("rows", rows, {"shuffle": True}),
                ("labels", classes, {"shuffle": True}),
                ("NumPy", classes, {"shuffle": True, "output": "numpy"}),
                ("transform", rows, {"shuffle": True, "transform": lambda batch: batch * 2}),
                ("Subset", Subset(rows, list(range(3, 20))), {"shuffle": True}),
                ("drop", rows, {"shuffle": True, "drop_last": True}),
                ("collate", Numbers(), {"collate_fn": lambda samples: torch.stack([row for row, _ in samples])}),
                ("rank", rows, {"shuffle": True, "world": millrace.World(1, 2)}),
                ("local", rows, {"shuffle": "local", "world": millrace.World(1, 2)}),
                ("drawn", rows, {"shuffle": millrace.Weighted([1.0] * COUNT)}),
                ("listed", rows, {"shuffle": millrace.Listed(lambda seed, epoch: [epoch, *range(COUNT)])}),
                ("no workers", Numbers(), {"shuffle": True, "num_workers": 0})):
            with self.subTest(name):
                self.assert_rest_is_same(lambda: millrace.DataLoader(dataset, batch_size=3, **options))

    def test_with_map_its_function_is_called(self):
        numpy.save(self.folder / "rows.npy", numpy.arange(2 * COUNT).reshape(COUNT, 2))
        data = millrace.Files(self.folder / "rows.npy", map=lambda row: (row * 2, int(row[0])))
        self.assert_rest_is_same(lambda: millrace.DataLoader(data, batch_size=3, shuffle=True))

    def test_worker_processes_of_torch_can_do_it(self):
        loader = millrace.DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=1, timeout=120,
                                     persistent_workers=True, multiprocessing_context="fork", prefetch_factor=3)
        rest = skip_first_batches(loader, 1)
        self.assertEqual((rest.num_workers, rest.timeout, rest.prefetch_factor), (1, 120, 3))
        self.assertEqual(len(list(rest)), 5)
        pickle.dumps(millrace.DataLoader(Numbers()).collate_fn)

    def test_a_batch_that_only_the_loader_can_make_is_refused(self):
        numpy.savez(self.folder / "0.npz", x=numpy.zeros(3), y=numpy.zeros(2))
        loader = millrace.DataLoader(millrace.Files(self.folder / "0.npz"), output="dict")
        with self.assertRaisesRegex(ValueError, r"output='dict'.*load_state_dict"):
            next(iter(skip_first_batches(loader, 0)))
        text = self.folder / "a.jsonl"
        text.write_text('{"t": "one"}\n{"t": "three"}\n')
        loader = millrace.DataLoader(millrace.Files(text, fields={"t": millrace.Text()}))
        with self.assertRaisesRegex(ValueError, "the field 't'.*load_state_dict"):
            next(iter(skip_first_batches(loader, 0)))


class Samplers(unittest.TestCase):
    def test_they_tell_which_samples_come_and_read_nothing(self):
        class Unreadable(Numbers):
            def __getitem__(self, index):
                raise AssertionError("a sample was read")

        for world in (None, millrace.World(0, 2), millrace.World(1, 2)):
            for tail in ("drop", "pad", "uneven"):
                loader = millrace.DataLoader(Unreadable(), batch_size=4, shuffle=True, tail=tail, world=world)
                readable = millrace.DataLoader(Numbers(), batch_size=4, shuffle=True, tail=tail, world=world)
                expected = [readable.batch.samples for _ in readable]
                self.assertEqual(len(loader.batch_sampler), len(expected))
                self.assertEqual(len(loader.sampler), sum(map(len, expected)))
                self.assertEqual(list(loader.batch_sampler), expected)
                loader.set_epoch(0)
                self.assertEqual(list(loader.sampler), sum(expected, []))
                self.assertEqual((loader.batch_sampler.batch_size, loader.batch_sampler.drop_last, loader.drop_last),
                                 (4, tail == "drop", tail == "drop"))

    def test_their_classes_tell_the_order_and_the_ranks(self):
        def sampler(**options):
            return millrace.DataLoader(Numbers(), **options).sampler

        self.assertIsInstance(sampler(), SequentialSampler)
        self.assertIsInstance(sampler(shuffle=True), RandomSampler)
        weighted = sampler(shuffle=millrace.Weighted(samples=4))
        self.assertNotIsInstance(weighted, (SequentialSampler, RandomSampler))
        self.assertEqual(len(weighted), 4)
        two = millrace.World(1, 2)
        distributed = sampler(world=two, shuffle=True, seed=5)
        self.assertIsInstance(distributed, DistributedSampler)
        self.assertEqual((distributed.rank, distributed.num_replicas, distributed.shuffle, distributed.seed,
                          distributed.num_samples, distributed.total_size), (1, 2, True, 5, 11, 22))
        self.assertIsInstance(millrace.DataLoader(Numbers(), world=two).batch_sampler, BatchSampler)
        # torch divides among ranks by a DistributedSampler alone; this loader divides any order.
        self.assertIsInstance(sampler(world=two, sampler=RandomSampler(Numbers())), DistributedSampler)
        own = RandomSampler(Numbers())
        self.assertIs(sampler(sampler=own), own)

    def test_they_set_the_epoch_of_the_loader(self):
        for set_epoch in (lambda loader: loader.sampler.set_epoch, lambda loader: loader.batch_sampler.set_epoch,
                          lambda loader: loader.batch_sampler.sampler.set_epoch):
            loader = millrace.DataLoader(Numbers(), batch_size=COUNT, shuffle=True)
            set_epoch(loader)(3)
            next(iter(loader))
            self.assertEqual((loader.batch.epoch, loader.sampler.epoch), (3, 3))

    def test_an_iterator_without_a_batch_follows_the_epoch(self):
        for dataset in (Numbers(), list(range(COUNT))):
            loader = millrace.DataLoader(dataset, batch_size=COUNT, shuffle=True)
            batches = iter(loader)
            loader.sampler.set_epoch(0)  # as Lightning does, after it has made the iterator
            self.assertEqual(len(list(batches)), 1)
            self.assertEqual((loader.batch.epoch, loader.epoch), (0, 1))
            batches = iter(loader)
            loader.set_epoch(5)
            self.assertEqual(len(list(batches)), 1)
            self.assertEqual((loader.batch.epoch, loader.epoch), (5, 6))

    def test_an_iterator_of_a_resumed_epoch_keeps_its_position(self):
        saved = millrace.DataLoader(Numbers(), batch_size=4, shuffle=True)
        batches = iter(saved)
        next(batches)
        loader = millrace.DataLoader(Numbers(), batch_size=4, shuffle=True)
        loader.load_state_dict(saved.state_dict())
        rest = iter(loader)
        loader.set_epoch(0)
        self.assertEqual(len(list(rest)), 5)

    def test_a_look_in_the_middle_of_a_pass_changes_nothing(self):
        loader = millrace.DataLoader(Numbers(), batch_size=4, shuffle=True)
        expected = [loader.batch.samples for _ in loader]
        loader.set_epoch(0)
        seen = []
        for _ in loader:
            self.assertEqual(list(loader.batch_sampler), expected)
            seen.append(loader.batch.samples)
        self.assertEqual(seen, expected)
        self.assertEqual(loader.epoch, 1)
        loader.load_state_dict(loader.state_dict())
        list(loader.batch_sampler)
        self.assertEqual(loader.epoch, 1)

    def test_another_loader_can_take_them(self):
        loader = millrace.DataLoader(Numbers(), batch_size=4, shuffle=True, seed=9)
        expected = [loader.batch.samples for _ in loader]
        loader.set_epoch(0)
        other = millrace.DataLoader(Numbers(), batch_size=4, sampler=copy.copy(loader.sampler))
        self.assertEqual([other.batch.samples for _ in other], expected)
        self.assertEqual(loader.epoch, 0)

    def test_a_new_batch_size_is_told(self):
        loader = millrace.DataLoader(Numbers(), batch_size=4)
        loader.set_batch_size(11)
        self.assertEqual((loader.batch_sampler.batch_size, len(loader.batch_sampler)), (11, 2))

    def test_they_do_not_keep_the_loader(self):
        gc.disable()
        self.addCleanup(gc.enable)
        loader = millrace.DataLoader(Numbers(), batch_size=4, shuffle=True)
        expected = list(loader.batch_sampler)
        loader.set_epoch(0)
        watched, batches = weakref.ref(loader), loader.batch_sampler
        rest = skip_first_batches(loader, 1)
        del loader
        self.assertIsNone(watched())
        self.assertEqual(len(rest), 5)
        first = [numbers.tolist() for _, numbers in rest]
        self.assertEqual(len(first), 5)
        self.assertNotEqual(list(batches), expected)  # it goes on with the next epoch by itself


class OtherLibraries(unittest.TestCase):
    def test_ray_keeps_a_loader_that_divides_among_ranks(self):
        class Wrapped(torch.utils.data.DataLoader):
            """As in Ray: takes the attributes over."""

            def __init__(self, base):
                self.__dict__.update(base.__dict__)
                self._dataloader = base

            def __iter__(self):
                return iter(self._dataloader)

        loader = millrace.DataLoader(Numbers(), batch_size=4, shuffle=True, world=millrace.World(1, 2))
        self.assertIsInstance(loader.sampler, DistributedSampler)  # or Ray makes a loader of torch
        for name in ("dataset", "batch_size", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn",
                     "generator", "sampler", "batch_sampler"):
            self.assertIn(name, loader.__dict__)
        wrapped = Wrapped(loader)
        wrapped.sampler.set_epoch(4)
        next(iter(wrapped))
        self.assertEqual(loader.batch.epoch, 4)

    def test_torchs_loader_takes_our_options(self):
        for options in ({}, {"num_workers": 2, "timeout": 5, "prefetch_factor": 4}, {"timeout": None},
                        {"num_workers": 0, "persistent_workers": True, "multiprocessing_context": "spawn"}):
            loader = millrace.DataLoader(Numbers(), **options)
            torch.utils.data.DataLoader(Numbers(), **{name: getattr(loader, name) for name in OPTIONS})

    def test_accelerate_is_told_the_last_batch(self):
        state = GradientState()
        with mock.patch.dict(sys.modules, {"accelerate.state": types.SimpleNamespace(GradientState=GradientState)}):
            training = millrace.DataLoader(Numbers(), batch_size=8)
            evaluation = millrace.DataLoader(Numbers(), batch_size=11)
            ends = []
            for _ in training:
                ends.append(state.end_of_dataloader)
                ends.append([state.end_of_dataloader for _ in evaluation])
                self.assertEqual(ends[-2], state.end_of_dataloader)
            self.assertEqual(ends, [False, [False, True], False, [False, True], True, [False, True]])
            self.assertEqual(state.loaders, [])
            next(iter(training))  # a pass that does not end
            for _ in training:
                self.assertEqual(state.loaders, [training])
            self.assertEqual(state.loaders, [])
            rest = skip_first_batches(training, 1)
            self.assertEqual([state.end_of_dataloader for _ in rest], [False, True])
            batches = iter(rest)
            next(batches)
            del batches
            gc.collect()
            self.assertEqual(state.loaders, [])
        padded = millrace.DataLoader(Numbers(), batch_size=4, world=millrace.World(0, 2))
        self.assertEqual((padded.remainder, training.remainder), (-1, 0))


class GradientState:
    """As in Accelerate: all objects are one."""

    _shared_state: dict = {"loaders": []}

    def __init__(self) -> None:
        self.__dict__ = self._shared_state

    def _add_dataloader(self, loader) -> None:
        self.loaders = [*self.loaders, loader]

    def _remove_dataloader(self, loader) -> None:
        self.loaders = [each for each in self.loaders if each is not loader]

    @property
    def end_of_dataloader(self) -> bool:
        return bool(self.loaders) and self.loaders[-1].end_of_dataloader


if __name__ == "__main__":
    unittest.main()
