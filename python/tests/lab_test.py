#!/usr/bin/env python3
"""millrace.lab: its shards are the loader's, its workers those of data parallelism, its answers and errors plain."""

import contextlib
import errno
import gzip
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path
from unittest import mock

try:
    import numpy
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(0)

import millrace
from millrace.lab import _command, datasets, models, results, shards, training
from millrace.loader._native import native

torch.set_num_threads(1)


def lab(*arguments: str) -> tuple:
    """The exit status, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = _command.main([*arguments])
        except SystemExit as exit:  # by argparse
            code = exit.code
    return code, out.getvalue(), err.getvalue()


def labels(count: int = 1200, classes: int = 10) -> numpy.ndarray:
    return numpy.arange(count) * 7 % classes


class InFolder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)


class Files(InFolder):
    def idx(self, content: bytes) -> Path:
        path = self.folder / "images.gz"
        path.write_bytes(gzip.compress(content))
        return path

    def test_reads_an_idx_file(self):
        header = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3])
        images = datasets.read_idx(self.idx(header + bytes(range(6))), 3)
        self.assertEqual(images.tolist(), [[[0, 1, 2]], [[3, 4, 5]]])

    def test_names_what_is_wrong_in_an_idx_file(self):
        header = bytes([0, 0, 8, 1, 0, 0, 0, 4])
        for content, message in ((header + bytes(3), "says 4 bytes, but 3 follow"),
                                 (header + bytes(5), "says 4 bytes, but 5 follow"),
                                 (bytes([0, 0, 8, 3]) + header[4:] + bytes(4), "begins with 00000803"),
                                 (header[:6], "ends in its header"), (b"", "begins with ,"),
                                 (bytes([0, 0, 8, 1, 255, 255, 255, 255]), "says 4294967295 bytes"),
                                 (bytes([0, 0, 8, 1, 0, 0, 0, 0]), "says 0 bytes")):
            with self.assertRaisesRegex(datasets.LabError, message):
                datasets.read_idx(self.idx(content), 1)
        whole = gzip.compress(header + bytes(4))
        (self.folder / "images.gz").write_bytes(whole[:-6])
        with self.assertRaisesRegex(datasets.LabError, "cannot read it"):
            datasets.read_idx(self.folder / "images.gz", 1)

    def test_says_how_to_install_what_is_missing(self):
        code, _, err = lab("--dataset", "fashion-mnist", "--folder", str(self.folder))
        self.assertEqual(code, 1)
        self.assertIn("apt install dataset-fashion-mnist", err)
        code, _, err = lab("--dataset", "cifar-10")
        self.assertEqual(code, 1)
        self.assertIn("benchmarks/gpu/cifar10.py", err)

    def test_reads_cifar_batches_and_refuses_others(self):
        record = bytes([3]) + bytes([10]) * 1024 + bytes([20]) * 1024 + bytes([30]) * 1024
        for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
            (self.folder / f"{name}.bin").write_bytes(2 * record)
        dataset = datasets.cifar10(self.folder)
        self.assertEqual(tuple(dataset.train.shape), (10, 3, 32, 32))
        self.assertEqual(dataset.train[0, :, 31, 31].tolist(), [10, 20, 30])
        self.assertEqual(dataset.test_labels.tolist(), [3, 3])
        for content, message in ((record[:-1], "3072 bytes are not a number of records"),
                                 (bytes([10]) + record[1:], "a label is 10"), (b"", "0 bytes")):
            (self.folder / "test_batch.bin").write_bytes(content)
            with self.assertRaisesRegex(datasets.LabError, message):
                datasets.cifar10(self.folder)


class Sharding(unittest.TestCase):
    def test_workers_have_the_samples_that_ranks_of_the_loader_have(self):
        for fraction in (0.0, 0.3, 1.0):
            held = shards.Shards(numpy.arange(103), 4, fraction, seed=5)
            options = {"shuffle": held.shuffle, "sample_count": 103, "seed": 5, "shard_count": 4}
            order = native.Order(**options, fraction=fraction if held.shuffle == "partial" else 0.0)
            for epoch in (0, 1, 6):
                positions = held.epoch(epoch)
                for worker in range(4):
                    share = native.Share(103, 0, worker, 4, 6, "drop")
                    of_rank = [sample for index in range(share.batch_count)
                               for sample in share.samples(order, epoch, index)[0]]
                    self.assertEqual(of_rank, positions[worker::4][:len(of_rank)].tolist())

    def test_a_loader_visits_the_same_samples(self):
        dataset = [torch.tensor([number]) for number in range(60)]
        loader = millrace.DataLoader(dataset, 5, millrace.Partial(0.3), seed=2, num_workers=0,
                                     world=millrace.World(1, 3))
        held = shards.Shards(numpy.arange(60), 3, 0.3, seed=2)
        for epoch in range(3):
            visited = [number for batch in loader for number in batch.flatten().tolist()]
            self.assertEqual(visited, held.epoch(epoch)[1::3].tolist())

    def test_counts_what_moves_and_what_is_stored(self):
        for fraction in (0.0, 0.25, 1.0):
            held, count = shards.Shards(numpy.arange(1200), 10, fraction, seed=1), shards.TrafficCount(10)
            for epoch in range(5):
                count.add(held.epoch(epoch))
            traffic = count.result()
            # A tenth of the samples has its own worker as target, and stays.
            self.assertAlmostEqual(traffic.exchanged_per_epoch, 1200 * fraction * 0.9, delta=60 * (fraction > 0))
            if fraction < 1:
                self.assertLessEqual(traffic.stored_max, (1 + fraction) * 120)

    def test_skew_is_that_of_the_classes(self):
        classes = labels()
        self.assertAlmostEqual(shards.skew(classes, classes, 10), 0.9)
        self.assertAlmostEqual(shards.skew(classes, numpy.arange(1200) // 120, 10), 0.0)
        drawn = numpy.random.RandomState(0).permutation(1200) % 10
        self.assertAlmostEqual(shards.skew(classes, drawn, 10), shards.random_skew(classes, 10), delta=0.03)

    def test_advice_follows_from_the_skew(self):
        classes = labels(12000)
        by_class = shards.advise(classes, shards.arrange(classes, "sorted", 0), 16, 8, 0)
        self.assertGreater(by_class.first, 0.8)
        self.assertTrue(0.15 <= by_class.fraction <= 0.4, by_class)
        self.assertIn("is likely to be enough", by_class.sentence("class-sorted", True))
        self.assertIn("no batch normalisation", by_class.sentence("class-sorted", False))
        longer = shards.advise(classes, shards.arrange(classes, "sorted", 0), 16, 80, 0)
        self.assertLess(longer.fraction, by_class.fraction)
        mixed = shards.advise(classes, shards.arrange(classes, "random", 0), 16, 8, 0)
        self.assertEqual(mixed.fraction, 0.0)
        self.assertIn("local shuffling (Q = 0) is likely to be enough", mixed.sentence("random", True))


class Workers(unittest.TestCase):
    def test_each_worker_normalises_with_its_own_samples(self):
        for shape in ((), (3, 2)):
            torch.manual_seed(0)
            norm = (torch.nn.BatchNorm2d if shape else torch.nn.BatchNorm1d)(5).double()
            torch.nn.init.uniform_(norm.weight)
            alone = [type(norm)(5).double() for _ in range(4)]
            for each in alone:
                each.load_state_dict(norm.state_dict())
            together = models.WorkerNorm(norm, 4).train()
            inputs = torch.randn(6 * 4, 5, *shape, dtype=torch.float64) + torch.arange(24).view(-1, 1, *[1] * len(shape))
            outputs = together(inputs)
            outputs.square().sum().backward()
            for worker, each in enumerate(alone):
                expected = each(inputs[worker::4])
                torch.testing.assert_close(outputs[worker::4], expected)
                torch.testing.assert_close(together.running_var.view(4, 5)[worker], each.running_var)
                expected.square().sum().backward()
            torch.testing.assert_close(together.weight.grad, sum(each.weight.grad for each in alone))
            mean, _ = together.statistics("mean")
            torch.testing.assert_close(mean, sum(each.running_mean for each in alone) / 4)
            torch.testing.assert_close(together.statistics("first")[0], alone[0].running_mean)

    def test_augmented_images_are_shifted_and_mirrored_images(self):
        images = torch.randint(1, 256, (20, 2, 6, 6), dtype=torch.uint8)
        one = torch.zeros(20, dtype=torch.int64)
        samples = training.Samples(datasets.Dataset("pictures", images, one, images, one, augment=True),
                                   torch.device("cpu"), torch.float32)
        samples.start_epoch(0, seed=3)
        chosen = torch.arange(20)
        padded = torch.nn.functional.pad(images, [4] * 4)
        for sample, image in enumerate(samples._augmented(chosen)):
            candidates = [padded[sample, :, y:y + 6, x:x + 6] for y in range(9) for x in range(9)]
            self.assertTrue(any(torch.equal(image, each) or torch.equal(image, each.flip(-1)) for each in candidates))
        again = samples._augmented(chosen.flip(0)).flip(0)
        self.assertTrue(torch.equal(again, samples._augmented(chosen)), "must not depend on the batch")

    def test_refuses_models_whose_statistics_are_not_per_worker(self):
        with self.assertRaisesRegex(datasets.LabError, "synchronised batch normalisation"):
            models.for_workers(torch.nn.Sequential(torch.nn.SyncBatchNorm(3)), 2)
        with self.assertRaisesRegex(datasets.LabError, "keeps no running statistics"):
            models.for_workers(torch.nn.Sequential(torch.nn.BatchNorm1d(3, track_running_stats=False)), 2)

    def test_every_model_trains(self):
        images = torch.randint(256, (40, 3, 16, 16), dtype=torch.uint8)
        classes = torch.arange(40) % 4
        dataset = datasets.Dataset("pictures", images, classes, images, classes)
        samples = training.Samples(dataset, torch.device("cpu"), torch.float32)
        held = shards.Shards(numpy.arange(40), 4, 0.5, 0)
        for optimizer in ("sgd", "lars"):
            for name, make in models.MODELS.items():
                recipe = training.Recipe(epochs=2, batch=5, optimizer=optimizer)
                run = training.Trainer(samples, lambda data, make=make: make(data, width=8), held, recipe, 0).run()
                self.assertTrue(all(map(math.isfinite, run.loss)), name)
                self.assertEqual(run.updates, 4)


class Statistics(unittest.TestCase):
    def test_intervals_are_those_of_student(self):
        self.assertAlmostEqual(results.half_interval([1.0, 2.0, 3.0]), 4.303 / math.sqrt(3))
        self.assertAlmostEqual(results.half_interval([1.0, 2.0]), 12.706 * math.sqrt(0.5) / math.sqrt(2))
        self.assertIsNone(results.half_interval([1.0]))
        self.assertEqual(results.half_interval([0.5] * 40), 0.0)

    def test_says_which_fraction_was_enough(self):
        group = [{"shards": "sorted", "workers": 8, "fraction": fraction, "accuracy": accuracy, "accuracy_interval": 0.002}
                 for fraction, accuracy in ((0.0, 0.3), (0.1, 0.85), (0.3, 0.878), (1.0, 0.88))]
        self.assertEqual(results.findings(group), ["8 workers, class-sorted shards: Q = 0 lost 58.0 points; Q = 0.3 was "
                                                   "enough (87.8 ± 0.2 % against 88.0 ± 0.2 % with Q = 1)."])


class Command(InFolder):
    def run_lab(self, *arguments: str) -> tuple:
        return lab("--output", str(self.folder / "out"), *arguments)

    def test_writes_a_table_curves_a_page_and_json(self):
        code, out, err = self.run_lab("--samples", "800", "--workers", "4,8", "--fractions", "0,0.5,1", "--epochs", "2",
                                      "--repeats", "2", "--shards", "sorted,random", "--batch", "20")
        self.assertEqual((code, err), (0, ""))
        report = json.loads((self.folder / "out" / "results.json").read_text())
        self.assertEqual(report["format"], "millrace-lab")
        self.assertEqual(len(report["conditions"]), 2 * 2 * 3)
        self.assertEqual(len(report["advice"]), 4)
        first = report["conditions"][0]
        self.assertEqual([len(first["accuracy_by_epoch"]), len(first["runs"]), first["shuffle"]], [2, 2, "local"])
        self.assertEqual(first["exchanged_samples_per_worker_and_epoch"], 0)
        self.assertEqual(first["stored_bytes_per_worker"], 200 * 32 * 4)
        self.assertIn("is likely to be enough", out)
        self.assertNotIn("\033", out)
        self.assertIn(f"{100 * first['accuracy']:.1f} ± ", (self.folder / "out" / "table.txt").read_text())
        picture = (self.folder / "out" / "curves.svg").read_text()
        self.assertEqual(xml.etree.ElementTree.fromstring(picture).tag, "{http://www.w3.org/2000/svg}svg")
        page = (self.folder / "out" / "page.html").read_text()
        self.assertIn(picture.strip(), page)
        self.assertNotIn("http://", page.replace('xmlns="http://www.w3.org/2000/svg"', ""))

    def test_json_is_all_that_is_printed(self):
        code, out, _ = self.run_lab("--samples", "400", "--workers", "4", "--fractions", "0", "--epochs", "1",
                                    "--repeats", "1", "--json")
        self.assertEqual(code, 0)
        self.assertIsNone(json.loads(out)["conditions"][0]["accuracy_interval"])

    def test_shards_that_are_given_twice_are_trained_once(self):
        code, out, _ = self.run_lab("--samples", "400", "--workers", "4", "--fractions", "0", "--epochs", "1",
                                    "--repeats", "1", "--shards", "random,random", "--json")
        self.assertEqual(code, 0)
        self.assertEqual(len(json.loads(out)["conditions"]), 1)

    def test_a_folder_that_cannot_be_written_is_named_before_training(self):
        (self.folder / "out").write_text("a file")
        with mock.patch.object(training.Trainer, "run", side_effect=AssertionError):
            code, _, err = self.run_lab("--samples", "400", "--workers", "4")
        self.assertEqual((code, err), (1, f"millrace.lab: cannot write {self.folder}/out: File exists; choose another "
                                          "folder with --output\n"))

    def test_results_of_others_are_not_replaced(self):
        usual = ("--samples", "400", "--workers", "4", "--fractions", "0", "--epochs", "1", "--repeats", "1")
        (self.folder / "out").mkdir()
        for name, text in (("table.txt", "mine"), ("results.json", '{"accuracy": 1}')):
            mine = self.folder / "out" / name
            mine.write_text(text)
            code, _, err = self.run_lab(*usual)
            self.assertEqual((code, err), (1, f"millrace.lab: {mine} exists, and millrace.lab did not write it, or it was changed "
                                              "since; remove it, or choose another folder with --output\n"))
            self.assertEqual(mine.read_text(), text)
            mine.unlink()
        (self.folder / "out" / ".table.txt.part").write_text("mine")
        for _ in range(2):  # the second replaces the first
            self.assertEqual(self.run_lab(*usual)[0], 0)
        self.assertEqual(sorted(os.listdir(self.folder / "out")),
                         [".table.txt.part", "curves.svg", "page.html", "results.json", "table.txt"])
        page = self.folder / "out" / "page.html"
        page.write_text("edited by hand")
        self.assertIn(f"{page} exists", self.run_lab(*usual)[2])
        self.assertEqual(page.read_text(), "edited by hand")

    def test_a_full_disk_is_named_with_the_file(self):
        full = OSError(errno.ENOSPC, "No space left on device")  # of a write: without the name of the file
        with mock.patch.object(Path, "replace", side_effect=full):
            code, _, err = self.run_lab("--samples", "400", "--workers", "4", "--epochs", "1", "--repeats", "1")
        self.assertEqual(code, 1)
        self.assertIn(f"cannot write {self.folder}/out/results.json: No space left on device", err)
        self.assertEqual(os.listdir(self.folder / "out"), [])
        if os.path.exists("/dev/full"):
            with open("/dev/full", "w") as out:
                run = subprocess.run([sys.executable, "-m", "millrace.lab", "--samples", "400", "--workers", "4",
                                      "--skew-only"], stdout=out, stderr=subprocess.PIPE, text=True)
            self.assertEqual((run.returncode, run.stderr),
                             (1, "millrace.lab: cannot write to standard output: No space left on device\n"))

    def test_skew_alone_needs_no_training(self):
        code, out, _ = self.run_lab("--workers", "16", "--skew-only")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"16 workers, class-sorted shards: class skew 0\.8\d .* is likely to be enough")
        self.assertFalse((self.folder / "out").exists())

    def test_colour_is_for_terminals_that_want_it(self):
        report = {"conditions": [{"shards": "sorted", "workers": 2, "fraction": fraction, "shuffle": "local", "updates": 1,
                                  "accuracy": 0.5 + fraction / 2, "accuracy_interval": None, "skew_by_epoch": [0.5],
                                  "exchanged_samples_per_worker_and_epoch": 0, "stored_samples_per_worker": 1,
                                  "seconds": 1.0} for fraction in (0.0, 1.0)],
                  "dataset": {"name": "d", "train": 1}, "model": "m", "recipe": {"epochs": 1, "optimizer": "sgd",
                                                                                 "precision": "float32"},
                  "seeds": [0], "ranks": None, "device": "cpu", "advice": [], "findings": []}
        self.assertIn("\033[31m", results.text(report, True))
        self.assertNotIn("\033", results.text(report, False))

    def test_wrong_arguments_are_named(self):
        for arguments, message in ((("--fractions", "0,1.5"), "1.5 is not between 0 (local shuffling) and 1"),
                                   (("--fractions", "-0.1"), "not between"), (("--fractions", "nan"), "not between"),
                                   (("--fractions", "a"), "not a list of numbers"),
                                   (("--workers", "0"), "0 workers cannot train"),
                                   (("--workers", "900", "--samples", "800"),
                                    "900 workers are more than the 800 training samples"),
                                   (("--workers", "200", "--samples", "800"), "fewer than its batch of 8"),
                                   (("--batch", "1"), "no variance"), (("--global-batch", "16"), "no variance"),
                                   (("--shards", "even"), "'even' is neither sorted nor random"),
                                   (("--epochs", "0"), "--epochs: 0 is not positive"),
                                   (("--lr", "nan"), "--lr"), (("--model", "vgg"), "is not MODULE:FUNCTION"),
                                   (("--model", ":net"), "is not MODULE:FUNCTION"),
                                   (("--data", ".near:load"), "is not MODULE:FUNCTION"),
                                   (("--seed", str(1 << 70)), "--seed: 1180591620717411303424 is not between"),
                                   (("--warmup", "5"), "more than the whole run"),
                                   (("--device", "meta"), "'meta' is neither cpu nor cuda"),
                                   (("--device", "cpux"), "'cpux' is neither cpu nor cuda"),
                                   (("--processes", "2"), "--processes is for real ranks"),
                                   (("--data", "a:b", "--dataset", "synthetic"), "either --dataset or --data")):
            code, _, err = self.run_lab(*(f"--fractions={arguments[1]}",) if arguments[0] == "--fractions" else arguments)
            self.assertEqual(code, 2, (arguments, err))
            self.assertIn(message, err)
            self.assertEqual(err.count("\n"), 1, err)

    def test_trains_the_users_model_on_the_users_data(self):
        (self.folder / "mine.py").write_text(
            "import numpy, torch\n"
            "def data():\n"
            "    x = numpy.random.RandomState(0).rand(200, 6).astype('float32')\n"
            "    return x, (x[:, 0] > 0.5).astype('int64'), x[:50], (x[:50, 0] > 0.5).astype('int64')\n"
            "def net():\n"
            "    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))\n"
            "def wide():\n"
            "    return torch.nn.Linear(7, 2)\n"
            "def narrow():\n"
            "    return torch.nn.Linear(6, 1)\n"
            "def fixed():\n"
            "    return torch.nn.Flatten()\n"
            "def holes():\n"
            "    x = torch.ones(9, 6)\n"
            "    x[4, 2] = float('nan')\n"
            "    return x, torch.arange(9) % 2, x[:3], torch.zeros(3).long()\n"
            "def pair():\n"
            "    return 1, 2\n"
            "def ragged():\n"
            "    return [[1, 2], [3]], [0, 1], [1], [2]\n"
            "def uneven():\n"
            "    return torch.zeros(5, 6), torch.zeros(4), torch.zeros(5, 6), torch.zeros(5)\n")
        usual = ("--workers", "2", "--fractions", "0,1", "--epochs", "1", "--repeats", "1")
        with mock.patch.object(sys, "path", [str(self.folder), *sys.path]):
            code, out, err = self.run_lab("--data", "mine:data", "--model", "mine:net", *usual)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("mine:net on mine:data: 200 samples", out)
            code, out, _ = self.run_lab("--data", "mine:data", "--model", "mine:net", *usual, "--lr", "1e38")
            self.assertEqual(code, 0)
            self.assertIn("the loss became NaN or infinite in 1 of 1 runs", " ".join(out.split()))
            for arguments, message in ((("--data", "mine:pair"), "nor four tensors"),
                                       (("--data", "mine:uneven"), "train has 5 samples, but train_labels has the shape"),
                                       (("--data", "mine:ragged"), "nor four tensors"),
                                       (("--model", "mine:pair"), "returned tuple, but must return a torch.nn.Module"),
                                       (("--data", "mine:holes"), "sample 4 of train has a value that is NaN"),
                                       (("--data", "mine:data", "--model", "mine:wide"),
                                        "cannot take samples of the shape (6,)"),
                                       (("--data", "mine:data", "--model", "mine:narrow"),
                                        "the shape (2, 1) for 2 samples, but the labels are 0 to 1: return (2, 2)"),
                                       (("--data", "mine:data", "--model", "mine:fixed"), "no parameters that could"),
                                       (("--data", "mine:none"), "mine has no function 'none'"),
                                       (("--model", "nowhere:net"), "cannot import nowhere")):
                code, _, err = self.run_lab(*arguments, *usual)
                self.assertEqual(code, 1, err)
                self.assertIn(message, err)


class Ranks(InFolder):
    USUAL = ("--dataset", "synthetic", "--samples", "1600", "--workers", "4", "--fractions", "0.3", "--epochs", "3",
             "--repeats", "1", "--batch", "10", "--precision", "float64", "--device", "cpu", "--quiet", "--json")

    def report(self, *arguments: str) -> dict:
        run = subprocess.run([sys.executable, "-m", "millrace.lab", *self.USUAL, "--output", str(self.folder / "out"),
                              *arguments], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def test_real_ranks_and_virtual_workers_have_the_same_losses(self):
        import torch.distributed
        if not torch.distributed.is_available():
            self.skipTest("this torch has no torch.distributed")
        virtual = self.report()["conditions"][0]["runs"][0]
        for count in ("2", "4"):
            real = self.report("--ranks", "gloo", "--processes", count)["conditions"][0]["runs"][0]
            for one, other in zip(virtual["loss"], real["loss"]):
                # float64: only the order of sums differs. Measured: 1e-14.
                self.assertAlmostEqual(one, other, delta=1e-10 * abs(one))
            self.assertEqual(virtual["accuracy"], real["accuracy"])

    def test_a_wrong_number_of_ranks_is_named_once(self):
        run = subprocess.run([sys.executable, "-m", "millrace.lab", *self.USUAL, "--ranks", "gloo", "--processes", "3"],
                             env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("4 workers cannot be divided evenly among 3 ranks", run.stderr)

    def test_ranks_end_with_the_process_that_started_them(self):
        import torch.distributed
        if not torch.distributed.is_available():
            self.skipTest("this torch has no torch.distributed")
        (self.folder / "slow.py").write_text(
            "import os, pathlib, time\n"
            "def load():\n"
            "    pathlib.Path(f'rank-{os.getpid()}').touch()\n"
            "    time.sleep(600)\n")
        for number, code in ((signal.SIGTERM, 1), (signal.SIGINT, 1)):
            path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
            run = subprocess.Popen([sys.executable, "-m", "millrace.lab", "--data", "slow:load", "--workers", "2",
                                    "--ranks", "gloo", "--processes", "2"], cwd=self.folder, stderr=subprocess.PIPE,
                                   env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}, text=True)
            while len(ranks := list(self.folder.glob("rank-*"))) < 2:
                self.assertIsNone(run.poll())
                time.sleep(0.05)
            run.send_signal(number)
            self.assertEqual(run.wait(), code)
            message = "millrace.lab: interrupted; the results of finished conditions are in millrace-lab\n"
            self.assertEqual(run.communicate()[1], message if number == signal.SIGINT else "")
            for rank in ranks:
                self.assertFalse(os.path.exists(f"/proc/{rank.name[5:]}"), "the rank still runs")
                rank.unlink()


if __name__ == "__main__":
    unittest.main()
