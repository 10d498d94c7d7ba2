#!/usr/bin/env python3
"""Options of torch's DataLoader: a script that only changes the class gets the same batches or a
reason."""

import tempfile
import threading
import unittest
from pathlib import Path

import numpy
import torch
from torch.utils.data import (BatchSampler, DistributedSampler, IterableDataset, RandomSampler,
                              SequentialSampler, Subset, SubsetRandomSampler, TensorDataset)

import millrace

DATA = TensorDataset(torch.arange(20))


def visited(loader) -> list:
    return [sample for (numbers,) in loader for sample in numbers.tolist()]


class AcceptedOptions(unittest.TestCase):
    def test_options_of_worker_processes_are_ignored(self):
        loader = millrace.DataLoader(DATA, batch_size=4, num_workers=2, persistent_workers=True,
                                     multiprocessing_context="fork", pin_memory_device="",
                                     in_order=True, prefetch_factor=4)
        self.assertEqual(visited(loader), list(range(20)))
        self.assertEqual(loader.stats()["prefetch"], 8)

    def test_sequential_and_random_samplers_become_an_order(self):
        in_order = millrace.DataLoader(DATA, batch_size=4, sampler=SequentialSampler(DATA))
        self.assertEqual(visited(in_order), list(range(20)))
        at_random = millrace.DataLoader(DATA, batch_size=4, sampler=RandomSampler(DATA))
        first = visited(at_random)
        self.assertEqual(sorted(first), list(range(20)))
        self.assertNotEqual(first, list(range(20)))

    def test_a_subset_sampler_shuffles_its_samples_differently_every_epoch(self):
        loader = millrace.DataLoader(DATA, batch_size=4,
                                     sampler=SubsetRandomSampler(list(range(5, 15))))
        self.assertEqual(len(loader), 3)
        first, second = visited(loader), visited(loader)
        self.assertEqual(sorted(first), list(range(5, 15)))
        self.assertEqual(sorted(second), list(range(5, 15)))
        self.assertNotEqual(first, second)

    def test_a_batch_sampler_sets_the_batch_size(self):
        loader = millrace.DataLoader(
            DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 6, drop_last=True))
        self.assertEqual([numbers.tolist() for (numbers,) in loader],
                         [list(range(i, i + 6)) for i in (0, 6, 12)])

    def test_a_generator_sets_the_seed(self):
        def order_by(number: int) -> list:
            generator = torch.Generator().manual_seed(number)
            return visited(millrace.DataLoader(DATA, shuffle=True, generator=generator))

        self.assertEqual(order_by(7), visited(millrace.DataLoader(DATA, shuffle=True, seed=7)))
        self.assertNotEqual(order_by(8), order_by(7))
        of_sampler = RandomSampler(DATA, generator=torch.Generator().manual_seed(7))
        self.assertEqual(visited(millrace.DataLoader(DATA, sampler=of_sampler)), order_by(7))

    def test_the_loader_follows_set_epoch_of_a_distributed_sampler(self):
        sampler = DistributedSampler(DATA, num_replicas=1, rank=0)
        loader = millrace.DataLoader(DATA, batch_size=4, sampler=sampler)
        epochs = []
        for epoch in range(3):
            loader.sampler.set_epoch(epoch)
            epochs.append(visited(loader))
        self.assertEqual(len({tuple(order) for order in epochs}), 3)
        sampler.set_epoch(1)  # like a script that continues from a checkpoint
        self.assertEqual(visited(loader), epochs[1])

    def test_without_workers_the_training_thread_calls_the_dataset(self):
        threads = set()

        class Noting:
            def __len__(self):
                return 6

            def __getitem__(self, index):
                threads.add(threading.get_ident())
                return torch.tensor(index)

        loader = millrace.DataLoader(Noting(), batch_size=4, num_workers=0)
        self.assertEqual([batch.tolist() for batch in loader], [[0, 1, 2, 3], [4, 5]])
        self.assertEqual(threads, {threading.get_ident()})
        state = loader.state_dict()
        loader.close()
        with self.assertRaisesRegex(RuntimeError, "closed"):
            next(iter(loader))
        self.assertEqual(state["epoch"], 1)

    def test_a_timeout_of_0_waits_forever(self):
        for forever in (0, None, float("inf")):
            self.assertEqual(visited(millrace.DataLoader(DATA, timeout=forever)), list(range(20)))


