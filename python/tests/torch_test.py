#!/usr/bin/env python3
"""PyTorch marked without edits: loaders with every kind of worker, steps and checkpoints; the results
of the program are unchanged."""

import collections
import importlib.util
import unittest

from traced import LIBRARY, QUIET_TRACKER, Recording, TracedTest

TRAIN = """
    import sys
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset

    class Images(Dataset):
        def __init__(self, transform): self.transform = transform
        def __len__(self): return 24
        def __getitem__(self, index):
            image = torch.full((1, 4, 4), float(index))
            return self.transform(image), index % 2

    class Scale(torch.nn.Module):
        def forward(self, image): return image / 24

    def main(workers, method, persistent):
        torch.manual_seed(1)
        loader = DataLoader(Images(Scale()), batch_size=4, num_workers=workers,
                            multiprocessing_context=method or None, persistent_workers=persistent)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for epoch in range(2):
            for images, labels in loader:
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
            scheduler.step()
        torch.save(model.state_dict(), "model.pt")
        model.load_state_dict(torch.load("model.pt"))
        print(f"{loss.item():.6f}", len(loader), type(loader.dataset).__name__, torch.__spec__.name)

    if __name__ == "__main__":
        main(int(sys.argv[1]), sys.argv[2], sys.argv[3] == "persistent")
    """
BATCHES = 6
STEPS = [(epoch, step) for epoch in range(2) for step in range(BATCHES)]


def places(regions) -> list:
    return sorted((region.epoch, region.step) for region in regions)


