#!/usr/bin/env python3
"""The C++ loader from Python: files, zero-copy tensors, orders, states, errors."""

import errno
import gc
import io
import os
import tarfile
import tempfile
import threading
import time
import unittest
import warnings
from collections import Counter
from pathlib import Path

import numpy
import torch
from PIL import Image as Pillow

import millrace

SHAPE = (4, 6)


class FolderTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def make_raw(self, count: int, name: str = "raw") -> Path:
        """Sample i is an int32 array filled with i."""
        root = self.folder / name
        root.mkdir()
        for index in range(count):
            numpy.full(SHAPE, index, "int32").tofile(root / f"{index:05}.bin")
        return root

    def raw(self, count: int) -> millrace.RawFolder:
        return millrace.RawFolder(self.make_raw(count), shape=SHAPE, dtype="int32")

    def make_images(self, per_class: int = 6, suffix: str = ".png") -> Path:
        """Images of one colour each; the red channel identifies the image."""
        root = self.folder / "images"
        for label, name in enumerate(("cat", "dog", "eel")):
            (root / name).mkdir(parents=True)
            for index in range(per_class):
                colour = (40 * label + 5 * index, 100, 200)
                Pillow.new("RGB", (40, 30), colour).save(root / name / f"{index}{suffix}")
        return root


def visited(loader) -> list:
    return [value for batch in loader for value in batch[:, 0, 0].tolist()]


class ZeroCopyTest(FolderTest):
    def test_tensors_share_the_memory_of_the_batch(self):
        loader = millrace.DataLoader(self.raw(10), batch_size=4)
        for batch in loader:
            self.assertIsInstance(batch, torch.Tensor)
            self.assertEqual(batch.data_ptr(), loader.batch.fields()["data"].address)
            self.assertEqual(batch.data_ptr() % 4096, 0)

    def test_numpy_arrays_share_the_memory_and_are_writable(self):
        loader = millrace.DataLoader(self.raw(10), batch_size=4, output="numpy")
        batch = next(iter(loader))
        self.assertIsInstance(batch, numpy.ndarray)
        self.assertEqual(batch.ctypes.data, loader.batch.fields()["data"].address)
        batch += 1
        self.assertEqual(numpy.asarray(loader.batch.fields()["data"])[2, 0, 0], 3)

    def test_arrays_support_dlpack_and_the_buffer_protocol(self):
        loader = millrace.DataLoader(self.raw(10), batch_size=4, output="array")
        array = next(iter(loader))
        self.assertEqual((array.dtype, array.shape, len(array)), ("int32", (4, *SHAPE), 4))
        self.assertEqual(torch.from_dlpack(array).data_ptr(), array.address)
        self.assertEqual(numpy.from_dlpack(array).ctypes.data, array.address)
        self.assertEqual(memoryview(array).shape, (4, *SHAPE))
        self.assertEqual(array.tolist()[3][0][0], 3)

    def test_a_batch_stays_valid_while_it_is_held(self):
        loader = millrace.DataLoader(self.raw(64), batch_size=4, shuffle=True, prefetch=millrace.Prefetch(batches=2))
        kept = [(batch, loader.batch.samples.tolist()) for batch in loader]
        loader.close()
        del loader
        gc.collect()
        self.assertEqual(len({batch.data_ptr() for batch, _ in kept}), 16)
        for batch, samples in kept:
            self.assertEqual(batch[:, 0, 0].tolist(), samples)

    def test_released_memory_is_reused(self):
        loader = millrace.DataLoader(self.raw(256), batch_size=4, prefetch=millrace.Prefetch(batches=2), num_workers=1)
        addresses = Counter(batch.data_ptr() for batch in loader)
        self.assertEqual(sum(addresses.values()), 64)
        self.assertLess(len(addresses), 16)

    def test_a_loop_over_several_epochs_allocates_only_what_it_uses_at_once(self):
        # Count allocations, not addresses: an address that appears again may be new memory, which
        # the kernel clears, at a fault per page.
        data = self.raw(256)
        for output in ("torch", "numpy", "dict"):
            loader = millrace.DataLoader(data, batch_size=4, shuffle=True, prefetch=millrace.Prefetch(batches=2),
                                         num_workers=2, output=output)
            for _ in range(5):
                for batch in loader:
                    pass
            # 2 prefetched, the one that the loop holds, the next one, and one that each thread is
            # about to release.
            self.assertLessEqual(loader.stats()["buffers_allocated"], 6, output)
            self.assertEqual(loader.stats()["batches"], 5 * 64)

    def test_held_batches_add_to_the_allocations(self):
        loader = millrace.DataLoader(self.raw(64), batch_size=4, prefetch=millrace.Prefetch(batches=2))
        kept = list(loader)
        self.assertGreaterEqual(loader.stats()["buffers_allocated"], len(kept))

    def test_an_unused_capsule_releases_its_memory(self):
        array = next(iter(millrace.DataLoader(self.raw(4), batch_size=4, output="array")))
        for _ in range(1000):
            array.__dlpack__()
        self.assertEqual(torch.utils.dlpack.from_dlpack(array.__dlpack__())[1, 0, 0], 1)


