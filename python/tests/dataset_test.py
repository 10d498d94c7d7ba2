#!/usr/bin/env python3
"""Datasets that C++ reads, as Python objects: subsets, copies, names, lifetimes."""

import copy
import gc
import io
import os
import pickle
import tarfile
import tempfile
import unittest
import weakref
from pathlib import Path

import numpy
import torch
from PIL import Image as Pillow

import millrace


class FolderTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def make_raw(self, count: int) -> Path:
        """Sample i is four bytes of value i."""
        for index in range(count):
            (self.folder / "raw").mkdir(exist_ok=True)
            (self.folder / "raw" / f"{index:03}").write_bytes(bytes([index] * 4))
        return self.folder / "raw"

    def raw(self, count: int) -> millrace.RawFolder:
        return millrace.RawFolder(self.make_raw(count), shape=(4,))

    def images(self, **options) -> millrace.ImageFolder:
        noise = numpy.random.default_rng(0)
        for index in range(8):
            folder = self.folder / "images" / "ab"[index // 4]
            folder.mkdir(parents=True, exist_ok=True)
            pixels = noise.integers(0, 255, (60, 80, 3), dtype=numpy.uint8)
            Pillow.fromarray(pixels).save(folder / f"{index}.png")
        return millrace.ImageFolder(self.folder / "images", size=16, **options)


def visited(loader) -> list:
    return [value for batch in loader for value in batch[:, 0].tolist()]


class SubsetTest(FolderTest):
    def test_a_subset_has_its_samples_in_its_order(self):
        part = self.raw(10).subset([7, 2, -1])
        self.assertEqual(visited(millrace.DataLoader(part, batch_size=2)), [7, 2, 9])
        self.assertEqual((len(part), part[0].tolist(), part.name(1)),
                         (3, [7] * 4, str(self.folder / "raw" / "002")))
        self.assertEqual(visited(millrace.DataLoader(part.subset([2, 0]), batch_size=2)), [9, 7])
        with self.assertRaisesRegex(IndexError, "sample 10 is out of range: there are 10 samples"):
            self.raw(10).subset([10])

    def test_cpp_threads_read_subsets_made_by_torch(self):
        first, second = torch.utils.data.random_split(self.raw(10), [7, 3])
        loaders = [millrace.DataLoader(part, batch_size=4, shuffle=True) for part in (first, second)]
        samples = [visited(loader) for loader in loaders]
        self.assertEqual([sorted(part) for part in samples],
                         [sorted(first.indices), sorted(second.indices)])
        self.assertGreaterEqual(loaders[0].stats()["bytes_read"], 7 * 4)  # what Python reads is not counted
        self.assertIs(loaders[0].dataset, first)

    def test_random_crops_of_a_subset_differ_between_epochs(self):
        part = torch.utils.data.Subset(self.images(), [1, 5])
        loader = millrace.DataLoader(part, batch_size=2)
        (first, labels), (second, _) = [batch for _ in range(2) for batch in loader]
        self.assertEqual(labels.tolist(), [0, 1])
        self.assertFalse(torch.equal(first, second))

    def test_python_decodes_subsets_of_datasets_that_it_decodes(self):
        data = self.images(transform=lambda picture: numpy.asarray(picture)[0, 0])
        part = torch.utils.data.Subset(data, [1, 5])
        (pixels, labels), = millrace.DataLoader(part, batch_size=2)
        self.assertEqual((tuple(pixels.shape), labels.tolist()), ((2, 3), [0, 1]))
        (_, labels), = millrace.DataLoader(data.subset([6, 0]), batch_size=2)
        self.assertEqual(labels.tolist(), [1, 0])


class StateTest(FolderTest):
    def test_a_state_is_accepted_if_the_dataset_moved_but_not_if_it_changed(self):
        root = self.make_raw(10)

        def load(folder: Path, state) -> None:
            data = millrace.RawFolder(folder, shape=(4,))
            millrace.DataLoader(data, batch_size=2, shuffle=True).load_state_dict(state)

        loader = millrace.DataLoader(millrace.RawFolder(root, shape=(4,)), batch_size=2, shuffle=True)
        next(iter(loader))
        state = loader.state_dict()
        moved = root.rename(self.folder / "elsewhere")
        load(moved, state)
        load(moved, {key: value for key, value in state.items() if key != "dataset"})
        (moved / "003").rename(moved / "zzz")
        with self.assertRaisesRegex(ValueError, "another dataset: it has 10 samples too"):
            load(moved, state)

    def test_a_state_of_another_subset_is_refused(self):
        data = self.raw(10)
        state = millrace.DataLoader(data.subset(range(5)), shuffle=True).state_dict()
        with self.assertRaisesRegex(ValueError, "another dataset"):
            millrace.DataLoader(data.subset(range(5, 10)), shuffle=True).load_state_dict(state)


class CopyTest(FolderTest):
    def test_datasets_can_be_pickled_for_spawned_processes(self):
        for data in (self.raw(5), self.raw(5).subset([3, 1]), self.images(dtype="float32")):
            for again in (pickle.loads(pickle.dumps(data)), copy.deepcopy(data)):
                self.assertEqual((type(again), len(again)), (type(data), len(data)))
                torch.testing.assert_close(again[1], data[1])

    def test_a_loader_says_why_it_cannot_be_pickled(self):
        loader = millrace.DataLoader(self.raw(4), batch_size=2)
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "make the DataLoader where it is used"):
                copied(loader)


