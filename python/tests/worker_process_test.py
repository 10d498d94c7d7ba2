#!/usr/bin/env python3
"""Worker processes of a Python dataset: batches in shared memory, randomness, and how workers end."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
import unittest

import numpy
import torch

import millrace
from millrace.loader._processes import Releases


class Images:
    """Sample i is an image with i in every pixel, and i."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple:
        return torch.full((3, 32, 32), float(index)), index


class Noise(Images):
    def __getitem__(self, index: int) -> tuple:
        return index, random.random(), numpy.random.rand(), torch.rand(2)


class Deadly(Images):
    """The first worker that fetches sample 17 ends by a signal."""

    def __init__(self, count: int, directory: str, once: bool = True) -> None:
        super().__init__(count)
        self.mark = os.path.join(directory, "died")
        self.once = once

    def __getitem__(self, index: int) -> tuple:
        if index == 17 and not (self.once and os.path.exists(self.mark)):
            with open(self.mark, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def loader_of(dataset, **options) -> millrace.DataLoader:
    return millrace.DataLoader(dataset, **{"batch_size": 4, "num_workers": 2, **options})


def run_script(text: str, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class BatchTest(unittest.TestCase):
    def test_a_limit_on_file_sizes_is_kept_or_named(self):
        """It counts for memory files too, but only when they get longer."""
        script = """
            import resource, sys, millrace
            class Numbers:
                def __len__(self): return 8
                def __getitem__(self, i): return i
            limit = 100 * 1024
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, {hard}))
            print(sum(int(batch.sum()) for batch in millrace.DataLoader(Numbers(), batch_size=4, num_workers=1)))
            assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == limit
        """
        for hard, code in (("resource.RLIM_INFINITY", 0), ("limit", 1)):
            process = run_script(script.format(hard=hard))
            out, errors = process.communicate(timeout=600)
            self.assertEqual(process.returncode, code, errors)
            if code == 0:
                self.assertEqual(out, "28\n")
            else:
                self.assertIn("files are limited to 102400 bytes", errors)
                self.assertIn("ulimit -f", errors)

    def test_batches_equal_those_of_torch(self):
        ours = loader_of(Images(10))
        theirs = torch.utils.data.DataLoader(Images(10), batch_size=4)
        for mine, other in zip(ours, theirs, strict=True):
            for left, right in zip(mine, other, strict=True):
                self.assertEqual(left.dtype, right.dtype)
                self.assertTrue(torch.equal(left, right))

    def test_a_batch_that_the_program_holds_is_not_overwritten(self):
        held = [image for image, _ in loader_of(Images(200), persistent_workers=True)]
        for batch, images in enumerate(held):
            self.assertEqual(images[:, 0, 0, 0].tolist(), [4.0 * batch + row for row in range(4)])

    def test_memory_of_released_batches_is_used_again(self):
        loader = loader_of(Images(2000), persistent_workers=True)
        batch_bytes = 0
        for images, _ in loader:
            batch_bytes = images.numel() * 4
            del images, _
        processes = loader._loader._workers[0]
        batches = os.fstat(processes._file).st_blocks * 512 / batch_bytes
        # Batches in progress and ready; and of each worker, three free slots.
        self.assertLess(batches, 2 * (processes.prefetch + 3 * processes.count + 2))

    def test_a_slot_that_a_gpu_reads_is_not_given_back(self):
        class Fence:
            def __init__(self):
                self.over, self.waited = False, False

            def is_over(self):
                return self.over

            def wait(self):
                self.waited = True

        fences, released = [], []

        def new_fence():
            fences.append(Fence())
            return fences[-1]

        releases = Releases(released.append, new_fence)
        arrays = {slot: numpy.zeros(4) for slot in (3, 4, 5)}
        for slot, array in arrays.items():
            releases.watch(array, slot)
        del array
        row = arrays[3][:2]
        del arrays[3], arrays[4]
        releases.settle(2)
        self.assertEqual(len(fences), 1)  # a row of the other batch is in use
        del row
        releases.settle(2)
        self.assertEqual(released, [])
        fences[0].over = True
        releases.settle(2)
        self.assertEqual(released, [4])
        del arrays[5]
        releases.settle(1)  # waits for the oldest: too many slots would be in use
        self.assertEqual((released, fences[1].waited, fences[2].waited), ([4, 3], True, False))

    def test_persistent_workers_go_on_with_the_next_epoch(self):
        def epochs_of(loader, count):
            return [[int(label) for _, labels in loader for label in labels] for _ in range(count)]

        options = {"shuffle": True, "seed": 5}
        expected = epochs_of(loader_of(Images(40), **options), 3)
        loader = loader_of(Images(40), persistent_workers=True, epochs=3, **options)
        self.assertEqual(epochs_of(loader, 1), expected[:1])
        processes = loader._loader._workers[0]
        self.assertGreater(processes._next_run.taken, 0)
        self.assertEqual(epochs_of(loader, 2), expected[1:])
        self.assertIsNone(processes._next_run)  # there is no fourth
        loader.set_epoch(1)
        self.assertEqual(epochs_of(loader, 1), expected[1:2])
        state = loader.state_dict()
        loader.set_epoch(0)  # not the epoch that was begun
        self.assertEqual(epochs_of(loader, 1), expected[:1])
        loader.load_state_dict(state)
        self.assertEqual(epochs_of(loader, 1), expected[2:])

    def test_a_row_of_a_batch_keeps_its_memory(self):
        rows = [images[2] for images, _ in loader_of(Images(80))]
        self.assertEqual([int(row[0, 0, 0]) for row in rows], list(range(2, 80, 4)))

    def test_batches_grow_when_samples_do(self):
        class Growing(Images):
            def __getitem__(self, index):
                return torch.ones(1 + index // 4 * 1000)

        sizes = [batch.numel() for batch in loader_of(Growing(40))]
        self.assertEqual(sizes, [4 * (1 + 1000 * batch) for batch in range(10)])

    def test_what_is_no_array_is_pickled(self):
        class Mixed(Images):
            def __getitem__(self, index):
                return {"name": f"n{index}", "none": None, "big": torch.ones(2, dtype=torch.bfloat16)}

        batch = next(iter(loader_of(Mixed(4))))
        self.assertEqual(batch["name"], ["n0", "n1", "n2", "n3"])
        self.assertEqual(batch["none"], [None] * 4)
        self.assertEqual((batch["big"].dtype, batch["big"].shape), (torch.bfloat16, (4, 2)))

    def test_collate_fn_runs_in_the_worker(self):
        batch = next(iter(loader_of(Images(4), collate_fn=lambda items: (os.getpid(), items))))
        self.assertNotEqual(batch[0], os.getpid())
        self.assertEqual([index for _, index in batch[1]], [0, 1, 2, 3])

    def test_spawn_and_forkserver_give_the_same_batches(self):
        expected = [index.tolist() for _, index in loader_of(Images(9), shuffle=True)]
        for method in ("spawn", "forkserver"):
            found = [index.tolist() for _, index in
                     loader_of(Images(9), shuffle=True, multiprocessing_context=method)]
            self.assertEqual(found, expected)

    def test_workers_know_who_they_are(self):
        class Asking(Images):
            def __getitem__(self, index):
                info = torch.utils.data.get_worker_info()
                return info.id, info.num_workers, info.dataset is self, MARK[0]

        ids, counts, same, marks = next(iter(loader_of(Asking(8), batch_size=8, worker_init_fn=mark)))
        self.assertLess(max(ids.tolist()), 2)
        self.assertEqual(counts.tolist(), [2] * 8)
        self.assertTrue(all(same))
        self.assertEqual(marks.tolist(), [id + 100 for id in ids.tolist()])

    def test_without_persistent_workers_each_epoch_sees_the_dataset_as_it_is(self):
        data = Images(4)
        loader = loader_of(data)
        list(loader)
        data.__class__ = Noise
        self.assertEqual(len(next(iter(loader))), 4)


MARK = [0]


def mark(number: int) -> None:
    MARK[0] = 100 + number


class RandomnessTest(unittest.TestCase):
    def test_samples_do_not_depend_on_the_number_of_workers_or_on_a_resume(self):
        def make(count):
            return loader_of(Noise(24), shuffle=True, seed=3, num_workers=count)

        def values(batches):
            return [[part.tolist() for part in batch] for batch in batches]

        loader = make(1)
        first, second = values(loader), values(loader)
        self.assertNotEqual(first, second)
        self.assertEqual(values(make(0)), first)  # in this process
        other = make(3)
        self.assertEqual(values(other), first)
        batches = iter(other)
        head = [next(batches) for _ in range(2)]
        resumed = make(2)
        resumed.load_state_dict(other.state_dict())
        self.assertEqual(values(head) + values(resumed), second)

    def test_epochs_samples_and_seeds_differ(self):
        loader = loader_of(Noise(64), batch_size=64)
        epochs = [next(iter(loader))[1].tolist() for _ in range(2)]
        epochs.append(next(iter(loader_of(Noise(64), batch_size=64, seed=1)))[1].tolist())
        self.assertEqual(len(set(sum(epochs, []))), 3 * 64)

    def test_the_generators_of_the_training_are_left_alone(self):
        for workers in (0, 2):
            with self.subTest(workers=workers):
                drawn = []
                for is_loading in (False, True):
                    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
                    if is_loading:
                        list(loader_of(Noise(8), num_workers=workers))
                    drawn.append((random.random(), numpy.random.rand(), torch.rand(1).item()))
                self.assertEqual(drawn[0], drawn[1])


class FaultTest(unittest.TestCase):
    def setUp(self):
        import tempfile
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_a_killed_worker_is_named_with_its_sample(self):
        with self.assertRaisesRegex(RuntimeError, r"worker \d \(process \d+\) was killed by SIGKILL while "
                                                  "it fetched sample 17 .*restart_workers"):
            list(loader_of(Deadly(40, self.folder)))

    def test_another_worker_can_take_its_place(self):
        loader = loader_of(Deadly(40, self.folder), restart_workers=True)
        self.assertEqual(sum((index.tolist() for _, index in loader), []), list(range(40)))

    def test_a_sample_that_kills_every_worker_is_named(self):
        loader = loader_of(Deadly(40, self.folder, once=False), restart_workers=True)
        with self.assertRaisesRegex(RuntimeError, "sample 17 .*earlier worker ended at the same sample"):
            list(loader)

    def test_idle_workers_that_are_killed_are_replaced(self):
        loader = loader_of(Images(400), restart_workers=True)
        seen = []
        for step, (_, index) in enumerate(loader):
            seen += index.tolist()
            if step % 7 == 3:
                workers = loader._loader._workers[0]._workers
                os.kill(workers[step % 2].process.pid, signal.SIGKILL)
        self.assertEqual(seen, list(range(400)))

    def test_a_worker_that_replaces_another_leaves_its_batches_alone(self):
        loader = loader_of(Images(120), restart_workers=True)
        held = []
        for step, (images, _) in enumerate(loader):
            held.append(images)
            if step % 7 == 3:
                workers = loader._loader._workers[0]._workers
                os.kill(workers[step % 2].process.pid, signal.SIGKILL)
        for batch, images in enumerate(held):
            self.assertEqual(images[:, 0, 0, 0].tolist(), [4.0 * batch + row for row in range(4)])

    def test_the_traceback_of_the_worker_is_shown(self):
        class Broken(Images):
            def __getitem__(self, index):
                return self.helper(index)

            def helper(self, index):
                raise OSError(f"no bytes for {index}")

        with self.assertRaisesRegex(millrace.SampleError, r"(?s)sample 0 of the dataset: OSError: no bytes "
                                                          r"for 0.*Traceback of worker.*in helper"):
            list(loader_of(Broken(4)))

    def test_samples_of_different_shapes_are_named(self):
        class Ragged(Images):
            def __getitem__(self, index):
                return torch.ones(2 + index % 3)

        with self.assertRaisesRegex(millrace.SampleError, r"sample 1 .*its shape is \[3\].*\[2\]"):
            list(loader_of(Ragged(4)))

    def test_a_dataset_that_shrank_says_so(self):
        class Shrinking(Images):
            def __getitem__(self, index):
                self.count = 3
                if index >= self.count:
                    raise IndexError(index)
                return super().__getitem__(index)

        with self.assertRaisesRegex(millrace.SampleError, "sample 3 .*had 8 samples .* has 3 now"):
            list(loader_of(Shrinking(8)))

    def test_a_dataset_that_cannot_be_pickled_says_what_to_do(self):
        class Local(Images):
            pass

        with self.assertRaisesRegex(TypeError, "cannot be sent to a worker process.*top of a module.*fork"):
            list(loader_of(Local(4), multiprocessing_context="spawn"))

    def test_a_dataset_may_start_programs(self):
        class Echoing(Images):
            def __getitem__(self, index):
                return int(subprocess.run(["echo", str(index)], stdout=subprocess.PIPE, check=True).stdout)

        numbers = torch.cat(list(loader_of(Echoing(8))))
        self.assertEqual(numbers.tolist(), list(range(8)))

    def test_a_child_that_the_dataset_forgot_makes_no_batches(self):
        class Forking(Images):
            def __getitem__(self, index):
                if index % 4 == 1:
                    os.fork()
                return index

        numbers = torch.cat(list(loader_of(Forking(40))))
        self.assertEqual(numbers.tolist(), list(range(40)))

    def test_a_dataset_that_starts_processes_says_what_to_do(self):
        class Parallel(Images):
            def __getitem__(self, index):
                process = multiprocessing.get_context("fork").Process(target=print)
                process.start()
                process.join()
                return index

        with self.assertRaisesRegex(millrace.SampleError, "sample 0 .*worker='thread'"):
            list(loader_of(Parallel(8)))

    def test_a_sample_that_hangs_is_named(self):
        class Stuck(Images):
            def __getitem__(self, index):
                time.sleep(60 if index == 2 else 0)
                return super().__getitem__(index)

        with self.assertRaisesRegex(TimeoutError, "sample 2 of the dataset"):
            list(loader_of(Stuck(8), timeout=2))

    def test_a_worker_init_fn_that_fails_ends_the_epoch(self):
        def fail(number):
            os._exit(3)

        with self.assertRaisesRegex(RuntimeError, "exited with code 3 before its first batch"):
            list(loader_of(Images(8), worker_init_fn=fail, restart_workers=True))

    def test_what_the_dataset_prints_is_seen(self):
        script = run_script("""
            import millrace
            class Loud:
                def __len__(self): return 8
                def __getitem__(self, index):
                    print("fetching", index)
                    return index
            print("before")
            list(millrace.DataLoader(Loud(), batch_size=4, num_workers=1))
            """)
        out, err = script.communicate(timeout=120)
        self.assertEqual(err, "")
        self.assertEqual(sorted(out.split("\n")[1:-1]), [f"fetching {index}" for index in range(8)])
        self.assertEqual(out.count("before"), 1)

    def test_nothing_is_left_after_the_training_is_killed_or_interrupted(self):
        text = """
            import sys, time, millrace
            class Slow:
                def __len__(self): return 1000
                def __getitem__(self, index):
                    time.sleep(0.05)
                    return index
            loader = millrace.DataLoader(Slow(), batch_size=2, num_workers=3)
            for batch in loader:
                print(*[worker.process.pid for worker in loader._loader._workers[0]._workers], flush=True)
            """
        for ending in (signal.SIGKILL, signal.SIGINT):
            script = run_script(text)
            pids = [int(word) for word in script.stdout.readline().split()]
            self.assertEqual(len(pids), 3)
            script.send_signal(ending)
            _, err = script.communicate(timeout=60)
            if ending == signal.SIGINT:
                self.assertEqual(err.count("KeyboardInterrupt"), 1)
            deadline = time.monotonic() + 30
            while any(map(is_alive, pids)) and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertEqual([pid for pid in pids if is_alive(pid)], [])

    def test_a_loader_can_be_dropped_in_the_middle_of_an_epoch(self):
        loader = loader_of(Images(100))
        batches = iter(loader)
        images, _ = next(batches)
        pids = [worker.process.pid for worker in loader._loader._workers[0]._workers]
        del loader, batches
        gc.collect()
        self.assertEqual([pid for pid in pids if is_alive(pid)], [])
        self.assertEqual(float(images[3, 0, 0, 0]), 3.0)


if __name__ == "__main__":
    unittest.main()
