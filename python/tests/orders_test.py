#!/usr/bin/env python3
"""Orders that draw samples: weighted, balanced, mixtures and lists, of files and of Python datasets."""

import collections
import contextlib
import json
import os
import pickle
import random
import signal
import tempfile
import threading
import unittest
from pathlib import Path

import numpy
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset

import millrace

COUNT = 40


def numbers(loader) -> list:
    return [number for batch in loader for number in batch.flatten().tolist()]


class Numbers:
    """A Python dataset of its own indices."""

    def __init__(self, count: int = COUNT, first: int = 0) -> None:
        self.values = range(first, first + count)
        self.targets = [value % 4 for value in self.values]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int):
        return torch.tensor([self.values[index]])


class OrdersTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def files(self, count: int = COUNT, first: int = 0, name: str = "numbers") -> millrace.Files:
        path = self.folder / f"{name}-{first}-{count}.npy"
        if not path.exists():  # a loader refuses files that change
            numpy.save(path, numpy.arange(first, first + count, dtype=numpy.int64).reshape(count, 1))
        return millrace.Files([path])

    def both(self, dataset_options=({}, {"num_workers": 0})):
        """The same samples read by C++ and made by Python, with options for a loader."""
        yield self.files(), dataset_options[0]
        yield Numbers(), dataset_options[1]


def spread(loader, epochs: int) -> collections.Counter:
    return collections.Counter(number for _ in range(epochs) for number in numbers(loader))


class Drawing(OrdersTest):
    def test_weights_decide_how_often_a_sample_is_drawn(self):
        weights = numpy.zeros(COUNT)
        weights[[3, 7, 11]] = 1, 2, 5
        for dataset, options in self.both():
            loader = millrace.DataLoader(dataset, 16, millrace.Weighted(weights, samples=4000), **options)
            self.assertEqual(len(loader), 250)
            counts = spread(loader, 1)
            self.assertEqual(sorted(counts), [3, 7, 11])
            # Standard deviations are 21, 27 and 31.
            self.assertLess(abs(counts[3] - 500), 110)
            self.assertLess(abs(counts[7] - 1000), 140)
            self.assertLess(abs(counts[11] - 2500), 160)

    def test_the_order_is_the_same_for_files_and_python_datasets(self):
        for shuffle in (millrace.Weighted(range(COUNT)), millrace.Weighted(samples=100),
                        millrace.Weighted(range(COUNT), 20, replacement=False),
                        millrace.Balanced([i % 3 for i in range(COUNT)], samples=50),
                        millrace.Mixture([1.0], samples=70),
                        millrace.Listed(lambda seed, epoch: [(seed + epoch + i) % COUNT for i in range(9)])):
            with self.subTest(shuffle):
                first, second = (millrace.DataLoader(dataset, 8, shuffle, seed=5, **options)
                                 for dataset, options in self.both())
                for _ in range(3):
                    order = numbers(first)
                    self.assertEqual(order, numbers(second))
                again = millrace.DataLoader(self.files(), 8, shuffle, seed=5)
                again.set_epoch(2)
                self.assertEqual(numbers(again), order)

    def test_without_replacement_no_sample_comes_twice(self):
        shuffle = millrace.Weighted([1.0] * 30 + [0.0] * 10, samples=25, replacement=False)
        for dataset, options in self.both():
            loader = millrace.DataLoader(dataset, 8, shuffle, **options)
            for _ in range(3):
                order = numbers(loader)
                self.assertEqual((len(order), len(set(order))), (25, 25))
                self.assertLess(max(order), 30)

    def test_balanced_classes_are_equally_frequent(self):
        dataset = Numbers()
        dataset.targets = [0] * 30 + [1] * 8 + ["rare"] * 2
        loader = millrace.DataLoader(dataset, 8, millrace.Balanced(samples=30), num_workers=0)
        for _ in range(3):
            classes = collections.Counter(dataset.targets[number] for number in numbers(loader))
            self.assertEqual(classes, {0: 10, 1: 10, "rare": 10})
        counts = spread(loader, 3)  # epochs 3 to 5: draws 30 to 59 of each class
        self.assertEqual({counts[number] for number in range(30)}, {1})
        self.assertEqual({counts[number] for number in range(38, 40)}, {15})

    def test_balanced_uses_the_classes_of_the_dataset(self):
        for name, count in (("a", 6), ("b", 2), ("c", 3)):
            (self.folder / "classes" / name).mkdir(parents=True)
            for index in range(count):
                (self.folder / "classes" / name / f"{index}").write_bytes(bytes([index] * 4))
        dataset = millrace.RawFolder(self.folder / "classes", shape=(4,))

        def classes(data) -> dict:
            loader = millrace.DataLoader(data, 4, millrace.Balanced(samples=8))
            return collections.Counter(label for _, labels in loader for label in labels.tolist())

        self.assertEqual(classes(dataset), {0: 3, 1: 3, 2: 2})
        # A class without samples does not count.
        self.assertEqual(classes(dataset.subset([0, 6, 7])), {0: 4, 1: 4})
        self.assertEqual(classes(Subset(dataset, [0, 6, 7])), {0: 4, 1: 4})
        both = ConcatDataset([Numbers(), Numbers()])
        loader = millrace.DataLoader(both, 8, millrace.Balanced(), num_workers=0)
        self.assertEqual(len(numbers(loader)), 80)

    def test_a_mixture_has_its_proportions_in_every_epoch(self):
        files = millrace.Concat([self.files(10), self.files(90, first=10, name="more")])
        python = ConcatDataset([Numbers(10), Numbers(90, first=10)])
        for dataset, options in ((files, {}), (python, {"num_workers": 0})):
            loader = millrace.DataLoader(dataset, 8, millrace.Mixture([0.7, 0.3], samples=30), **options)
            counts: collections.Counter = collections.Counter()
            for _ in range(3):
                order = numbers(loader)
                self.assertEqual(sum(number < 10 for number in order), 21)
                counts.update(order)
            # 63 draws of 10, 27 of 90: none comes again before all were drawn.
            self.assertLessEqual({counts[number] for number in range(10)}, {6, 7})
            self.assertLessEqual({counts[number] for number in range(10, 100)}, {0, 1})

    def test_a_list_may_be_an_array_a_tensor_or_an_iterator(self):
        for made in (list, tuple, iter, numpy.array, torch.tensor,
                     lambda indices: numpy.array(indices, dtype=numpy.uint8)):
            shuffle = millrace.Listed(lambda seed, epoch, made=made: made([5, epoch, 5]))
            loader = millrace.DataLoader(self.files(), 2, shuffle)
            self.assertEqual([numbers(loader), numbers(loader)], [[5, 0, 5], [5, 1, 5]])

    def test_all_threads_and_worker_processes_see_the_same_order(self):
        shuffle = millrace.Weighted(range(COUNT), samples=120)
        expected = numbers(millrace.DataLoader(self.files(), 7, shuffle))
        for options in ({"num_workers": 3}, {"num_workers": 3, "worker": "thread"}):
            self.assertEqual(numbers(millrace.DataLoader(Numbers(), 7, shuffle, **options)), expected)
        self.assertEqual(numbers(millrace.DataLoader(self.files(), 7, shuffle, num_workers=3)), expected)