class RefusedOptions(unittest.TestCase):
    def refuses(self, sentence: str, kind: type = ValueError, dataset=DATA, **options) -> None:
        with self.subTest(options), self.assertRaisesRegex(kind, sentence):
            millrace.DataLoader(dataset, **options)

    def test_iterable_datasets_are_refused_even_with_a_length(self):
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(range(4))

            def __len__(self):
                return 4

        self.refuses("Stream.*__getitem__.*millrace.Files", kind=TypeError, dataset=Stream())

    def test_an_empty_dataset_is_refused_by_its_name(self):
        self.refuses(r"^list is an empty dataset: there is nothing to load\. Check the files", dataset=[])
        self.refuses(r"^Subset\(TensorDataset\) is an empty dataset", dataset=Subset(DATA, []))
        self.refuses("is an empty dataset", dataset=DATA, sampler=SubsetRandomSampler([]))
        with tempfile.TemporaryDirectory() as folder:
            numpy.save(f"{folder}/none.npy", numpy.zeros((0, 3)))
            numpy.save(f"{folder}/some.npy", numpy.zeros((4, 3)))
            self.refuses(r"^Files\('.*/none\.npy'\) is an empty dataset",
                         dataset=millrace.Files(f"{folder}/none.npy"))
            Path(folder, "none.jsonl").write_text("")
            with self.assertRaisesRegex(ValueError, r"none\.jsonl: there are no samples"):
                millrace.Files(f"{folder}/none.jsonl")
            some = millrace.Files(files=f"{folder}/some.npy")
            self.refuses(r"^Subset\(Files\('.*/some\.npy'\)\) is an empty dataset", dataset=some.subset([]))

    def test_an_epoch_without_a_batch_is_a_warning(self):
        loader = millrace.DataLoader(DATA, batch_size=32, drop_last=True)
        with self.assertWarnsRegex(UserWarning, r"every epoch is empty: 20 samples do not fill a batch of 32 on 1 "
                                   r"rank\(s\), and tail='drop'"):
            self.assertEqual(visited(loader), [])

    def test_conflicting_options_are_refused(self):
        batches = BatchSampler(SequentialSampler(DATA), 6, drop_last=True)
        self.refuses("one or the others", batch_sampler=batches, batch_size=4)
        self.refuses("not both", sampler=SequentialSampler(DATA), shuffle=True)
        self.refuses("not both", generator=torch.Generator(), seed=3, shuffle=True)
        self.refuses("prefetch_factor=2", prefetch_factor=2)
        self.refuses("prefetch_factor=2", prefetch_factor=2, prefetch=millrace.Prefetch(batches=3),
                     num_workers=2)

    def test_a_value_of_the_wrong_type_is_named(self):
        self.refuses(r"cache='4GiB': expected cache=millrace\.Cache\(", TypeError, cache="4GiB")
        self.refuses(r"prefetch=2: expected prefetch=millrace\.Prefetch\(", TypeError, prefetch=2)
        self.refuses(r"world=4: expected world=millrace\.World\(", TypeError, world=4)
        self.refuses(r"shuffle='partly'.*millrace\.Partial", shuffle="partly")

    def test_functions_for_worker_processes_are_refused_without_them(self):
        self.refuses("worker_init_fn is for worker processes", worker_init_fn=print, worker="thread")
        self.refuses("worker='fiber': expected 'process' or 'thread'", worker="fiber")

    def test_numbers_out_of_range_are_named(self):
        for option, value in (("seed", 2**64), ("seed", -1), ("batch_size", 2**70),
                              ("num_workers", 2**40), ("num_workers", -1), ("timeout", -1),
                              ("timeout", float("nan"))):
            self.refuses(f"{option}=", **{option: value})
        with self.assertRaisesRegex(ValueError, "Prefetch.batches="):
            millrace.Prefetch(batches=2**32)
        with self.assertRaisesRegex(ValueError, "epoch="):
            millrace.DataLoader(DATA).set_epoch(2**64)


if __name__ == "__main__":
    unittest.main()