class PinnedTest(FolderTest):
    """What does not need a GPU; gpu_test.py tests the rest."""

    def test_without_a_gpu_nothing_is_pinned(self):
        if torch.cuda.is_available():
            self.skipTest("there is a GPU")
        loader = millrace.DataLoader(self.raw(4), batch_size=4, pin_memory=True)
        self.assertFalse(next(iter(loader)).is_pinned())
        with self.assertRaisesRegex(ValueError, "output='torch'"):
            millrace.DataLoader(loader.dataset, pin_memory=True, output="numpy")


class OrderTest(FolderTest):
    def test_every_epoch_visits_every_sample_once(self):
        data = self.raw(101)
        for shuffle in (False, True, "global", "local", "partial", "file"):
            with self.subTest(shuffle):
                loader = millrace.DataLoader(data, batch_size=8, shuffle=shuffle)
                for _ in range(2):
                    self.assertEqual(sorted(visited(loader)), list(range(101)))

    def test_the_order_is_the_same_as_for_python_datasets(self):
        data = self.raw(50)
        native = millrace.DataLoader(data, batch_size=8, shuffle=True, seed=3)
        python = millrace.DataLoader(list(range(50)), batch_size=8, shuffle=True, seed=3)
        for _ in range(2):
            self.assertEqual(visited(native), [i for batch in python for i in batch.tolist()])

    def test_four_ranks_divide_the_samples_like_a_distributed_sampler(self):
        data = self.raw(61)
        for tail, expected in (("uneven", 61), ("pad", 64), ("drop", 48)):
            with self.subTest(tail):
                real, rows = Counter(), 0
                for rank in range(4):
                    loader = millrace.DataLoader(data, batch_size=4, shuffle=True, tail=tail,
                                                 world=millrace.World(rank, 4))
                    for batch in loader:
                        rows += len(batch)
                        mask = loader.batch.is_real.tolist()
                        real.update(value for value, is_real in zip(batch[:, 0, 0].tolist(), mask)
                                    if is_real)
                self.assertEqual(rows, expected)
                self.assertEqual(max(real.values()), 1)
                self.assertEqual(len(real), 48 if tail == "drop" else 61)

    def test_an_empty_dataset_is_refused_and_one_sample_makes_a_batch(self):
        (self.folder / "empty").mkdir()
        with self.assertRaisesRegex(FileNotFoundError, "empty"):
            millrace.RawFolder(self.folder / "empty", shape=SHAPE)
        self.assertEqual(visited(millrace.DataLoader(self.raw(1), batch_size=4, shuffle=True)), [0])

    def test_shards_of_few_classes_cause_a_warning(self):
        data = millrace.ImageFolder(self.make_images(per_class=20), size=8)
        options = {"batch_size": 4, "world": millrace.World(0, 3)}
        with self.assertWarnsRegex(UserWarning, "class"):
            millrace.DataLoader(data, shuffle="local", **options)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            millrace.DataLoader(data, shuffle="global", **options)

    def test_the_next_pass_after_a_break_is_the_next_epoch(self):
        data = self.raw(40)
        whole = millrace.DataLoader(data, batch_size=4, shuffle=True)
        epochs = [visited(whole) for _ in range(2)]
        broken = millrace.DataLoader(data, batch_size=4, shuffle=True)
        next(iter(broken))
        self.assertEqual(visited(broken), epochs[1])

    def test_nothing_is_read_after_the_last_epoch(self):
        data = self.raw(40)
        loader = millrace.DataLoader(data, batch_size=4, shuffle=True, epochs=2)
        for _ in range(2):
            self.assertEqual(len(visited(loader)), 40)
        time.sleep(0.05)
        loader.close()
        sample_bytes = 4 * SHAPE[0] * SHAPE[1]
        self.assertEqual(loader.stats()["bytes_read"], 2 * 40 * sample_bytes)

    def test_a_state_counts_the_epochs_of_the_whole_run(self):
        data = self.raw(40)
        first = millrace.DataLoader(data, batch_size=4, shuffle=True, epochs=2)
        visited(first)
        second = millrace.DataLoader(data, batch_size=4, shuffle=True, epochs=2)
        second.load_state_dict(first.state_dict())
        self.assertEqual(len(visited(second)), 40)
        time.sleep(0.05)
        second.close()
        self.assertEqual(second.stats()["bytes_read"], 40 * 4 * SHAPE[0] * SHAPE[1])