class Resuming(OrdersTest):
    def shuffles(self):
        return (millrace.Weighted(range(COUNT), samples=100),
                millrace.Weighted(range(COUNT), samples=30, replacement=False),
                millrace.Balanced([i % 3 for i in range(COUNT)], samples=100),
                millrace.Listed(lambda seed, epoch: [i * (epoch + 3) % COUNT for i in range(100)]))

    def test_a_state_resumes_with_another_number_of_ranks(self):
        for shuffle in self.shuffles():
            for dataset, options in self.both():
                with self.subTest(shuffle, dataset=type(dataset).__name__):
                    def rank_of(rank: int, size: int):
                        return millrace.DataLoader(dataset, 4, shuffle, seed=3, tail="uneven",
                                                   world=millrace.World(rank, size), **options)

                    whole = rank_of(0, 1)
                    numbers(whole)
                    expected = collections.Counter(numbers(whole))
                    seen: collections.Counter = collections.Counter()
                    states = []
                    for rank in range(2):
                        loader = rank_of(rank, 2)
                        numbers(loader)
                        batches = iter(loader)
                        for _ in range(3):
                            seen.update(next(batches).flatten().tolist())
                        states.append(json.loads(json.dumps(loader.state_dict())))
                    self.assertEqual(states[0], states[1])
                    self.assertEqual((states[0]["epoch"], states[0]["done"]), (1, 24))
                    for rank in range(3):
                        loader = rank_of(rank, 3)
                        loader.load_state_dict(states[0])
                        seen.update(numbers(loader))
                    self.assertEqual(seen, expected)

    def test_a_state_of_other_weights_is_refused(self):
        pairs = ((millrace.Weighted(range(COUNT)), millrace.Weighted([1.0] * COUNT), "weights"),
                 (millrace.Weighted(range(COUNT)), millrace.Weighted(range(COUNT), 41), "positions"),
                 (millrace.Balanced([0] * 20 + [1] * 20), millrace.Balanced([0] * 10 + [1] * 30), "parts"),
                 (millrace.Listed(lambda seed, epoch: [1, 2]), millrace.Listed(lambda seed, epoch: [2, 1]),
                  "indices"),
                 (millrace.Weighted(range(COUNT)), True, "shuffle"))
        for saved, other, reason in pairs:
            for dataset, options in self.both():
                with self.subTest(reason, dataset=type(dataset).__name__):
                    loader = millrace.DataLoader(dataset, 1, saved, **options)
                    next(iter(loader))
                    state = loader.state_dict()
                    millrace.DataLoader(dataset, 1, saved, **options).load_state_dict(state)
                    with self.assertRaisesRegex(ValueError, reason):
                        millrace.DataLoader(dataset, 1, other, **options).load_state_dict(state)

    def test_a_state_that_is_none_is_refused_before_the_function_is_called(self):
        loader = millrace.DataLoader(self.files(), 2, millrace.Listed(lambda seed, epoch: [1, 2]))
        with self.assertRaisesRegex(ValueError, "loader state"):
            loader.load_state_dict({"epoch": "first"})


