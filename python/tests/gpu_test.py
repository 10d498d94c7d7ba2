#!/usr/bin/env python3
"""Pinned batches on a real GPU: memory must not be reused before an asynchronous copy is complete."""

import gc
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy
import torch

import millrace

VALUES = 16 << 10  # int32 values per sample
LONG = 200_000_000  # GPU cycles: about a tenth of a second


class Filled:
    """Sample i is an int32 tensor filled with i."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((VALUES,), index, dtype=torch.int32)


@unittest.skipUnless(torch.cuda.is_available(), "there is no GPU")
class GpuTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def open(self, count: int = 256, **options) -> millrace.DataLoader:
        """Sample i is an int32 array filled with i."""
        for index in range(count):
            numpy.full(VALUES, index, "int32").tofile(self.folder / f"{index:05}.bin")
        data = millrace.RawFolder(self.folder, shape=(VALUES,), dtype="int32")
        return millrace.DataLoader(data, batch_size=16, pin_memory=True, **options)

    def check(self, copies: list) -> None:
        torch.cuda.synchronize()
        seen = []
        for copied in copies:
            values = copied.cpu().numpy()
            self.assertTrue((values == values[:, :1]).all())
            seen += values[:, 0].tolist()
        self.assertEqual(seen, [i % 256 for i in range(len(seen))])

    def test_batches_are_pinned(self):
        for batch in self.open():
            self.assertTrue(batch.is_pinned())

    def test_a_pending_copy_keeps_the_batch(self):
        loader = self.open(prefetch=millrace.Prefetch(batches=2))
        copies = []
        for _ in range(4):
            for batch in loader:
                torch.cuda._sleep(LONG)
                copies.append(batch.to("cuda", non_blocking=True))
                del batch
        self.check(copies)

    def test_batches_of_python_datasets_are_pinned(self):
        for options in ({"num_workers": 2}, {"num_workers": 0}, {"num_workers": 2, "worker": "thread"}):
            with self.subTest(**options):
                for batch in millrace.DataLoader(Filled(256), 16, pin_memory=True, **options):
                    self.assertTrue(batch.is_pinned())

    def test_a_pending_copy_keeps_the_batch_of_a_python_dataset(self):
        loader = millrace.DataLoader(Filled(256), 16, pin_memory=True, num_workers=2, persistent_workers=True,
                                     prefetch=millrace.Prefetch(batches=2))
        copies = []
        for _ in range(4):
            for batch in loader:
                torch.cuda._sleep(LONG)
                copies.append(batch.to("cuda", non_blocking=True))
                del batch
        self.check(copies)

    def test_memory_is_unpinned_when_it_is_unmapped(self):
        for _ in range(4):  # the addresses of the loader before are used again
            loader = millrace.DataLoader(Filled(64), 16, pin_memory=True, num_workers=2)
            self.assertTrue(all(batch.is_pinned() for batch in loader))
            del loader
        loader = millrace.DataLoader(Filled(64), 16, pin_memory=True, num_workers=2)
        batch = next(iter(loader))
        torch.cuda._sleep(LONG)
        copied = batch.to("cuda", non_blocking=True)
        del loader, batch
        self.check([copied])

    def test_a_pending_copy_on_another_stream_keeps_the_batch(self):
        stream = torch.cuda.Stream()
        copies = []
        for batch in self.open(prefetch=millrace.Prefetch(batches=2)):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(LONG)
                copies.append(batch.to("cuda", non_blocking=True))
            del batch
        self.check(copies)

    def test_a_loader_may_be_closed_while_the_gpu_copies(self):
        loader = self.open()
        batches = iter(loader)
        batch = next(batches)
        torch.cuda._sleep(LONG)
        copied = batch.to("cuda", non_blocking=True)
        loader.close()
        del batch, batches, loader
        gc.collect()
        self.check([copied])

    def test_buffers_are_reused(self):
        loader = self.open(prefetch=millrace.Prefetch(batches=2))
        places = set()
        for _ in range(8):
            for batch in loader:
                places.add(batch.data_ptr())
                batch.to("cuda", non_blocking=True)
        self.assertLess(len(places), 16)

    def test_the_thread_keeps_its_gpu(self):
        before = torch.cuda.current_device()
        for batch in self.open():
            del batch
        self.assertEqual(torch.cuda.current_device(), before)
        self.assertEqual(torch.ones(3, device="cuda").sum().item(), 3)

    def test_a_program_can_exit_while_it_holds_a_batch(self):
        self.open().close()
        program = (f"import millrace, torch\n"
                   f"data = millrace.RawFolder({str(self.folder)!r}, shape=({VALUES},), dtype='int32')\n"
                   f"loader = millrace.DataLoader(data, batch_size=16, pin_memory=True)\n"
                   f"batches = iter(loader)\n"
                   f"batch = next(batches)\n"
                   f"copied = batch.to('cuda', non_blocking=True)\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