class StateTest(FolderTest):
    def make(self, data, **options):
        return millrace.DataLoader(data, **({"batch_size": 3, "shuffle": True, "seed": 11} | options))

    def test_pixels_after_a_resume_are_the_same_bit_for_bit(self):
        data = millrace.ImageFolder(self.make_images(), size=16, dtype="float32")
        whole = self.make(data)
        expected = [images for _ in range(2) for images, _ in whole]
        loader = self.make(data)
        batches = iter(loader)
        got = [next(batches)[0] for _ in range(4)]
        resumed = self.make(data, num_workers=2)
        resumed.load_state_dict(loader.state_dict())
        self.assertEqual(len(iter(resumed)), 2)
        got += [images for _ in range(2) for images, _ in resumed]
        self.assertEqual(len(got), len(expected))
        for left, right in zip(got, expected):
            self.assertTrue(torch.equal(left, right))

    def test_another_number_of_ranks_continues_with_the_rest(self):
        for shuffle in (True, "partial"):
            with self.subTest(shuffle):
                data = millrace.RawFolder(self.make_raw(120, f"raw-{shuffle}"), shape=SHAPE,
                                          dtype="int32")
                seen, states = [], set()
                for rank in range(4):
                    loader = self.make(data, shuffle=shuffle, world=millrace.World(rank, 4),
                                       tail="uneven")
                    batches = iter(loader)
                    seen += sum((next(batches)[:, 0, 0].tolist() for _ in range(5)), [])
                    states.add(str(loader.state_dict()))
                    state = loader.state_dict()
                self.assertEqual(len(states), 1)
                for rank in range(2):
                    loader = self.make(data, shuffle=shuffle, world=millrace.World(rank, 2),
                                       batch_size=7, tail="uneven")
                    loader.load_state_dict(state)
                    seen += visited(loader)
                self.assertEqual(sorted(seen), list(range(120)))

    def test_a_state_of_another_seed_is_refused(self):
        data = self.raw(20)
        state = self.make(data).state_dict()
        with self.assertRaisesRegex(ValueError, "seed"):
            self.make(data, seed=12).load_state_dict(state)
        with self.assertRaisesRegex(RuntimeError, "version 99"):
            self.make(data).load_state_dict(state | {"version": 99})
        with self.assertRaises(ValueError):
            self.make(data).load_state_dict({"epoch": 1})

    def test_a_state_after_the_last_batch_leaves_nothing_of_the_epoch(self):
        data = self.raw(9)
        loader = self.make(data)
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        resumed = self.make(data)
        resumed.load_state_dict(loader.state_dict())
        self.assertEqual(visited(resumed), [])
        self.assertEqual(resumed.epoch, 1)