class Functions(OrdersTest):
    def test_the_function_is_called_once_per_epoch_on_the_thread_that_iterates(self):
        for dataset, options in self.both():
            calls = []

            def order(seed: int, epoch: int) -> list:
                calls.append((seed, epoch))
                self.assertIs(threading.current_thread(), threading.main_thread())
                return [epoch, epoch + 1]

            loader = millrace.DataLoader(dataset, 1, millrace.Listed(order), seed=9, epochs=3, **options)
            for epoch in range(3):
                self.assertEqual(numbers(loader), [epoch, epoch + 1])
            self.assertEqual(calls, [(9, 0), (9, 1), (9, 2)])

    def test_an_error_names_the_epoch_and_keeps_its_cause(self):
        def order(seed: int, epoch: int) -> list:
            return [[3, 4], [5, 6]][epoch]

        for dataset, options in self.both():
            loader = millrace.DataLoader(dataset, 1, millrace.Listed(order), **options)
            self.assertEqual(numbers(loader), [3, 4])
            self.assertEqual(numbers(loader), [5, 6])  # although epoch 2 could not be prefetched
            with self.assertRaisesRegex(RuntimeError, "failed for epoch 2: IndexError: list") as caught:
                numbers(loader)
            self.assertIsInstance(caught.exception.__cause__, IndexError)
            loader.set_epoch(1)
            self.assertEqual(numbers(loader), [5, 6])

    def test_wrong_indices_are_named_with_their_epoch(self):
        for wrong, kind, reason in (([0, COUNT], ValueError, "epoch 1: index 40 at position 1.*40 samples"),
                                    ([-1, 0], ValueError, "epoch 1: index -1 at position 0"),
                                    ([0], ValueError, "epoch 1 has 1 indices, but every epoch.* has 2"),
                                    ([0, 1.5], TypeError, "epoch 1: 1.5 at position 1 is not"),
                                    (7, TypeError, "epoch 1 is a int: expected a list"),
                                    ([0, 2**70], TypeError, "epoch 1: 1180591620717411303424 at")):
            for dataset, options in self.both():
                loader = millrace.DataLoader(
                    dataset, 1, millrace.Listed(lambda seed, epoch: wrong if epoch else [0, 1]), **options)
                self.assertEqual(numbers(loader), [0, 1])
                with self.subTest(wrong), self.assertRaisesRegex(kind, reason):
                    numbers(loader)

    def test_a_given_length_needs_no_call_before_the_first_epoch(self):
        calls = []
        shuffle = millrace.Listed(lambda seed, epoch: calls.append(epoch) or [1, 2], samples=2)
        loader = millrace.DataLoader(self.files(), 1, shuffle)
        self.assertEqual((len(loader), calls), (2, []))
        loader.set_epoch(7)
        self.assertEqual(numbers(loader), [1, 2])
        self.assertEqual(calls, [7, 8])

    def test_an_interrupt_in_the_function_ends_the_pass(self):
        def order(seed: int, epoch: int) -> list:
            if epoch == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return [0, 1]

        loader = millrace.DataLoader(self.files(), 1, millrace.Listed(order, samples=2))
        with self.assertRaises(KeyboardInterrupt):
            numbers(loader)  # prepares epoch 1 too
        loader.close()

    def test_a_function_may_iterate_over_another_loader(self):
        losses = millrace.DataLoader(self.files(), 8)

        def hardest(seed: int, epoch: int) -> list:
            return sorted(numbers(losses), reverse=True)[:5]

        loader = millrace.DataLoader(self.files(), 2, millrace.Listed(hardest), num_workers=2)
        self.assertEqual([numbers(loader), numbers(loader)], [[39, 38, 37, 36, 35]] * 2)

    def test_a_forked_process_makes_its_own_loader(self):
        shuffle = millrace.Listed(lambda seed, epoch: [epoch + 4, 2])
        parent = millrace.DataLoader(self.files(), 1, shuffle)
        self.assertEqual(numbers(parent), [4, 2])
        child = os.fork()
        if child == 0:
            try:
                loader = millrace.DataLoader(self.files(), 1, shuffle)
                os._exit(0 if numbers(loader) == [4, 2] and numbers(loader) == [5, 2] else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(numbers(parent), [5, 2])


class Keeping(OrdersTest):
    def test_a_cache_serves_repeated_samples(self):
        weights = [20.0 if i % 8 == 0 else 1.0 for i in range(COUNT)]
        for shuffle in (millrace.Weighted(weights, samples=200), millrace.Balanced([0] * 5 + [1] * 35, 200),
                        millrace.Listed(lambda seed, epoch: [(i * i + epoch) % COUNT for i in range(200)])):
            with self.subTest(shuffle):
                expected = millrace.DataLoader(self.files(), 8, shuffle, seed=2)
                loader = millrace.DataLoader(self.files(), 8, shuffle, seed=2, epochs=3,
                                             cache=millrace.Cache(memory="1MiB"))
                for _ in range(3):
                    self.assertEqual(numbers(loader), numbers(expected))
                cache = loader.stats()["cache"]
                self.assertEqual(cache["memory"]["samples"] + cache["source"]["samples"], 600)
                self.assertLess(cache["source"]["samples"], 60)  # two threads may read one sample

    def test_repeated_images_are_cropped_differently(self):
        from PIL import Image as Pillow
        (self.folder / "images" / "a").mkdir(parents=True)
        pixels = numpy.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=numpy.uint8)
        Pillow.fromarray(pixels).save(self.folder / "images" / "a" / "0.png")
        dataset = millrace.ImageFolder(self.folder / "images", size=16)
        loader = millrace.DataLoader(dataset, 4, millrace.Weighted(samples=8))
        crops = [image.numpy().tobytes() for images, _ in loader for image in images]
        self.assertEqual(len(set(crops)), 8)


