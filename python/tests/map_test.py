#!/usr/bin/env python3
"""map=: a Python function of every sample that C++ reads, in worker processes or threads."""

import gc
import io
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import unittest
from pathlib import Path
from unittest import mock

import numpy
import torch
from PIL import Image as Pillow

import millrace
from millrace.loader import _map

WORKERS = ({"num_workers": 0}, {"num_workers": 2, "worker": "thread"}, {"num_workers": 2})
COUNT = 22


def double(sample):
    """Doubles the array of a sample with a label."""
    array, label = sample
    return array * 2, label


def noise(sample):
    return sample[1], random.random(), numpy.random.rand(), torch.rand(2)


def in_place(sample):
    array, label = sample
    array += 1
    return array, label


class Killer:
    """Ends the process at sample 7; with `once`, only the first time. Changes the array before."""

    def __init__(self, directory, once=True):
        self.mark = os.path.join(directory, "died")
        self.once = once

    def __call__(self, sample):
        array, label = sample
        number = int(array.flatten()[0])
        array += 1000
        if number == 7 and not (self.once and os.path.exists(self.mark)):
            with open(self.mark, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return array, label


class BadOnes:
    def __init__(self, numbers):
        self.numbers = numbers

    def __call__(self, sample):
        number = int(sample[0].flatten()[0])
        if number in self.numbers:
            raise OSError(f"no luck with {number}")
        return sample


def run_script(text, *arguments):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def plain(batches):
    return [[part.tolist() for part in batch] for batch in batches]


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def arrays(self, **options):
        """Sample i is full of i; its class is i // 11."""
        root = self.folder / "arrays"
        if not root.exists():
            for index in range(COUNT):
                path = root / "ab"[index // 11] / f"{index:02}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                numpy.save(path, numpy.full((3, 4), index, numpy.float32))
        return millrace.ArrayFolder(root, **options)

    def images(self, **options):
        root = self.folder / "images"
        pixels = numpy.random.default_rng(1).integers(0, 256, (10, 20, 30, 3), numpy.uint8)
        for index in range(10):
            path = root / "ab"[index // 5] / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Pillow.fromarray(pixels[index]).save(path)
        return millrace.ImageFolder(root, size=16, **options)

    def raw(self, **options):
        root = self.folder / "raw"
        root.mkdir()
        for index in range(9):
            (root / f"{index}.raw").write_bytes(bytes([index]) * 6)
        return millrace.RawFolder(root, shape=(2, 3), **options)

    def tar(self, **options):
        path = self.folder / "train.tar"
        with tarfile.open(path, "w") as tar:
            for index in range(9):
                picture = io.BytesIO()
                Pillow.new("RGB", (8, 8), (index, 2 * index, 3 * index)).save(picture, "png")
                for name, text in (("png", picture.getvalue()), ("cls", str(index % 3).encode())):
                    member = tarfile.TarInfo(f"{index:03}.{name}")
                    member.size = len(text)
                    tar.addfile(member, io.BytesIO(text))
        return millrace.Files([path], fields={"png": millrace.Image(8, transform="none"), "cls": "int64"},
                              **options)

    def loader(self, data, **options):
        return millrace.DataLoader(data, **{"batch_size": 4, "num_workers": 2, **options})


class ValueTest(FolderTest):
    def check(self, data, **options):
        """Each row equals `data[i]`, whose random crops are those of epoch 0."""
        loader = self.loader(data, **options)
        seen = []
        for batch in loader:
            parts = batch if isinstance(batch, list) else [batch]
            for row, sample in enumerate(loader.batch.samples):
                expected = data[sample]
                expected = expected if isinstance(expected, tuple) else (expected,)
                for part, value in zip(parts, expected, strict=True):
                    self.assertEqual(torch.as_tensor(part[row]).tolist(), torch.as_tensor(value).tolist())
            seen += loader.batch.samples
        self.assertEqual(sorted(seen), list(range(len(data))))

    def test_rows_are_what_the_function_returns_for_each_sample(self):
        for data in (self.arrays(map=double), self.images(map=double), self.images(map=double, dtype="float32"),
                     self.raw(map=lambda array: array + 1), self.tar(map=double)):
            for options in WORKERS:
                with self.subTest(data=data, options=options):
                    self.check(data, shuffle=True, **options)

    def test_subsets_keep_the_function(self):
        data = self.arrays(map=double)
        self.check(data.subset([20, 3, 7, 7, 1]))
        part, _ = torch.utils.data.random_split(data, [9, COUNT - 9])
        loader = self.loader(part)
        self.assertEqual([float(row[0, 0]) for array, _ in loader for row in array],
                         [2.0 * index for index in part.indices])

    def test_numpy_and_array_outputs(self):
        kinds = []

        def note(sample):
            kinds.append(type(sample[0]))
            return sample[1]

        for output, kind in (("numpy", numpy.ndarray), ("torch", torch.Tensor)):
            data = self.arrays(map=lambda sample: (sample[0].sum(), type(sample[0]).__name__))
            for options in WORKERS:
                _, names = next(iter(self.loader(data, output=output, **options)))
                self.assertEqual(names, [kind.__name__] * 4)
        list(self.loader(self.arrays(map=note), output="array", num_workers=0))
        self.assertEqual({kind.__name__ for kind in kinds}, {"Array"})

    def test_bfloat16_reaches_the_worker(self):
        data = self.images(map=lambda sample: (str(sample[0].dtype), sample[0].float().mean()),
                           dtype="bfloat16", transform="resize")
        names, means = next(iter(self.loader(data)))
        self.assertEqual(names, ["torch.bfloat16"] * 4)
        self.assertEqual(means.tolist(), [float(data[index][1]) for index in range(4)])
        with self.assertRaisesRegex(ValueError, "numpy has no bfloat16"):
            self.loader(data, output="numpy")

    def test_the_function_runs_in_a_worker_and_may_return_anything(self):
        data = self.arrays(map=lambda sample: {"pid": os.getpid(), "name": f"n{sample[1]}"})
        batch = next(iter(self.loader(data)))
        self.assertNotIn(os.getpid(), batch["pid"].tolist())
        self.assertEqual(batch["name"], ["n0"] * 4)

    def test_the_function_may_change_its_arrays_in_place(self):
        for options in WORKERS:
            loader = self.loader(self.arrays(map=in_place), **options)
            for _ in range(2):
                found = [float(row[2, 3]) for array, _ in loader for row in array]
                self.assertEqual(found, [index + 1.0 for index in range(COUNT)])

    def test_collate_fn_gets_the_results(self):
        def together(items):
            return torch.cat([array.flatten()[:label + 1] for array, label in items]), len(items)

        for options in WORKERS:
            values, counts = zip(*self.loader(self.arrays(map=double), collate_fn=together, **options))
            self.assertEqual(torch.cat(values).tolist(), [2.0 * index for index in range(COUNT)
                                                          for _ in range(1 + index // 11)])
            self.assertEqual(counts, (4, 4, 4, 4, 4, 2))

    def test_transform_of_the_loader_is_called_with_the_batch_by_the_training(self):
        def whole(batch):
            return batch[1].sum().item(), os.getpid()

        for data in (self.arrays(map=double), self.arrays(), list(self.arrays())):
            for total, pid in self.loader(data, transform=whole):
                self.assertEqual(pid, os.getpid())
                self.assertLessEqual(total, 4)

    def test_spawn_and_forkserver_give_the_same_batches(self):
        expected = plain(self.loader(self.arrays(map=double), shuffle=True))
        for method in ("fork", "spawn", "forkserver"):
            self.assertEqual(plain(self.loader(self.arrays(map=double), shuffle=True,
                                               multiprocessing_context=method)), expected)

    def test_a_function_as_transform_is_followed_by_map(self):
        data = self.images(transform=lambda picture: numpy.asarray(picture)[0, 0],
                           map=lambda sample: int(sample[0].sum()))
        self.assertEqual(next(iter(self.loader(data))).tolist(), [data[i] for i in range(4)])

    def test_what_is_refused(self):
        with self.assertRaisesRegex(TypeError, "map=3 is not a function"):
            self.arrays(map=3)
        with self.assertRaisesRegex(ValueError, "output='dict' .*Return a dict"):
            self.loader(self.arrays(map=double), output="dict")
        with self.assertRaisesRegex(ValueError, "output='array': .*worker='thread'"):
            self.loader(self.arrays(map=double), output="array", worker="process")
        with self.assertRaisesRegex(TypeError, "the function of map= cannot be sent .*top of a module"):
            list(self.loader(self.arrays(map=lambda sample: sample), multiprocessing_context="spawn"))


class OrderTest(FolderTest):
    def test_random_numbers_depend_on_seed_epoch_and_sample_only(self):
        def make(count, **options):
            return self.loader(self.arrays(map=noise), shuffle=True, seed=3, num_workers=count, **options)

        loader = make(1)
        first, second = plain(loader), plain(loader)
        self.assertEqual(len({row for batch in first + second for row in batch[1]}), 2 * COUNT)
        for count in (2, 3):
            self.assertEqual(plain(make(count)), first)

    def test_a_state_resumes_after_the_batches_that_were_returned(self):
        for options in WORKERS:
            kind = noise if options == {"num_workers": 2} else double
            make = lambda: self.loader(self.images(map=kind), batch_size=1, shuffle=True, **options)
            loader = make()
            plain(loader)
            batches = iter(loader)
            head = plain([next(batches) for _ in range(3)])
            state = loader.state_dict()
            self.assertEqual((state["epoch"], state["done"]), (1, 3))
            rest = plain(batches)
            self.assertEqual(len(rest), 7)
            for count in (1, 3):
                options = dict(options, num_workers=count if options["num_workers"] else 0)
                resumed = make()
                resumed.load_state_dict(state)
                self.assertEqual(plain(resumed), rest)
            expected = make()
            expected.set_epoch(1)
            self.assertEqual(plain(expected), head + rest)

    def test_a_state_that_does_not_fit_is_refused_and_the_pass_goes_on(self):
        loader = self.loader(self.arrays(map=double))
        batches = iter(loader)
        next(batches)
        with self.assertRaises(ValueError):
            loader.load_state_dict(dict(loader.state_dict(), seed=9))
        self.assertEqual(float(next(batches)[0][0, 0, 0]), 8.0)

    def test_the_next_pass_after_a_break_is_the_next_epoch(self):
        loader = self.loader(self.arrays(map=double), shuffle=True)
        for epoch in range(5):
            next(iter(loader))
            self.assertEqual((loader.batch.epoch, loader.batch.index), (epoch, 0))
        fresh = self.loader(self.arrays(map=double), shuffle=True)
        fresh.set_epoch(5)
        self.assertEqual(plain(loader), plain(fresh))

    def test_padding_is_marked(self):
        for options in WORKERS:
            for rank in range(2):
                loader = self.loader(self.arrays(map=double), world=millrace.World(rank, 2), **options)
                samples, real = [], []
                for array, _ in loader:
                    self.assertEqual((array[:, 0, 0] / 2).tolist(), loader.batch.samples)
                    samples += loader.batch.samples
                    real += loader.batch.is_real
                self.assertEqual(len(samples), 12)
                self.assertEqual([s for s, r in zip(samples, real) if r], list(range(rank, COUNT, 2)))

    def test_orders_tiers_and_storage_are_those_without_a_function(self):
        for options in ({"shuffle": "local"}, {"shuffle": "file"}, {"tail": "drop"},
                        {"shuffle": True, "cache": millrace.Cache(memory="1MiB")},
                        {"shuffle": millrace.Partial(fraction=0.5)},
                        {"shuffle": millrace.Partial(fraction=0.5, dir=self.folder / "shard")}):
            with self.subTest(options=options):
                other = dict(options)
                if getattr(options.get("shuffle"), "dir", None):
                    other["shuffle"] = millrace.Partial(fraction=0.5)
                mapped, native = self.loader(self.arrays(map=double), **options), self.loader(
                    self.arrays(), **other)
                for _ in range(3):
                    for mine, plain_batch in zip(mapped, native, strict=True):
                        self.assertEqual((mine[0] / 2).tolist(), plain_batch[0].tolist())
                        self.assertEqual(mine[1].tolist(), plain_batch[1].tolist())
                mapped.close()
        self.assertEqual(mapped.stats()["batches"], 18)

    def test_stats_have_both_stages(self):
        loader = self.loader(self.arrays(map=double), cache=millrace.Cache(memory="1MiB"))
        for _ in range(2):
            list(loader)
        stats = loader.stats()
        self.assertEqual((stats["batches"], stats["samples"], stats["workers"]), (12, 2 * COUNT, 2))
        self.assertGreater(stats["map_seconds"], 0)
        self.assertGreater(stats["cache"]["memory"]["samples"], 0)
        self.assertIn("2 workers: called the function of map= for", str(stats))


class FaultTest(FolderTest):
    def test_an_exception_names_the_sample_its_file_and_the_line(self):
        for options in WORKERS:
            with self.assertRaisesRegex(millrace.SampleError,
                                        r"(?s)sample 6 of the dataset \(\S*06\.npy\): OSError: no luck with 6"
                                        ) as caught:
                list(self.loader(self.arrays(map=BadOnes({6})), **options))
            if options == {"num_workers": 2}:
                self.assertRegex(str(caught.exception), r"(?s)Traceback of worker \d.*in __call__")
            else:
                self.assertIsInstance(caught.exception.__cause__, OSError)

    def test_bad_samples_of_both_kinds_are_skipped_and_counted(self):
        data = self.arrays(map=BadOnes({6, 12, 13, 14, 15}))
        (self.folder / "arrays" / "a" / "03.npy").write_bytes(b"damaged")
        (self.folder / "arrays" / "a" / "08.npy").write_bytes(b"damaged")
        left = [n for n in range(COUNT) if n not in (3, 6, 8, 12, 13, 14, 15)]
        for options in WORKERS:
            loader = self.loader(data, skip_bad_samples=True, **options)
            seen = []
            for array, _ in loader:
                self.assertEqual(array[:, 0, 0].tolist(), loader.batch.samples)
                self.assertEqual(loader.batch.is_real, [True] * len(array))
                seen += loader.batch.samples
            self.assertEqual(seen, left)
            self.assertEqual(loader.stats()["bad_samples"], 7)

    def test_an_unreadable_sample_is_raised_at_its_batch(self):
        data = self.arrays(map=double)
        (self.folder / "arrays" / "b" / "13.npy").write_bytes(b"damaged")
        for options in WORKERS:
            loader, seen = self.loader(data, **options), []
            with self.assertRaisesRegex(millrace.SampleError, r"13\.npy"):
                for _ in loader:
                    seen += loader.batch.samples
            self.assertEqual(seen, list(range(12)))
            self.assertEqual(loader.state_dict()["done"], 12)

    def test_the_training_may_try_a_batch_again(self):
        tries = []

        def fail_once(sample):
            sample[0].add_(100)
            tries.append(int(sample[0][0, 0]))
            if tries.count(106) == 1 and tries[-1] == 106:
                raise OSError("not now")
            return sample

        loader = self.loader(self.arrays(map=fail_once), num_workers=0)
        batches, seen = iter(loader), []
        with self.assertRaisesRegex(millrace.SampleError, "sample 6"):
            while True:
                seen += next(batches)[0][:, 0, 0].tolist()
        seen += [float(row[0, 0]) for array, _ in batches for row in array]
        self.assertEqual(seen, [100.0 + index for index in range(COUNT)])

    def test_samples_are_decoded_once(self):
        with mock.patch.object(_map.MapRun, "start_again", side_effect=AssertionError):
            for options in WORKERS:
                self.assertEqual(len(list(self.loader(self.arrays(map=double), **options))), 6)

    def test_batches_of_only_bad_samples_are_left_out(self):
        data = self.arrays(map=double)
        for name in ("04", "05", "06", "07"):
            (self.folder / "arrays" / "a" / f"{name}.npy").write_bytes(b"damaged")
        for options in WORKERS:
            loader = self.loader(data, skip_bad_samples=True, **options)
            self.assertEqual([float(row[0, 0]) / 2 for array, _ in loader for row in array],
                             [n for n in range(COUNT) if n not in (4, 5, 6, 7)])

    def test_a_killed_worker_is_named_with_its_sample(self):
        with self.assertRaisesRegex(RuntimeError, r"was killed by SIGKILL while it fetched sample 7 of the "
                                                  r"dataset \(\S*07\.npy\).*restart_workers"):
            list(self.loader(self.arrays(map=Killer(self.folder))))

    def test_another_worker_gets_the_batch_as_it_was_read(self):
        loader = self.loader(self.arrays(map=Killer(self.folder)), restart_workers=True)
        self.assertEqual([float(row[1, 1]) for array, _ in loader for row in array],
                         [1000.0 + index for index in range(COUNT)])
        with self.assertRaisesRegex(RuntimeError, "sample 7 .*earlier worker ended at the same sample"):
            list(self.loader(self.arrays(map=Killer(self.folder, once=False)), restart_workers=True))

    def test_idle_workers_that_are_killed_are_replaced(self):
        loader = self.loader(self.arrays(map=double), batch_size=1, restart_workers=True)
        for _ in range(5):
            seen = []
            for step, _ in enumerate(loader):
                seen += loader.batch.samples
                if step % 7 == 3:
                    workers = loader._loader._workers[0]._workers
                    os.kill(workers[step % 2].process.pid, signal.SIGKILL)
            self.assertEqual(seen, list(range(COUNT)))

    def test_a_function_that_hangs_is_named(self):
        def stuck(sample):
            time.sleep(120 if int(sample[0][0, 0]) == 2 else 0)
            return sample

        for options in WORKERS[1:]:
            with self.assertRaisesRegex(TimeoutError, r"sample 2 of the dataset \(\S*02\.npy\) was not ready.*"
                                                      "the function of map="):
                list(self.loader(self.arrays(map=stuck), timeout=8, **options))

    def test_nothing_is_left_after_the_training_is_killed_or_interrupted(self):
        self.arrays()
        text = """
            import sys, time, millrace
            def slow(sample):
                time.sleep(0.05)
                return sample
            data = millrace.ArrayFolder(sys.argv[1], map=slow)
            loader = millrace.DataLoader(data, batch_size=1, num_workers=3)
            while True:
                for batch in loader:
                    print(*[worker.process.pid for worker in loader._loader._workers[0]._workers], flush=True)
            """
        for ending in (signal.SIGKILL, signal.SIGINT):
            script = run_script(text, self.folder / "arrays")
            pids = [int(word) for word in script.stdout.readline().split()]
            self.assertEqual(len(pids), 3)
            script.send_signal(ending)
            _, err = script.communicate(timeout=60)
            if ending == signal.SIGINT:
                self.assertEqual(err.count("KeyboardInterrupt"), 1, err)
            deadline = time.monotonic() + 30
            while any(map(is_alive, pids)) and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertEqual([pid for pid in pids if is_alive(pid)], [])
            # Memory without a name is gone with the processes; other programs, and folders of other tests, are
            # in /dev/shm, too.
            self.assertEqual([name for name in os.listdir("/dev/shm")
                              if "millrace" in name and os.path.isfile(f"/dev/shm/{name}")], [])

    def test_a_loader_can_be_dropped_in_the_middle_of_an_epoch(self):
        for options in WORKERS:
            loader = self.loader(self.arrays(map=double), **options)
            batches = iter(loader)
            array, _ = next(batches)
            workers = loader._loader._workers
            pids = [w.process.pid for w in workers[0]._workers] if options == {"num_workers": 2} else []
            del loader, batches, workers
            gc.collect()
            self.assertEqual([pid for pid in pids if is_alive(pid)], [])
            self.assertEqual(float(array[3, 0, 0]), 6.0)


class MemoryTest(FolderTest):
    def test_memory_is_used_again(self):
        for options in WORKERS:
            loader = self.loader(self.arrays(map=double), batch_size=1, **options)
            for _ in range(20):
                for batch in loader:
                    del batch
            stats = loader.stats()
            # There are 440 batches. On a busy machine the loader prefetches more, and so allocates more.
            self.assertLess(stats["buffers_allocated"], 220)
            if options == {"num_workers": 2}:
                self.assertLess(len(loader._loader._workers[0]._slots), 40)
                names = [name for name in os.listdir("/proc/self/fd")
                         if "millrace-samples" in _target(f"/proc/self/fd/{name}")]
                sizes = [os.stat(f"/proc/self/fd/{name}").st_blocks * 512 for name in names]
                self.assertLess(max(sizes), 220 * 4096)

    def test_batches_that_the_program_holds_stay(self):
        for options in WORKERS:
            held = [array for array, _ in self.loader(self.arrays(map=lambda sample: sample), **options)]
            self.assertEqual(torch.cat(held)[:, 0, 0].tolist(), list(range(COUNT)))


def _target(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


class RaggedTest(unittest.TestCase):
    """Fields of varying length, with and without padding, and text."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        with tarfile.open(self.folder / "all.tar", "w") as archive:
            for i in range(COUNT):
                tokens = io.BytesIO()
                numpy.save(tokens, numpy.arange(i % 5, dtype="int64") + i)
                for name, content in (("npy", tokens.getvalue()), ("txt", ("é" * i).encode())):
                    member = tarfile.TarInfo(f"{i:03}.{name}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))

    def data(self, tokens, function):
        return millrace.Files([self.folder / "all.tar"], fields={"npy": tokens, "txt": "str"}, map=function)

    def test_the_function_gets_the_items_of_its_sample(self):
        for tokens in (millrace.Ragged(), millrace.Ragged(form="list"), millrace.Ragged(pad=-1),
                       millrace.Ragged(pad=-1, max_length=7)):
            for workers in WORKERS:
                with self.subTest(tokens=tokens, **workers):
                    data = self.data(tokens, sum_and_text)
                    got = [(int(number), text) for numbers, texts in
                           millrace.DataLoader(data, batch_size=4, **workers)
                           for number, text in zip(numbers, texts)]
                    expected = [(sum(range(i, i + i % 5)), "é" * i) for i in range(COUNT)]
                    self.assertEqual(got, expected)
                    self.assertEqual([data[i] for i in range(COUNT)], expected)

    def test_a_batch_of_nothing_but_empty_fields(self):
        subset = self.data(millrace.Ragged(), sum_and_text).subset([0])
        for workers in WORKERS:
            with self.subTest(**workers):
                (numbers, texts), = millrace.DataLoader(subset, **workers)
                self.assertEqual((numbers.tolist(), list(texts)), ([0], [""]))

    def test_a_worker_that_replaces_another_gets_the_same_items(self):
        for tokens in (millrace.Ragged(), millrace.Ragged(pad=-1)):
            with self.subTest(tokens=tokens), tempfile.TemporaryDirectory() as mark:
                data = self.data(tokens, RaggedKiller(os.path.join(mark, "died")))
                loader = millrace.DataLoader(data, batch_size=4, num_workers=2, restart_workers=True)
                got = [int(number) for numbers in loader for number in numbers]
                self.assertEqual(got, [sum(range(i, i + i % 5)) for i in range(COUNT)])


def sum_and_text(sample):
    tokens, text = sample
    return int(tokens.sum()), text


class RaggedKiller:
    """Ends the first process that comes to the sample of 13 letters, after it changed the items."""

    def __init__(self, mark):
        self.mark = mark

    def __call__(self, sample):
        tokens, text = sample
        total = int(tokens.sum())
        tokens += 1000
        if len(text) == 13 and not os.path.exists(self.mark):
            with open(self.mark, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return total


if __name__ == "__main__":
    unittest.main()
