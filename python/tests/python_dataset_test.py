#!/usr/bin/env python3
"""Map-style Python datasets in the loader: samples, orders, states and errors."""

import threading
import time
import unittest
from collections import Counter, namedtuple
from contextlib import suppress
from unittest import mock

import numpy
import torch

import millrace
from millrace.loader import _threads
from millrace.loader._rows import collate


class Squares:
    """Sample i is (i, i * i)."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple:
        return index, index * index


def visited(loader) -> list:
    return [sample for numbers, _ in loader for sample in numbers.tolist()]


def ranks_of(world_size: int, dataset, **options) -> list:
    return [millrace.DataLoader(dataset, world=millrace.World(rank, world_size), **options)
            for rank in range(world_size)]


class ContentTest(unittest.TestCase):
    def test_without_shuffling_the_batches_equal_those_of_torch(self):
        ours = millrace.DataLoader(Squares(10), batch_size=4)
        theirs = torch.utils.data.DataLoader(Squares(10), batch_size=4)
        self.assertEqual(len(ours), len(theirs))
        for mine, other in zip(ours, theirs, strict=True):
            for left, right in zip(mine, other, strict=True):
                self.assertEqual(left.dtype, right.dtype)
                self.assertTrue(torch.equal(left, right))

    def test_every_epoch_visits_every_sample_once_in_another_order(self):
        loader = millrace.DataLoader(Squares(103), batch_size=8, shuffle=True)
        first, second = visited(loader), visited(loader)
        self.assertEqual(sorted(first), list(range(103)))
        self.assertEqual(sorted(second), list(range(103)))
        self.assertNotEqual(first, second)

    def test_an_epoch_can_be_chosen_by_number(self):
        loader = millrace.DataLoader(Squares(50), batch_size=8, shuffle=True, seed=7)
        epochs = [visited(loader) for _ in range(3)]
        loader.set_epoch(1)
        self.assertEqual(visited(loader), epochs[1])
        other_seed = millrace.DataLoader(Squares(50), batch_size=8, shuffle=True, seed=8)
        self.assertNotEqual(visited(other_seed), epochs[0])

    def test_threads_do_not_change_the_order(self):
        class Slow(Squares):
            def __getitem__(self, index):
                time.sleep(0.002 * (index % 3))
                return super().__getitem__(index)

        fast = millrace.DataLoader(Squares(60), batch_size=4, shuffle=True, num_workers=1)
        slow = millrace.DataLoader(Slow(60), batch_size=4, shuffle=True, num_workers=4)
        self.assertEqual(visited(slow), visited(fast))

    def test_no_samples_and_one_sample(self):
        for shuffle in (False, True):
            with self.assertRaisesRegex(ValueError, "Squares is an empty dataset"):
                millrace.DataLoader(Squares(0), batch_size=4, shuffle=shuffle)
        (batch,) = millrace.DataLoader(Squares(1), batch_size=4, shuffle=True)
        self.assertEqual([part.tolist() for part in batch], [[0], [0]])

    def test_at_most_prefetch_batches_are_prefetched(self):
        asked = []

        class Counting(Squares):
            def __getitem__(self, index):
                asked.append(index)
                return super().__getitem__(index)

        loader = millrace.DataLoader(Counting(100), batch_size=2, prefetch=millrace.Prefetch(batches=3),
                                     num_workers=2, worker="thread")
        batches = iter(loader)
        next(batches)
        deadline = time.monotonic() + 60
        while len(asked) < 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        self.assertEqual(len(asked), 8)  # one batch returned, three prefetched

    def test_a_dataset_with_getitems_is_called_once_per_batch(self):
        class Many(Squares):
            def __getitem__(self, index):
                raise AssertionError("asked for a single sample")

            def __getitems__(self, indices):
                return [(index, -index) for index in indices]

        numbers, negatives = next(iter(millrace.DataLoader(Many(4), batch_size=4)))
        self.assertEqual(negatives.tolist(), [0, -1, -2, -3])

    def test_a_function_of_the_batch_is_applied(self):
        loader = millrace.DataLoader(Squares(4), batch_size=2, transform=lambda batch: batch[1] + 1)
        self.assertEqual([batch.tolist() for batch in loader], [[1, 2], [5, 10]])


class RankTest(unittest.TestCase):
    def test_ranks_share_an_epoch_without_overlap(self):
        for count in (64, 61, 3):
            loaders = ranks_of(4, Squares(count), batch_size=4, shuffle=True, tail="uneven")
            samples = sum((visited(loader) for loader in loaders), [])
            self.assertEqual(sorted(samples), list(range(count)))

    def test_by_default_ranks_have_equally_many_batches_and_padding_is_marked(self):
        loaders = ranks_of(4, Squares(61), batch_size=4, shuffle=True)
        self.assertEqual({len(loader) for loader in loaders}, {4})
        real, all_of_them = Counter(), 0
        for loader in loaders:
            for numbers, _ in loader:
                all_of_them += len(numbers)
                real.update(number for number, is_real in zip(numbers.tolist(), loader.batch.is_real)
                            if is_real)
        self.assertEqual(real, Counter(range(61)))
        self.assertEqual(all_of_them, 64)

    def test_dropping_the_tail_keeps_batches_full(self):
        loaders = ranks_of(4, Squares(61), batch_size=4, shuffle=True, drop_last=True)
        sizes = [len(numbers) for loader in loaders for numbers, _ in loader]
        self.assertEqual(sizes, [4] * 12)

    def test_a_distributed_sampler_sets_rank_and_world_size(self):
        samples = []
        for rank in range(2):
            sampler = torch.utils.data.DistributedSampler(Squares(20), num_replicas=2, rank=rank,
                                                          seed=3)
            loader = millrace.DataLoader(Squares(20), batch_size=5, sampler=sampler)
            self.assertEqual((loader.world.rank, loader.world.size), (rank, 2))
            samples += visited(loader)
        self.assertEqual(sorted(samples), list(range(20)))

    def test_local_shuffling_keeps_samples_on_their_rank(self):
        loaders = ranks_of(4, Squares(64), batch_size=4, shuffle="local")
        for loader in loaders:
            first, second = visited(loader), visited(loader)
            self.assertEqual(sorted(first), sorted(second))
            self.assertNotEqual(first, second)

    def test_partial_shuffling_exchanges_a_part(self):
        loaders = ranks_of(4, Squares(400), batch_size=10, shuffle=millrace.Partial(fraction=0.25))
        for loader in loaders:
            first, second = set(visited(loader)), set(visited(loader))
            self.assertEqual((len(first), len(second)), (100, 100))
            # At most a quarter leaves; some samples may be sent to their own rank.
            self.assertGreaterEqual(len(first & second), 75)
            self.assertLess(len(first & second), 100)


class StateTest(unittest.TestCase):
    def test_a_resumed_pass_continues_exactly(self):
        def make():
            return millrace.DataLoader(Squares(101), batch_size=8, shuffle=True, seed=5)

        whole = make()
        epochs = [visited(whole) for _ in range(3)]
        loader = make()
        visited(loader)
        batches = iter(loader)
        part = [next(batches)[0].tolist() for _ in range(4)]
        state = loader.state_dict()

        resumed = make()
        resumed.load_state_dict(state)
        self.assertEqual(resumed.epoch, 1)
        self.assertEqual(sum(part, []) + visited(resumed), epochs[1])
        self.assertEqual(visited(resumed), epochs[2])

    def test_set_epoch_of_the_same_epoch_keeps_the_position(self):
        loader = millrace.DataLoader(Squares(20), batch_size=5, shuffle=True)
        next(iter(loader))
        resumed = millrace.DataLoader(Squares(20), batch_size=5, shuffle=True)
        resumed.load_state_dict(loader.state_dict())
        resumed.set_epoch(0)
        self.assertEqual(len(visited(resumed)), 15)

    def test_between_epochs_the_state_is_the_start_of_the_next(self):
        loader = millrace.DataLoader(Squares(20), batch_size=5, shuffle=True)
        visited(loader)
        resumed = millrace.DataLoader(Squares(20), batch_size=5, shuffle=True)
        resumed.load_state_dict(loader.state_dict())
        self.assertEqual(visited(resumed), visited(loader))

    def test_another_number_of_ranks_continues_with_the_rest(self):
        before = ranks_of(4, Squares(200), batch_size=5, shuffle=True, tail="uneven")
        seen, states = [], []
        for loader in before:
            batches = iter(loader)
            seen += sum((next(batches)[0].tolist() for _ in range(3)), [])
            states.append(loader.state_dict())
        self.assertEqual(len({str(state) for state in states}), 1)
        after = ranks_of(3, Squares(200), batch_size=7, shuffle=True, tail="uneven")
        for loader in after:
            loader.load_state_dict(states[0])
            seen += visited(loader)
        self.assertEqual(sorted(seen), list(range(200)))

    def test_a_state_of_another_job_is_refused(self):
        state = millrace.DataLoader(Squares(20), shuffle=True, seed=1).state_dict()
        for other in (millrace.DataLoader(Squares(21), shuffle=True, seed=1),
                      millrace.DataLoader(Squares(20), shuffle=True, seed=2),
                      millrace.DataLoader(Squares(20), shuffle=False, seed=1)):
            with self.assertRaises(ValueError):
                other.load_state_dict(state)

    def test_the_state_survives_torch_save(self):
        import io
        loader = millrace.DataLoader(Squares(20), batch_size=5, shuffle=True)
        next(iter(loader))
        file = io.BytesIO()
        torch.save(loader.state_dict(), file)
        file.seek(0)
        loader.load_state_dict(torch.load(file))
        self.assertEqual(len(visited(loader)), 15)


class ErrorTest(unittest.TestCase):
    class Broken(Squares):
        def __getitem__(self, index):
            if index in (3, 7):
                raise OSError(f"no bytes for {index}")
            return super().__getitem__(index)

    def test_a_bad_sample_is_named(self):
        for worker in ("process", "thread"):
            loader = millrace.DataLoader(self.Broken(10), batch_size=2, worker=worker)
            with self.assertRaisesRegex(millrace.SampleError, "sample 3 .*no bytes for 3") as caught:
                list(loader)
        self.assertIsInstance(caught.exception.__cause__, OSError)

    def test_bad_samples_can_be_skipped_and_counted(self):
        loader = millrace.DataLoader(self.Broken(10), batch_size=2, skip_bad_samples=True)
        self.assertEqual(visited(loader), [0, 1, 2, 4, 5, 6, 8, 9])
        self.assertEqual(loader.stats()["bad_samples"], 2)
        self.assertIn("sample 3", str(loader.stats()))

    def test_a_sample_that_hangs_is_named(self):
        is_stuck, release = threading.Event(), threading.Event()
        self.addCleanup(release.set)

        class Stuck(Squares):
            def __getitem__(self, index):
                if index == 2:
                    is_stuck.set()
                    release.wait()
                return super().__getitem__(index)

        batches = iter(millrace.DataLoader(Stuck(10), batch_size=2, timeout=0.3, num_workers=1,
                                            worker="thread"))
        while not is_stuck.is_set():
            with suppress(TimeoutError):  # if the thread starts slowly, for another sample
                next(batches)
        with self.assertRaisesRegex(TimeoutError, "sample 2 "):
            list(batches)  # the first batch may be left

    def test_a_batch_that_is_ready_at_the_deadline_is_returned(self):
        threads = _threads.Threads(None, 0, 1)
        run = mock.Mock(handed=0, ready={}, input_file=None)
        clock = mock.Mock(monotonic=mock.Mock(return_value=0))

        def wait(seconds):  # it times out, and a batch is ready before it has the lock again
            clock.monotonic.return_value = 20
            run.ready[0] = "batch"
            return False

        with mock.patch.object(threads._changed, "wait", wait), mock.patch.object(_threads, "time", clock):
            self.assertEqual(threads.take(run, deadline=10), "batch")

    def test_invalid_options_are_refused_with_a_reason(self):
        for options, sentence in (({"batch_size": 0}, "batch_size=0"),
                                  ({"shuffle": "some"}, "'global'"),
                                  ({"shuffle": "file"}, "dataset of files"),
                                  ({"tail": "cut"}, "uneven"),
                                  ({"output": "tf"}, "torch, numpy"),
                                  ({"sampler": [1, 20]}, "index 20 at position 1")):
            with self.subTest(options), self.assertRaisesRegex(ValueError, sentence):
                millrace.DataLoader(Squares(8), **options)
        with self.assertRaisesRegex(ValueError, "Local.shard='rack': expected .*'node'"):
            millrace.Local(shard="rack")
        with self.assertRaisesRegex(ValueError, "rank 4 of 4"):
            millrace.World(4, 4)
        with self.assertRaisesRegex(TypeError, "__len__"):
            millrace.DataLoader(iter([1, 2]))

    def test_a_concurrent_second_pass_is_refused(self):
        loader = millrace.DataLoader(Squares(8), batch_size=2)
        first = iter(loader)
        next(first)
        next(iter(loader))
        with self.assertRaisesRegex(RuntimeError, "another one began"):
            next(first)

    def test_a_closed_loader_says_so(self):
        with millrace.DataLoader(Squares(8), batch_size=2) as loader:
            next(iter(loader))
        with self.assertRaisesRegex(RuntimeError, "closed"):
            next(iter(loader))


class CollateTest(unittest.TestCase):
    def test_collating_gives_the_same_as_torch(self):
        Point = namedtuple("Point", "x y")
        for samples in ([1, 2], [1.5, 2.5], [True, False], ["a", "b"], [b"a", b"b"],
                        [torch.ones(2), torch.zeros(2)],
                        [numpy.arange(3), numpy.arange(3)], [numpy.float32(1), numpy.float32(2)],
                        [{"a": 1, "b": (2, 3.0)}, {"a": 4, "b": (5, 6.0)}],
                        [Point(1, 2), Point(3, 4)], [[1, 2], [3, 4]]):
            with self.subTest(samples):
                self.assertEqual(str(collate(samples, "torch")),
                                 str(torch.utils.data.default_collate(samples)))

    def test_without_torch_numbers_become_arrays(self):
        numbers, words = collate([(1, "a"), (2, "b")], "numpy")
        self.assertIsInstance(numbers, numpy.ndarray)
        self.assertEqual(words, ["a", "b"])

    def test_samples_that_cannot_be_collated_are_named(self):
        with self.assertRaisesRegex(TypeError, "object"):
            collate([object(), object()], "torch")
        with self.assertRaisesRegex(ValueError, "has 3 elements, .* has 2"):
            collate([(1, 2), (1, 2, 3)], "torch")


class IteratorTest(unittest.TestCase):
    def test_progress_bars_know_the_length(self):
        import operator
        loader = millrace.DataLoader(Squares(10), batch_size=3)
        batches = iter(loader)
        self.assertEqual((len(loader), len(batches), operator.length_hint(batches)), (4, 4, 4))
        next(batches)
        self.assertEqual(operator.length_hint(batches), 3)
        self.assertEqual(len(list(batches)), 3)
        self.assertEqual(len(batches), 0)

    def test_stats_count_and_print_as_sentences(self):
        loader = millrace.DataLoader(Squares(10), batch_size=3)
        list(loader)
        stats = loader.stats()
        self.assertEqual((stats["batches"], stats["samples"]), (4, 10))
        self.assertIn("4 batches, 10 samples in ", str(stats))


if __name__ == "__main__":
    unittest.main()