class Concatenating(OrdersTest):
    def images(self, name: str, colour: int) -> Path:
        from PIL import Image as Pillow
        (self.folder / name / "a").mkdir(parents=True, exist_ok=True)
        for index in range(3):
            pixels = numpy.full((20, 30, 3), colour + index, dtype=numpy.uint8)
            Pillow.fromarray(pixels).save(self.folder / name / "a" / f"{index}.png")
        return self.folder / name

    def test_parts_follow_each_other(self):
        dataset = millrace.Concat([self.files(3), self.files(2, first=10, name="b"),
                                   self.files(4, first=20, name="c")])
        self.assertEqual(len(dataset), 9)
        self.assertEqual(dataset.cumulative_sizes, [3, 5, 9])
        expected = [0, 1, 2, 10, 11, 20, 21, 22, 23]
        self.assertEqual(numbers(millrace.DataLoader(dataset, 4)), expected)
        self.assertEqual([dataset[i].item() for i in range(9)], expected)
        self.assertIn("b-10-2.npy", dataset.name(4))
        self.assertEqual(sorted(numbers(millrace.DataLoader(dataset, 4, shuffle=True))), expected)
        in_files = numbers(millrace.DataLoader(dataset, 4, shuffle="file", seed=1))
        self.assertEqual(sorted(in_files), expected)

    def test_each_part_keeps_its_own_decoder(self):
        dark = millrace.ImageFolder(self.images("dark", 10), size=8, transform="resize")
        light = millrace.ImageFolder(self.images("light", 200), size=8, transform="resize_center_crop",
                                     resize_to=8)
        dataset = millrace.Concat([dark, light])
        for images, labels in millrace.DataLoader(dataset, 6):
            self.assertEqual(images[:, 0, 0, 0].tolist(), [10, 11, 12, 200, 201, 202])
            self.assertEqual(labels.tolist(), [0] * 6)
        part = dataset.subset([4, 0])
        self.assertEqual([part[i][0][0, 0, 0].item() for i in range(2)], [201, 10])
        for images, _ in millrace.DataLoader(Subset(part, [1, 0]), 2):
            self.assertEqual(images[:, 0, 0, 0].tolist(), [10, 201])
        nested = millrace.Concat([part, dark])
        for images, _ in millrace.DataLoader(nested, 5):
            self.assertEqual(images[:, 0, 0, 0].tolist(), [201, 10, 10, 11, 12])

    def test_it_can_be_pickled(self):
        dataset = millrace.Concat([self.files(3), self.files(2, first=10, name="b")])
        again = pickle.loads(pickle.dumps(dataset))
        self.assertEqual(numbers(millrace.DataLoader(again, 4)), [0, 1, 2, 10, 11])

    def test_parts_that_do_not_match_are_refused(self):
        wide = self.folder / "wide.npy"
        numpy.save(wide, numpy.zeros((2, 3), dtype=numpy.int64))
        with self.assertRaisesRegex(ValueError, r"dataset 0 has \w+ int64\[1\], and dataset 1 has \w+ "
                                                r"int64\[3\]"):
            millrace.Concat([self.files(3), millrace.Files([wide])])
        with self.assertRaisesRegex(TypeError, "dataset 1 is a Numbers.*ConcatDataset"):
            millrace.Concat([self.files(3), Numbers()])
        with self.assertRaisesRegex(ValueError, "no datasets"):
            millrace.Concat([])
        (self.folder / "raw" / "a").mkdir(parents=True)
        (self.folder / "raw" / "a" / "0").write_bytes(bytes(4))
        labelled = millrace.RawFolder(self.folder / "raw", shape=(4,))
        plain = millrace.RawFolder(self.folder / "raw" / "a", shape=(4,))
        with self.assertRaisesRegex(ValueError, "dataset 1 has labels, but dataset 0 has none"):
            millrace.Concat([plain, labelled])


