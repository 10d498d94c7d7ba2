#!/usr/bin/env python3
"""Loaders of other libraries: their epochs and steps are those of the loop, even if they fetch a batch ahead of it.

The libraries are not needed: a small package of the same name has a loader that works in the same way.
docs/guide/trace-python.md names the versions that were tried by hand."""

import collections
import unittest

from traced import LIBRARY, Recording, TracedTest

# The batches are numbered from 0, and the mark has the number of the one that the model works on.
PROGRAM = """
import sys
import torch
from millrace import trace
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self): return 10
    def __getitem__(self, index): return torch.full((2,), float(index))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, batch):
        trace.mark("batch", number=int(batch[0, 0]) // 2)
        return (self.weight * batch).sum()

def numbers(workers=0): return DataLoader(Numbers(), batch_size=2, num_workers=workers)

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train_on(batch):
    model(batch).backward()
    optimizer.step()
"""
STEPS = [(epoch, step) for epoch in range(2) for step in range(5)]

# One batch ahead, to know the last one.
ACCELERATE = """
from torch.utils.data import DataLoader

class DataLoaderShard(DataLoader):
    skip_batches = 0

    def __iter__(self):
        batches = super().__iter__()
        try:
            batch = next(batches)
        except StopIteration:
            return
        index = 0
        while True:
            try:
                following = next(batches)
                if index >= self.skip_batches:
                    yield batch
                index += 1
                batch = following
            except StopIteration:
                yield batch
                break

class DataLoaderDispatcher(DataLoaderShard): pass
"""

# One batch ahead, to copy it to the GPU meanwhile. The first one is fetched by iter().
RAY_TRAIN = """
from torch.utils.data import DataLoader

class _WrappedDataLoader(DataLoader):
    def __init__(self, loader):
        self.__dict__.update(loader.__dict__)
        self._dataloader = loader

    def __iter__(self):
        self.batches = iter(self._dataloader)
        self.batch = next(self.batches, None)
        return self

    def __next__(self):
        batch = self.batch
        if batch is None:
            raise StopIteration
        self.batch = next(self.batches, None)
        return batch
"""

RAY_DATA = """
class _IterableFromIterator:
    def __init__(self, make): self.make = make
    def __iter__(self): return self.make()

def iter_batches(make): return _IterableFromIterator(make)
"""

# An __iter__ of its own, which may return the same iterator again.
STATEFUL = """
from torch.utils.data import DataLoader

class StatefulDataLoader(DataLoader):
    def __iter__(self):
        if self.persistent_workers and self._iterator is not None:
            self._iterator._reset(self)
        else:
            self._iterator = self._get_iterator()
        return self._iterator
"""

NODES = """
class Loader:
    def __init__(self, root): self.root = root

    def __iter__(self):
        self.iterator = iter(self.root)
        return self.iterator
"""

# It takes the batches of as many steps as gradients are accumulated.
TRAINER = """
class Trainer:
    def __init__(self, loader, step): self.loader, self.step = loader, step

    def get_batch_samples(self, batches, count):
        taken = []
        for _ in range(count):
            try:
                taken.append(next(batches))
            except StopIteration:
                break
        return taken, None

    def training_step(self, model, batch): self.step(batch)

    def train(self):
        for epoch in range(2):
            batches = iter(self.loader)
            while True:
                taken, _ = self.get_batch_samples(batches, 2)
                if not taken:
                    break
                for batch in taken:
                    self.training_step(None, batch)
"""


def places(regions) -> list:
    return sorted((region.epoch, region.step) for region in regions)