class ImageTest(FolderTest):
    def test_a_folder_is_read_as_torchvision_reads_it(self):
        import torchvision
        root = self.make_images()
        ours = millrace.ImageFolder(root, size=(30, 40), transform="none")
        theirs = torchvision.datasets.ImageFolder(str(root))
        self.assertEqual(ours.classes, theirs.classes)
        self.assertEqual(ours.class_to_idx, theirs.class_to_idx)
        self.assertEqual(ours.targets, theirs.targets)
        self.assertEqual([(Path(path), label) for path, label in ours.samples],
                         [(Path(path), label) for path, label in theirs.samples])
        loader = millrace.DataLoader(ours, batch_size=5)
        pixels = torch.cat([images for images, _ in loader])
        expected = torch.stack([torch.from_numpy(numpy.array(image)).permute(2, 0, 1)
                                for image, _ in theirs])
        self.assertTrue(torch.equal(pixels, expected))
        self.assertEqual(sum((labels.tolist() for _, labels in loader), []), theirs.targets)

    def test_normalised_floats_and_layouts(self):
        root = self.make_images()
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        plain = millrace.ImageFolder(root, size=16, transform="resize")
        images, _ = next(iter(millrace.DataLoader(plain, batch_size=18)))
        self.assertEqual((images.dtype, tuple(images.shape)), (torch.uint8, (18, 3, 16, 16)))
        data = millrace.ImageFolder(root, size=16, transform="resize", mean=mean, std=std,
                                    layout="NHWC")
        floats, _ = next(iter(millrace.DataLoader(data, batch_size=18)))
        self.assertEqual((floats.dtype, tuple(floats.shape)), (torch.float32, (18, 16, 16, 3)))
        expected = (images.permute(0, 2, 3, 1) / 255 - torch.tensor(mean)) / torch.tensor(std)
        self.assertTrue(torch.allclose(floats, expected, atol=1e-6))
        half = millrace.ImageFolder(root, size=16, dtype="bfloat16")
        self.assertEqual(next(iter(millrace.DataLoader(half)))[0].dtype, torch.bfloat16)

    def test_a_sample_by_index_equals_the_one_in_the_batch(self):
        data = millrace.ImageFolder(self.make_images(suffix=".jpg"), size=16,
                                    transform="resize_center_crop")
        images, labels = next(iter(millrace.DataLoader(data, batch_size=18)))
        for index in (0, 7, -1):
            image, label = data[index]
            self.assertTrue(torch.equal(image, images[index]))
            self.assertEqual(label, labels[index])
        with self.assertRaises(IndexError):
            data[18]

    def test_a_function_as_transform_gets_pil_images(self):
        data = millrace.ImageFolder(self.make_images(), transform=lambda image: numpy.array(image))
        images, labels = next(iter(millrace.DataLoader(data, batch_size=4)))
        self.assertEqual(tuple(images.shape), (4, 30, 40, 3))
        self.assertEqual(labels.tolist(), [0, 0, 0, 0])

    def test_crops_differ_between_epochs_and_repeat_with_the_same_seed(self):
        data = millrace.ImageFolder(self.make_gradient(), size=8)
        loader = millrace.DataLoader(data, batch_size=4)
        first, second = (next(iter(loader))[0] for _ in range(2))
        self.assertFalse(torch.equal(first, second))
        again = millrace.DataLoader(data, batch_size=4)
        self.assertTrue(torch.equal(next(iter(again))[0], first))
        other = millrace.DataLoader(data, batch_size=4, seed=1)
        self.assertFalse(torch.equal(next(iter(other))[0], first))

    def make_gradient(self) -> Path:
        root = self.folder / "gradient"
        (root / "a").mkdir(parents=True)
        pixels = numpy.arange(64 * 64 * 3, dtype="uint32").reshape(64, 64, 3) % 251
        for index in range(4):
            Pillow.fromarray(pixels.astype("uint8")).save(root / "a" / f"{index}.png")
        return root

    def test_a_dict_has_every_field_by_name(self):
        data = millrace.ImageFolder(self.make_images(), size=8)
        batch = next(iter(millrace.DataLoader(data, batch_size=4, output="dict")))
        self.assertEqual(list(batch), ["image", "label", "sample", "is_real"])
        self.assertEqual(batch["sample"].tolist(), [0, 1, 2, 3])
        self.assertEqual(batch["is_real"].dtype, torch.bool)

    def test_a_transform_gets_the_whole_batch(self):
        data = millrace.ImageFolder(self.make_images(), size=8)
        loader = millrace.DataLoader(data, batch_size=4,
                                     transform=lambda batch: (batch[0].float() / 255, batch[1]))
        self.assertEqual(next(iter(loader))[0].dtype, torch.float32)