class LifetimeTest(FolderTest):
    def test_a_loader_is_freed_without_garbage_collection(self):
        gc.disable()
        self.addCleanup(gc.enable)
        for data in (self.raw(20), list(range(20))):
            loader = millrace.DataLoader(data, batch_size=2, num_workers=2)
            next(iter(loader))
            watched = weakref.ref(loader)
            del loader
            self.assertIsNone(watched())


class NameTest(FolderTest):
    def test_names_that_are_not_utf_8_use_surrogate_escapes(self):
        root = os.fsencode(self.folder) + b"/caf\xe9"
        os.makedirs(root + b"/\xff")
        with open(root + b"/\xff/\xfe.png", "wb") as file:
            file.write(b"no image")
        data = millrace.ImageFolder(os.fsdecode(root))
        (path, label), = data.samples
        self.assertEqual((os.fsencode(path), label), (root + b"/\xff/\xfe.png", 0))
        self.assertEqual(os.fsencode(data.classes[0]), b"\xff")
        with self.assertRaises(millrace.SampleError) as caught:
            list(millrace.DataLoader(data))
        self.assertIn(path, str(caught.exception))
        loader = millrace.DataLoader(data, skip_bad_samples=True)
        self.assertEqual(list(loader), [])
        self.assertIn(path, loader.stats()["first_bad_sample"])
        files = millrace.Files([path], format="raw", shape=(8,))
        self.assertEqual(bytes(files[0].tolist()), b"no image")

    def test_loaders_have_a_readable_repr(self):
        loader = millrace.DataLoader(self.raw(4), batch_size=2, shuffle=True, world=millrace.World(1, 2))
        self.assertEqual(repr(loader), "DataLoader(RawFolder of 4 samples, batch_size=2, "
                                       "shuffle='global', rank 1 of 2, epoch 0)")

    def test_an_invalid_size_is_named(self):
        for size in (0, -1, (1, 2, 3), "big", 2.5, (8, -8)):
            with self.subTest(size), self.assertRaisesRegex(ValueError, "size=.*height, width"):
                millrace.Image(size).decoder()

    def test_the_class_in_a_tar_appears_once(self):
        with tarfile.open(self.folder / "a.tar", "w") as archive:
            for number in range(3):
                for end, text in (("bin", b"abc"), ("cls", str(number).encode())):
                    member = tarfile.TarInfo(f"{number}.{end}")
                    member.size = len(text)
                    archive.addfile(member, io.BytesIO(text))
        (payload, classes), = millrace.DataLoader(millrace.Files(self.folder / "a.tar"), batch_size=3)
        self.assertEqual((tuple(payload.shape), classes.tolist()), ((3, 3), [0, 1, 2]))

    def test_an_index_that_is_not_an_integer_is_refused(self):
        for index in (slice(0, 2), "a"):
            with self.assertRaisesRegex(TypeError, "subset"):
                self.raw(4)[index]


class PackageTest(unittest.TestCase):
    def test_type_checkers_see_every_exported_name(self):
        import ast
        tree = ast.parse(Path(millrace.__file__).read_text())
        lists = [node.value for node in tree.body if isinstance(node, ast.Assign)
                 and getattr(node.targets[0], "id", "") == "__all__"]
        exported = ast.literal_eval(lists[0])  # type checkers need a literal list
        self.assertEqual(exported, millrace.__all__)
        self.assertLessEqual(set(millrace.loader.__all__), set(exported))
        imported = {name.asname or name.name for node in ast.walk(tree)
                    if isinstance(node, ast.ImportFrom) for name in node.names}
        self.assertEqual(imported, set(exported))
        for name in exported:
            self.assertTrue(hasattr(millrace, name), name)
        with self.assertRaisesRegex(AttributeError, "no attribute 'Dataloader'"):
            millrace.Dataloader


if __name__ == "__main__":
    unittest.main()