class LoadersTest(TracedTest):
    def library(self, name: str, code: str) -> None:
        """Makes the module, with packages around it."""
        *packages, module = name.split(".")
        folder = self.folder
        for package in packages:
            folder /= package
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").touch()
        (folder / f"{module}.py").write_text(code)

    def train(self, code: str, *arguments) -> Recording:
        recording = self.record_script(self.write("train.py", PROGRAM + code), *arguments)
        self.assertEqual(recording.named("not_marked"), [])
        return recording

    def check_steps(self, recording, steps=STEPS) -> None:
        marks = sorted(recording.named("batch"), key=lambda mark: mark.begin)
        self.assertEqual([(mark.epoch, mark.step) for mark in marks], steps)
        self.assertEqual([mark.tags["number"] for mark in marks], [step for _, step in steps])
        for name in ("forward", "backward", "optimizer"):
            self.assertEqual(places(recording.named(name)), steps, name)

    def check_waits(self, recording, ahead: bool) -> None:
        """A loader that fetches ahead waits for two batches in the first step, and for none in the last."""
        waits = recording.named("batch_wait")
        expected = [(epoch, max(step - ahead, 0)) for epoch, step in STEPS]
        self.assertEqual(places(waits), expected)

    def check_epochs(self, regions, count: int) -> None:
        self.assertEqual(collections.Counter(region.epoch for region in regions), {0: count, 1: count})

    def test_accelerate_fetches_one_batch_ahead(self):
        self.library("accelerate.data_loader", ACCELERATE)
        for workers in (0, 2):
            recording = self.train("""
from accelerate.data_loader import DataLoaderShard
loader = DataLoaderShard(Numbers(), batch_size=2, num_workers=int(sys.argv[1]))
for epoch in range(2):
    for batch in loader: train_on(batch)
""", workers)
            self.check_steps(recording)
            self.check_waits(recording, ahead=True)
            self.assertEqual([(region.epoch, region.step) for region in recording.named("setup")], [(0, None), (1, None)])
            fetches = recording.named("fetch")
            self.check_epochs(fetches, 5)
            if workers > 0:
                self.assertEqual(places(fetches), STEPS)
            self.trace = self.folder / "second"

    def test_batches_that_accelerate_skips_count_as_steps(self):
        self.library("accelerate.data_loader", ACCELERATE)
        recording = self.train("""
from accelerate.data_loader import DataLoaderDispatcher
loader = DataLoaderDispatcher(Numbers(), batch_size=2)
loader.skip_batches = 3
for batch in loader: train_on(batch)
""")
        self.check_steps(recording, [(0, 3), (0, 4)])

    def test_a_loop_may_leave_such_a_loader_early(self):
        self.library("accelerate.data_loader", ACCELERATE)
        recording = self.train("""
from accelerate.data_loader import DataLoaderShard
loader = DataLoaderShard(Numbers(), batch_size=2)
for batch in loader:
    train_on(batch)
    break
for batch in numbers(): train_on(batch)  # a plain loader afterwards marks its own steps
""")
        self.check_steps(recording, sorted([(0, 0)] + STEPS[:5]))

    def test_an_evaluation_inside_belongs_to_the_epoch_around_it(self):
        self.library("accelerate.data_loader", ACCELERATE)
        recording = self.train("""
from accelerate.data_loader import DataLoaderShard
loader, test = DataLoaderShard(Numbers(), batch_size=2), DataLoaderShard(Numbers(), batch_size=5)
for epoch in range(2):
    for batch in loader: train_on(batch)
    with torch.no_grad():
        for batch in test: pass
""")
        self.check_steps(recording)
        self.check_epochs(recording.named("batch_wait"), 5 + 2)

    def test_a_window_counts_the_steps_of_the_loop(self):
        self.library("accelerate.data_loader", ACCELERATE)
        script = self.write("train.py", PROGRAM + """
from accelerate.data_loader import DataLoaderShard
loader = DataLoaderShard(Numbers(), batch_size=2)
for epoch in range(2):
    for batch in loader: train_on(batch)
""")
        self.run_python("-m", "millrace.trace", "-o", self.trace, "--steps", "3:7", script,
                        MILLRACE_TRACE_LIBRARY=str(LIBRARY))
        recording = Recording(self.trace)
        self.check_steps(recording, STEPS[3:7])

    def test_ray_train_fetches_one_batch_ahead(self):
        self.library("ray.train.torch.train_loop_utils", RAY_TRAIN)
        for workers in (0, 2):
            recording = self.train("""
from ray.train.torch.train_loop_utils import _WrappedDataLoader
loader = _WrappedDataLoader(numbers(int(sys.argv[1])))
for epoch in range(2):
    for batch in loader: train_on(batch)
""", workers)
            self.check_steps(recording)
            self.check_waits(recording, ahead=True)
            self.trace = self.folder / "second"

    def test_the_trainer_takes_the_batches_of_several_steps(self):
        self.library("accelerate.data_loader", ACCELERATE)
        self.library("transformers.trainer", TRAINER)
        recording = self.train("""
from accelerate.data_loader import DataLoaderShard
from transformers.trainer import Trainer
Trainer(DataLoaderShard(Numbers(), batch_size=2), train_on).train()
""")
        self.check_steps(recording)

    def test_ray_data_makes_an_iterable_for_each_epoch(self):
        self.library("ray.data.iterator", RAY_DATA)
        recording = self.train("""
from ray.data.iterator import iter_batches

def batches():
    for number in range(5): yield torch.full((2, 2), 2.0 * number)

for epoch in range(2):
    for batch in iter_batches(batches): train_on(batch)
""")
        self.check_steps(recording)
        self.check_waits(recording, ahead=False)

    def test_a_loader_without_torch_does_not_import_it(self):
        self.library("ray.data.iterator", RAY_DATA)
        recording = self.record_script(self.write("train.py", """
            import sys
            from ray.data.iterator import iter_batches
            for epoch in range(2):
                assert [batch for batch in iter_batches(lambda: iter(range(5)))] == [0, 1, 2, 3, 4]
            assert "torch" not in sys.modules
            """))
        self.assertEqual(recording.named("not_marked"), [])
        self.check_waits(recording, ahead=False)

    def test_stateful_data_loaders(self):
        self.library("torchdata.stateful_dataloader.stateful_dataloader", STATEFUL)
        for workers in (0, 2):
            recording = self.train("""
from torchdata.stateful_dataloader.stateful_dataloader import StatefulDataLoader
workers = int(sys.argv[1])
loader = StatefulDataLoader(Numbers(), batch_size=2, num_workers=workers, persistent_workers=workers > 0)
for epoch in range(2):
    for batch in loader: train_on(batch)
""", workers)
            self.check_steps(recording)
            self.check_waits(recording, ahead=False)
            self.assertEqual(places(recording.named("fetch")), STEPS)
            self.trace = self.folder / "second"

    def test_nodes_of_torchdata(self):
        self.library("torchdata.nodes.loader", NODES)
        recording = self.train("""
from torchdata.nodes.loader import Loader
loader = Loader([torch.full((2, 2), 2.0 * number) for number in range(5)])
for epoch in range(2):
    for batch in loader: train_on(batch)
""")
        self.check_steps(recording)
        self.check_waits(recording, ahead=False)


if __name__ == "__main__":
    unittest.main()