class FilesTest(FolderTest):
    def test_rows_of_npy(self):
        array = numpy.arange(20 * 6, dtype="float32").reshape(20, 2, 3)
        numpy.save(self.folder / "a.npy", array[:12])
        numpy.save(self.folder / "b.npy", array[12:])
        data = millrace.Files([self.folder / "a.npy", self.folder / "b.npy"])
        self.assertEqual((len(data), data.fields), (20, [("data", "float32", (2, 3))]))
        batches = list(millrace.DataLoader(data, batch_size=8))
        self.assertTrue(torch.equal(torch.cat(batches), torch.from_numpy(array)))

    def test_records_of_raw_files(self):
        array = numpy.arange(10 * 4, dtype="int16").reshape(10, 4)
        array.tofile(self.folder / "x.bin")
        data = millrace.Files(self.folder / "x.bin", format="raw", shape=4, dtype="int16")
        (batch,) = millrace.DataLoader(data, batch_size=10)
        self.assertEqual(batch.numpy().tolist(), array.tolist())

    def test_every_engine_reads_the_same(self):
        array = numpy.arange(10 * 4, dtype="int16").reshape(10, 4)
        array.tofile(self.folder / "x.bin")
        for engine in ("auto", "posix", "mapped", "direct", "uring"):
            with self.subTest(engine):
                try:
                    data = millrace.Files(self.folder / "x.bin", format="raw", shape=4, dtype="int16", engine=engine)
                    (batch,) = millrace.DataLoader(data, batch_size=10)
                except (OSError, RuntimeError) as error:  # a file system without O_DIRECT, a kernel without io_uring
                    self.assertIn(engine, ("direct", "uring"))
                    self.skipTest(str(error))
                self.assertEqual(batch.numpy().tolist(), array.tolist())
        with self.assertRaisesRegex(ValueError, "did you mean 'mapped'"):
            millrace.Files(self.folder / "x.bin", format="raw", shape=4, engine="maped")

    def test_stats_name_the_engine_and_the_measured_speeds(self):
        array = numpy.arange(4000 * 4, dtype="int16").reshape(4000, 4)
        array.tofile(self.folder / "x.bin")
        files = {"files": self.folder / "x.bin", "format": "raw", "shape": 4, "dtype": "int16"}
        loader = millrace.DataLoader(millrace.Files(**files), batch_size=50, num_workers=1)
        rows = [row for batch in loader for row in batch.numpy().tolist()]
        self.assertEqual(rows, array.tolist())
        stats = loader.stats()  # once: the threads keep reading, and may choose again
        reads = stats["reads"]
        self.assertIn(reads["engine"], ("posix", "uring"))
        if reads["refusal"]:
            self.assertEqual((reads["engine"], reads["trials"], reads["measured"]), ("posix", 0, {}))
        else:
            self.assertGreaterEqual(reads["trials"], 1)
            self.assertEqual(sorted(reads["measured"]), ["posix", "uring"])
            self.assertGreater(reads["measured"]["uring"]["bytes_per_second"], 0)
            self.assertIn(f"reads with {reads['engine']}; measured: posix ", str(stats))

        alone = millrace.DataLoader(millrace.Files(**files), batch_size=50, prefetch=millrace.Prefetch(io_depth=1))
        next(iter(alone))
        reads = alone.stats()["reads"]
        self.assertEqual((reads["engine"], reads["trials"]), ("posix", 0))
        with self.assertRaisesRegex(ValueError, "Prefetch.io_depth=0"):
            millrace.DataLoader(millrace.Files(**files), prefetch=millrace.Prefetch(io_depth=0))

    def test_a_folder_of_npy_files_with_classes(self):
        for name, value in (("cat/a", 1), ("cat/b", 2), ("dog/c", 3)):
            (self.folder / "arrays" / name).parent.mkdir(parents=True, exist_ok=True)
            numpy.save(self.folder / "arrays" / (name + ".npy"), numpy.full((2, 2), value, dtype="int32"))
        data = millrace.ArrayFolder(self.folder / "arrays")
        self.assertEqual((data.classes, data.fields), (["cat", "dog"], [("data", "int32", (2, 2))]))
        ((values, labels),) = millrace.DataLoader(data, batch_size=3)
        self.assertEqual((values[:, 0, 0].tolist(), labels.tolist()), ([1, 2, 3], [0, 0, 1]))

    def test_fields_of_npz(self):
        for index in range(4):
            numpy.savez(self.folder / f"{index}.npz", image=numpy.full((2, 2), index, "uint8"),
                        label=numpy.int64(10 + index))
        data = millrace.Files(self.folder, format="npz", fields=["image", "label"])
        images, labels = next(iter(millrace.DataLoader(data, batch_size=4)))
        self.assertEqual(images[:, 0, 0].tolist(), [0, 1, 2, 3])
        self.assertEqual(labels.tolist(), [10, 11, 12, 13])

    def test_images_and_classes_of_tar_files(self):
        with tarfile.open(self.folder / "shard.tar", "w") as tar:
            for index in range(6):
                image = io.BytesIO()
                Pillow.new("RGB", (20, 10), (index, 0, 0)).save(image, "png")
                for suffix, content in ((".png", image.getvalue()), (".cls", f"{index}".encode())):
                    member = tarfile.TarInfo(f"{index:03}{suffix}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        data = millrace.Files(self.folder / "shard.tar", fields={
            "jpg;png": millrace.Image(8, transform="resize"), "cls": "int64"})
        images, labels = next(iter(millrace.DataLoader(data, batch_size=6)))
        self.assertEqual(tuple(images.shape), (6, 3, 8, 8))
        self.assertEqual(images[:, 0, 0, 0].tolist(), [0, 1, 2, 3, 4, 5])
        self.assertEqual(labels.tolist(), [0, 1, 2, 3, 4, 5])

    def test_folders_of_npy_files_with_their_classes(self):
        for label, name in enumerate(("a", "b")):
            (self.folder / "npy" / name).mkdir(parents=True)
            for index in range(3):
                numpy.save(self.folder / "npy" / name / f"{index}.npy",
                           numpy.full((2, 3), 10 * label + index, "float32"))
        data = millrace.ArrayFolder(self.folder / "npy")
        arrays, labels = next(iter(millrace.DataLoader(data, batch_size=6)))
        self.assertEqual(tuple(arrays.shape), (6, 2, 3))
        self.assertEqual(arrays[:, 0, 0].tolist(), [0, 1, 2, 10, 11, 12])
        self.assertEqual((labels.tolist(), data.classes), ([0, 0, 0, 1, 1, 1], ["a", "b"]))

    def test_missing_fields_are_named(self):
        numpy.savez(self.folder / "0.npz", image=numpy.zeros(2))
        with self.assertRaisesRegex(FileNotFoundError, "no field 'x'.*'image'"):
            millrace.Files(self.folder / "0.npz", fields=["x"])
        with self.assertRaisesRegex(ValueError, "dtype 'int3'"):
            millrace.Files(self.folder / "0.npz", fields={"image": "int3"})