class BadInput(OrdersTest):
    def refuses(self, sentence: str, make, kind: type = ValueError, dataset=None) -> None:
        with self.subTest(sentence), self.assertRaisesRegex(kind, sentence):
            millrace.DataLoader(dataset if dataset is not None else Numbers(), 4, make(), num_workers=0)
        if dataset is None:
            with self.subTest(sentence, files=True), self.assertRaisesRegex(kind, sentence):
                millrace.DataLoader(self.files(), 4, make())

    def test_weights_that_cannot_be_drawn_from(self):
        some = [1.0] * (COUNT - 1)
        self.refuses("weight 39 is -1", lambda: millrace.Weighted([*some, -1]))
        self.refuses("weight 39 is nan", lambda: millrace.Weighted([*some, float("nan")]))
        self.refuses("weight 39 is inf", lambda: millrace.Weighted([*some, float("inf")]))
        self.refuses("no weight is positive", lambda: millrace.Weighted([0] * COUNT))
        self.refuses("has 39 numbers, but the dataset has 40", lambda: millrace.Weighted(some))
        self.refuses("'heavy' at position 39", lambda: millrace.Weighted([*some, "heavy"]), TypeError)
        self.refuses(r"\[1.0\] at position 0", lambda: millrace.Weighted(numpy.ones((COUNT, 1))), TypeError)
        self.refuses("Weighted.weights is a int", lambda: millrace.Weighted(3), TypeError)
        self.refuses("41 samples cannot be drawn from 40",
                     lambda: millrace.Weighted([1] * COUNT, 41, replacement=False))
        self.refuses("Weighted.samples=0", lambda: millrace.Weighted([1] * COUNT, 0))
        self.refuses("empty dataset", lambda: millrace.Weighted(samples=4), dataset=Numbers(0))

    def test_proportions_that_do_not_make_a_whole(self):
        both = ConcatDataset([Numbers(10), Numbers(30)])
        self.refuses("sum to 1.2, not to 1", lambda: millrace.Mixture([0.7, 0.5]), dataset=both)
        self.refuses(r"proportions\[1\] is 0", lambda: millrace.Mixture([1, 0]), dataset=both)
        self.refuses(r"proportions\[0\] is -0.5", lambda: millrace.Mixture([-0.5, 1.5]), dataset=both)
        self.refuses(r"proportions\[0\] is nan", lambda: millrace.Mixture([float("nan"), 1]), dataset=both)
        self.refuses("sum to 0", lambda: millrace.Mixture([]), dataset=both)
        self.refuses("3 proportions, but the dataset has 2 parts",
                     lambda: millrace.Mixture([0.2, 0.3, 0.5]), dataset=both)
        self.refuses("Numbers has one.*millrace.Concat", lambda: millrace.Mixture([0.5, 0.5]), TypeError,
                     dataset=Numbers())
        self.refuses("an epoch of 3 samples has none of part 1",
                     lambda: millrace.Mixture([0.99, 0.01], samples=3), dataset=both)
        empty = ConcatDataset([Numbers(10), Numbers(0), Numbers(5)])
        self.refuses("part 1 of the dataset has no samples",
                     lambda: millrace.Mixture([0.4, 0.4, 0.2]), dataset=empty)

    def test_classes_that_are_not_known(self):
        self.refuses("has 3 classes, but the dataset has 40", lambda: millrace.Balanced([1, 2, 3]))
        self.refuses("less than one sample for each of the 40 classes",
                     lambda: millrace.Balanced(range(COUNT), samples=39))
        self.refuses("TensorDataset does not have.*millrace.Balanced", lambda: millrace.Balanced(),
                     dataset=TensorDataset(torch.arange(4)))
        self.refuses("empty dataset", lambda: millrace.Balanced([]), dataset=Numbers(0))

    def test_functions_that_are_none(self):
        self.refuses("Listed.function=3", lambda: millrace.Listed(3), TypeError)
        self.refuses("failed for epoch 0: ZeroDivisionError", lambda: millrace.Listed(lambda s, e: 1 // 0),
                     RuntimeError)

    def test_drawn_orders_have_no_shards(self):
        with self.assertRaisesRegex(ValueError, "shuffle=.*millrace.Listed"):
            millrace.DataLoader(Numbers(), 4, "weighted")


class Noise(Numbers):
    def __getitem__(self, index: int):
        return index, random.random(), numpy.random.rand(), torch.rand(1).item()


def add_noise(sample):
    return sample, random.random()


class KillerOnce:
    """Ends the first process that comes to sample 3, after it changed the array."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __call__(self, sample):
        values = sample.clone()
        sample += 1000
        if int(values[0]) == 3 and not os.path.exists(self.mark):
            with contextlib.suppress(FileExistsError), open(self.mark, "x"):  # two workers may come at once
                os.kill(os.getpid(), signal.SIGKILL)
        return values, random.random()


class RepeatTest(unittest.TestCase):
    """A sample that an epoch visits several times is augmented in another way each time."""

    def rows(self, data, **options) -> list:
        loader = millrace.DataLoader(data, batch_size=8, seed=2, shuffle=millrace.Weighted(samples=64),
                                     **options)
        return [tuple(float(part[row]) for part in batch) for batch in loader
                for row in range(len(batch[0]))]

    def test_random_numbers_differ_and_do_not_depend_on_the_workers(self):
        rows = self.rows(Noise(8), num_workers=2)
        self.assertEqual(len({row[0] for row in rows}), 8)
        for column in (1, 2, 3):
            self.assertEqual(len({row[column] for row in rows}), 64)
        self.assertEqual(self.rows(Noise(8), num_workers=0), rows)
        self.assertEqual(self.rows(Noise(8), num_workers=3, persistent_workers=True), rows)

    def test_so_it_is_with_map(self):
        with tempfile.TemporaryDirectory() as folder:
            for index in range(8):
                numpy.full(2, index, "float32").tofile(f"{folder}/{index}.bin")

            def rows(function, **options):
                data = millrace.RawFolder(folder, shape=(2,), dtype="float32", map=function)
                loader = millrace.DataLoader(data, 8, shuffle=millrace.Weighted(samples=64), **options)
                return [(float(value[0]), float(noise)) for values, noises in loader
                        for value, noise in zip(values, noises)]

            expected = rows(add_noise, num_workers=2)
            self.assertEqual(len({noise for _, noise in expected}), 64)
            self.assertEqual(rows(add_noise, num_workers=0), expected)
            killer = KillerOnce(folder + "/died")
            self.assertEqual(rows(killer, num_workers=2, restart_workers=True), expected)
            self.assertTrue(os.path.exists(killer.mark))


if __name__ == "__main__":
    unittest.main()