class TorchTest(TracedTest):
    def train(self, *arguments):
        script = self.write("train.py", TRAIN)
        plain = self.run_python(script, *arguments, **QUIET_TRACKER)
        traced = self.run_python("-m", "millrace.trace", "-o", self.trace, script, *arguments,
                                 MILLRACE_TRACE_LIBRARY=str(LIBRARY), **QUIET_TRACKER)
        self.assertEqual((plain.stdout, plain.stderr), (traced.stdout, traced.stderr))
        return Recording(self.trace)

    def check_training(self, recording):
        """Checks the regions of the training process, which do not depend on the workers."""
        waits = recording.named("batch_wait")
        self.assertEqual(places(waits), STEPS)
        main = waits[0].process
        self.assertEqual({region.process for region in waits}, {main})
        for name in ("forward", "backward", "optimizer"):
            regions = recording.named(name)
            self.assertEqual(places(regions), STEPS, name)
            self.assertEqual({region.process for region in regions}, {main}, name)
        self.assertEqual(recording.named("forward")[0].tags, {"module": "Sequential", "training": 1})
        self.assertEqual(recording.named("optimizer")[0].tags, {"what": "SGD"})
        self.assertEqual([region.epoch for region in recording.named("setup")], [0, 1])
        for name in ("checkpoint", "restore"):
            self.assertEqual([region.tags for region in recording.named(name)],
                             [{"file": "model.pt"}])
        self.assertEqual(recording.named("not_marked"), [])
        return main

    def check_fetching(self, recording):
        fetches = recording.named("fetch")
        self.assertEqual(places(fetches), STEPS)
        self.assertEqual({region.tags["samples"] for region in fetches}, {4})
        reads = recording.named("read")
        self.assertEqual(collections.Counter(region.tags["index"] for region in reads),
                         {index: 2 for index in range(24)})
        for name, count in (("read", 48), ("transform", 48), ("collate", 12)):
            regions = recording.named(name)
            self.assertEqual(len(regions), count, name)
            for region in regions:  # each is inside its batch
                self.assertTrue(any(
                    fetch.process == region.process and fetch.begin <= region.begin
                    and region.end <= fetch.end and (fetch.epoch, fetch.step)
                    == (region.epoch, region.step) for fetch in fetches), region)
        self.assertEqual(recording.named("transform")[0].tags, {"what": "Scale"})
        return fetches

    def test_without_workers_fetches_are_inside_waits(self):
        recording = self.train(0, "", "-")
        main = self.check_training(recording)
        for fetch, wait in zip(self.check_fetching(recording), recording.named("batch_wait")):
            self.assertEqual(fetch.process, main)
            self.assertTrue(wait.begin <= fetch.begin and fetch.end <= wait.end)

    def check_workers(self, *arguments, processes: int):
        recording = self.train(*arguments)
        main = self.check_training(recording)
        fetches = self.check_fetching(recording)
        self.assertNotIn(main, {region.process for region in fetches})
        self.assertEqual(len({region.process for region in fetches}), processes)
        for fetch in fetches:  # batches are assigned in turn
            self.assertEqual(fetch.tags["worker"], fetch.step % int(arguments[0]))

    def test_four_forked_workers(self):
        self.check_workers(4, "fork", "-", processes=8)

    def test_persistent_forked_workers(self):
        self.check_workers(4, "fork", "persistent", processes=4)

    def test_spawned_workers(self):
        self.check_workers(2, "spawn", "-", processes=4)

    def test_workers_of_a_fork_server(self):
        self.check_workers(2, "forkserver", "persistent", processes=2)

    def test_iterable_datasets_and_epochs_set_by_the_program(self):
        script = self.write("train.py", """
            import torch
            from millrace import trace
            from torch.utils.data import DataLoader, IterableDataset

            class Stream(IterableDataset):
                def __iter__(self): return iter([torch.ones(2)] * 5)

            loader = DataLoader(Stream(), batch_size=2, num_workers=1)
            for epoch in range(10, 12):
                trace.set_epoch(epoch)
                assert [len(batch) for batch in loader] == [2, 2, 1]
            """)
        recording = self.record_script(script)
        expected = [(epoch, step) for epoch in (10, 11) for step in range(3)]
        for name in ("batch_wait", "fetch"):
            self.assertEqual(places(recording.named(name)), expected, name)
        self.assertEqual(len(recording.named("read")), 10)

    def test_a_new_loader_in_the_same_loop_is_the_next_epoch(self):
        script = self.write("train.py", """
            from torch.utils.data import DataLoader

            def steps(loader):
                for batch in loader:
                    pass

            for epoch in range(3):
                steps(DataLoader(list(range(8)), batch_size=4, num_workers=epoch % 2))
                steps(DataLoader(list(range(4)), batch_size=4))  # another dataset, the same line
            for batch in DataLoader(list(range(8)), batch_size=4):
                pass
            """)
        recording = self.record_script(script)
        expected = [(epoch, step) for epoch in range(3) for step in (0, 0, 1)] + [(0, 0), (0, 1)]
        for name in ("batch_wait", "fetch"):
            self.assertEqual(places(recording.named(name)), sorted(expected), name)

    def test_an_evaluation_belongs_to_the_epoch_around_it(self):
        script = self.write("train.py", """
            import torch
            from torch.utils.data import DataLoader, TensorDataset

            data = TensorDataset(torch.arange(6.0))
            training = DataLoader(data, batch_size=2, shuffle=True)
            for epoch in range(2):
                for batch in training:
                    with torch.no_grad():
                        for _ in DataLoader(data, batch_size=3): pass
                        for _ in DataLoader(data, batch_size=6, num_workers=1): pass
            """)
        recording = self.record_script(script)
        self.assertEqual({region.epoch for region in recording.named("batch_wait")}, {0, 1})
        reads = recording.named("read")
        indexed = [region for region in reads if "index" in region.tags]
        self.assertEqual(len(indexed), 2 * 6)  # those of the training
        self.assertEqual(len(reads), 2 * (6 + 3 * (6 + 6)))

    def test_the_index_of_a_subset_is_that_in_its_dataset(self):
        script = self.write("train.py", """
            import torch
            from torch.utils.data import DataLoader, Subset, TensorDataset

            data = TensorDataset(torch.arange(6.0))
            for indices in ([5, 3], torch.tensor([4, 2])):
                for batch in DataLoader(Subset(data, indices), batch_size=2): pass
            """)
        recording = self.record_script(script)
        indexes = [region.tags["index"] for region in recording.named("read")]
        self.assertEqual(sorted(indexes), [2, 3, 4, 5])

    def test_decoders_and_parsers_are_marked_while_a_loader_loads(self):
        script = self.write("train.py", """
            import gzip, io, json, zipfile, zlib
            from torch.utils.data import DataLoader, IterableDataset

            packed, text = zlib.compress(bytes(1000)), gzip.compress(b"[1, 2]")
            with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("a", bytes(1000))

            class Samples(IterableDataset):
                def __iter__(self):
                    for _ in range(3):
                        with gzip.open(io.BytesIO(text)) as file:
                            values = json.load(file)
                        with zipfile.ZipFile("a.zip") as archive:
                            yield values[0] + len(archive.read("a")) + len(zlib.decompress(packed))

            for workers in (0, 1):
                assert [value.tolist() for (value,) in DataLoader(Samples(), num_workers=workers)] \\
                    == [2001] * 3
            assert json.loads("[1]") == [1]  # nothing is loaded
            zlib.decompress(packed)
            assert json.loads.__name__ == "loads"
            """)
        recording = self.record_script(script)
        self.assertEqual(len(recording.named("parse")), 2 * 3)
        unpacked = recording.named("decompress")
        self.assertGreaterEqual(len(unpacked), 2 * 3 * 3)
        reads = recording.named("read")
        self.assertTrue(all(any(read.begin <= region.begin and region.end <= read.end
                                for read in reads) for region in unpacked))
        self.assertEqual({read.tags.get("stream") for read in reads}, {1})

    @unittest.skipUnless(importlib.util.find_spec("PIL"), "needs PIL")
    def test_decoding_an_image_is_marked_once(self):
        script = self.write("train.py", """
            import io
            import torch
            from torch.utils.data import DataLoader, Dataset
            from PIL import Image

            stored = io.BytesIO()
            Image.new("RGB", (8, 8)).save(stored, "PNG")

            class Images(Dataset):
                def __len__(self): return 4
                def __getitem__(self, index):
                    image = Image.open(io.BytesIO(stored.getvalue()))
                    image.load()
                    return torch.tensor(image.convert("L").resize((2, 2)).getpixel((0, 0)))

            for batch in DataLoader(Images()): pass
            """)
        recording = self.record_script(script)
        self.assertEqual(len(recording.named("decode")), 4)

    def test_a_failing_worker_fails_as_without_the_tracer(self):
        script = self.write("train.py", """
            from torch.utils.data import DataLoader

            class Broken:
                def __len__(self): return 4
                def __getitem__(self, index): raise ValueError(f"sample {index} is broken")

            try:
                list(DataLoader(Broken(), num_workers=1))
            except ValueError as error:
                assert "sample 0 is broken" in str(error)
                print("failed as it should")
            """)
        recording = self.record_script(script)
        self.assertEqual(recording.named("fetch")[0].tags["error"], "ValueError")
        self.assertEqual(recording.named("read")[0].tags, {"index": 0, "error": "ValueError"})
        self.assertEqual(recording.named("batch_wait")[0].tags, {"error": "ValueError"})

    def test_the_rank_comes_from_the_process_group(self):
        script = self.write("train.py", """
            import torch.distributed as distributed
            distributed.init_process_group("gloo", init_method="file://" + __file__ + ".store",
                                           rank=0, world_size=1)
            distributed.destroy_process_group()
            """)
        recording = self.record_script(script)
        self.assertIn((0, 1), [(process.rank, process.world_size)
                               for process in recording.processes])

    def test_nested_torchvision_transforms_are_recorded_once(self):
        script = self.write("train.py", """
            import torch
            from torch.utils.data import DataLoader
            from torchvision import transforms

            change = transforms.Compose([transforms.Normalize([0.5], [0.5]),
                                         transforms.Lambda(lambda image: image * 2)])

            class Images:
                def __len__(self): return 3
                def __getitem__(self, index): return change(torch.ones(1, 2, 2))

            assert sum(batch.sum().item() for batch in DataLoader(Images())) == 24
            transforms.Lambda(abs)(-1)
            """)
        recording = self.record_script(script)
        self.assertEqual([region.tags["what"] for region in recording.named("transform")],
                         ["Compose"] * 3 + ["Lambda"])

    def test_checkpoints_of_other_libraries_are_marked(self):
        """torch.distributed.checkpoint under its name of each version; a stand-in if safetensors is not installed."""
        if importlib.util.find_spec("safetensors") is None:
            (self.folder / "safetensors").mkdir()
            self.write("safetensors/__init__.py", "")
            self.write("safetensors/torch.py", """
    def save_file(tensors, filename, metadata=None): open(filename, "w").close()
    def load_file(filename, device="cpu"): return {"x": 0}
    """)
        recording = self.record_script(self.write("save.py", """
    import os, torch
    import safetensors.torch
    try:
        import torch.distributed.checkpoint as dcp  # since PyTorch 2.0
    except ImportError:
        dcp = None
    safetensors.torch.save_file({"x": torch.ones(3)}, "a.safetensors")
    assert list(safetensors.torch.load_file(filename="a.safetensors")) == ["x"]
    state = {"x": torch.ones(3)}
    if hasattr(dcp, "save"):
        dcp.save(state, checkpoint_id="sharded", no_dist=True)
        dcp.load(state, checkpoint_id="sharded", no_dist=True)
    elif dcp is not None:
        os.mkdir("sharded")
        dcp.save_state_dict(state, dcp.FileSystemWriter("sharded"), no_dist=True)
        dcp.load_state_dict(state, dcp.FileSystemReader("sharded"), no_dist=True)
    """))
        self.assertEqual(recording.named("not_marked"), [])
        for name in ("checkpoint", "restore"):
            regions = recording.named(name)
            self.assertEqual(regions[0].tags, {"file": "a.safetensors"})
            self.assertEqual(len(regions), 2 if (self.folder / "sharded").exists() else 1, name)
            self.assertIn(regions[-1].tags, ({}, {"file": "sharded"}, {"file": "a.safetensors"}))


if __name__ == "__main__":
    unittest.main()