class ErrorTest(FolderTest):
    def break_one(self) -> millrace.RawFolder:
        root = self.make_raw(20)
        (root / "00007.bin").write_bytes(b"short")
        return millrace.RawFolder(root, shape=SHAPE, dtype="int32")

    def test_a_bad_sample_is_named(self):
        with self.assertRaisesRegex(millrace.SampleError, "00007.bin.*"):
            list(millrace.DataLoader(self.break_one(), batch_size=4))

    def test_bad_samples_can_be_skipped_and_counted(self):
        loader = millrace.DataLoader(self.break_one(), batch_size=4, skip_bad_samples=True)
        self.assertEqual(visited(loader), [i for i in range(20) if i != 7])
        stats = loader.stats()
        self.assertEqual(stats["bad_samples"], 1)
        self.assertIn("00007.bin", str(stats))

    def test_a_file_that_disappears_is_named(self):
        data = self.raw(8)
        os.unlink(self.folder / "raw" / "00003.bin")
        with self.assertRaisesRegex(millrace.SampleError, "00003.bin"):
            list(millrace.DataLoader(data, batch_size=8))

    def test_missing_files_and_invalid_options_are_refused(self):
        with self.assertRaisesRegex(FileNotFoundError, "nowhere"):
            millrace.ImageFolder(self.folder / "nowhere")
        root = self.make_images()
        for options, sentence in (({"transform": "blur"}, "random_resized_crop"),
                                  ({"layout": "HWC"}, "NCHW"),
                                  ({"dtype": "int8"}, "uint8, float32"),
                                  ({"dtype": "uint8", "mean": (0, 0, 0)}, "not normalised"),
                                  ({"mean": (0, 0)}, "red, green and blue")):
            with self.subTest(options), self.assertRaisesRegex(ValueError, sentence):
                millrace.ImageFolder(root, **options)
        data = millrace.ImageFolder(root)
        with self.assertRaisesRegex(ValueError, "Prefetch.memory: '1K' could mean"):
            millrace.Prefetch(memory="1K")
        for options, sentence in (({"prefetch": millrace.Prefetch(memory="1KiB")}, "allows only 1 KiB"),
                                  ({"timeout": -1}, "timeout=-1"),
                                  ({"epochs": 0}, "epochs=0 is not an integer of at least 1"),
                                  ({"collate_fn": list}, "transform="),
                                  ({"worker": "fiber"}, "worker='fiber': expected 'process' or 'thread'")):
            with self.subTest(options), self.assertRaisesRegex(ValueError, sentence):
                millrace.DataLoader(data, **options)

    def open_once_it_is_read(self, pipe: Path) -> int:
        """Opens the pipe for writing. Its reader waits until this is closed."""
        while True:
            try:
                return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
            time.sleep(0.01)

    def test_closing_a_loader_wakes_waiting_threads_with_an_error(self):
        data = self.raw(1)
        file = self.folder / "raw" / "00000.bin"
        file.unlink()
        os.mkfifo(file)
        loader = millrace.DataLoader(data, timeout=300)
        raised = []
        has_raised = threading.Event()

        def ask():
            # One waits for the batch, the others for their turn. If one of them starts an epoch
            # while the loader is being closed, the loader must stay closed.
            while not raised or "closed" not in raised[-1]:
                try:
                    loader._loader.start_epoch(0)
                    loader._loader.next()
                except (RuntimeError, TimeoutError) as error:
                    raised.append(str(error))
                    has_raised.set()

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        writer = self.open_once_it_is_read(file)
        # Closing the pipe ends the read, so that the C++ thread can exit.
        ending = threading.Thread(target=lambda: (has_raised.wait(), os.close(writer)))
        ending.start()
        time.sleep(0.1)  # by now they probably wait; the checks hold in any case
        loader.close()
        for thread in (*threads, ending):
            thread.join()
        self.assertLessEqual(set(raised), {"cancelled", "interrupted",
                                           "the loader is closed; make another DataLoader"})
        with self.assertRaisesRegex(RuntimeError, "closed"):
            next(iter(loader))


if __name__ == "__main__":
    unittest.main()
