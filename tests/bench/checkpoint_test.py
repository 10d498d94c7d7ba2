"""Checkpoints compared with what other programs see: strace counts their fsyncs, zipfile and torch.load read their files, and
a kill leaves no half checkpoint.

Usage: checkpoint_test.py CHECKPOINT_ACTIONS [unittest arguments]"""

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

PROGRAM = sys.argv[1]

try:
    import torch
except ImportError:
    torch = None


def can_trace() -> bool:
    """Whether strace is installed and allowed here."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.scratch = Path(directory.name)
        self.folder = self.scratch / "checkpoints"

    def run_ok(self, *arguments, before=()) -> str:
        # Leak detection does not work under strace.
        environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0") if before else None
        done = subprocess.run([*before, PROGRAM, str(self.folder), *arguments], capture_output=True, text=True,
                              env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def run_failing(self, *arguments) -> str:
        done = subprocess.run([PROGRAM, str(self.folder), *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def calls(self, log: Path, name: str) -> list[str]:
        return re.findall(rf"^\d+ +{name}\(.*$", log.read_text(), re.M)


@unittest.skipUnless(can_trace(), "needs strace")
class SystemCalls(CheckpointTest):
    def trace(self, *arguments) -> tuple[str, Path]:
        log = self.scratch / "strace.log"
        traced = ["strace", "-f", "-y", "-o", str(log), "-e", "trace=fsync,fdatasync,pwrite64,openat"]
        return self.run_ok(*arguments, before=traced), log

    def test_fsync_is_issued_for_each_file_and_both_folders(self):
        for mode in ["sync", "async", "local_flush"]:
            with self.subTest(mode):
                output, log = self.trace("model=transformer", "ranks=2", "fsync=1", f"mode={mode}",
                                         f"local={self.scratch}/local", "save:1.1", "save:1.2")
                synced = self.calls(log, "fsync")
                # Two checkpoints; two files of each of two ranks; the folder of the checkpoint and that of all.
                self.assertEqual(len(synced), 2 * (2 * 2 + 2), synced)
                self.assertEqual(sum(int(n) for n in re.findall(r"fsyncs (\d+)", output)), len(synced))
                self.assertEqual(sum("_states.pt>" in call for call in synced), 2 * 4)

    def test_without_fsync_there_is_none(self):
        output, log = self.trace("model=transformer", "save:1.1")
        self.assertEqual(self.calls(log, "fsync") + self.calls(log, "fdatasync"), [])
        self.assertIn("fsyncs 0", output)

    def test_writes_have_the_size_of_the_buffer(self):
        _, log = self.trace("model=1000000", "buffer=131072", "save:1.1")
        sizes = [int(size) for size in re.findall(r", (\d+), \d+\) = \d+$", "\n".join(self.calls(log, "pwrite64")), re.M)]
        self.assertEqual(set(sizes[:-1]), {131072})

    def test_direct_files_are_opened_directly(self):
        try:
            _, log = self.trace("model=1000000", "odirect=1", "save:1.1")
        except AssertionError as failure:
            if "does not support direct I/O" in str(failure):
                self.skipTest("the file system of temporary files has no O_DIRECT")
            raise
        opened = [call for call in self.calls(log, "openat") if "model_states-0.pt" in call]
        self.assertTrue(opened and all("O_DIRECT" in call for call in opened), opened)


class Files(CheckpointTest):
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("global_epoch*/*.pt"))

    def test_zipfile_accepts_every_checksum(self):
        self.run_ok("model=transformer", "ranks=2", "save:1.1")
        self.run_ok("model=groups", "save:1.2")
        self.assertEqual(len(self.files()), 4 + 3)
        for path in self.files():
            with zipfile.ZipFile(path) as archive:
                self.assertIsNone(archive.testzip(), path)
                self.assertIn("archive/data.pkl", archive.namelist())
                self.assertEqual(archive.read("archive/version"), b"3\n")

    @unittest.skipIf(torch is None, "needs torch")
    def test_torch_loads_random_tensors(self):
        self.run_ok("model=transformer", "save:1.1")
        model, optimizer = [torch.load(path) for path in self.files()]
        self.assertEqual(list(model), [str(i) for i in range(5)])
        self.assertEqual(list(model["1"]), [str(i) for i in range(6)])
        self.assertEqual(model["0"]["0"].dtype, torch.float16)
        self.assertEqual(model["0"]["0"].numel(), 64000)
        self.assertEqual(list(optimizer), [str(i) for i in range(6)])
        self.assertEqual(optimizer["1"].dtype, torch.float32)
        self.assertEqual(optimizer["1"].numel(), 5 * 64)
        for path in self.files():
            self.assertTrue(torch.load(path, weights_only=True))

    @unittest.skipIf(torch is None, "needs torch")
    def test_torch_loads_constant_tensors_of_each_type(self):
        types = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64,
                 "int8": torch.int8, "uint8": torch.uint8, "int32": torch.int32}
        for name, dtype in types.items():
            with self.subTest(name):
                self.run_ok("model=transformer", f"datatype={name}", "randomize=0", "save:1.1")
                model = torch.load(self.files()[0])
                self.assertEqual(model["2"]["1"].dtype, dtype)
                self.assertTrue(bool((model["2"]["1"] == 1).all()))

    @unittest.skipIf(torch is None, "needs torch")
    def test_torch_loads_dlios_older_groups(self):
        self.run_ok("model=groups", "randomize=0", "save:1.1")
        by_name = {path.name: torch.load(path) for path in self.files()}
        self.assertEqual({name for name in by_name}, {
            "model_states-0.pt", "zero_pp_rank_0_mp_rank_0_model_states.pt", "zero_pp_rank_0_mp_rank_0_optim_states.pt"})
        optimizer = by_name["zero_pp_rank_0_mp_rank_0_optim_states.pt"]
        self.assertEqual(set(optimizer), {"0", "1", "combined"})
        self.assertEqual(optimizer["0"]["b"].numel(), 5000)
        self.assertEqual(optimizer["combined"].numel(), 5300)
        self.assertEqual(by_name["model_states-0.pt"]["a"].numel(), 10240)

    @unittest.skipIf(torch is None, "needs torch")
    def test_what_torch_wrote_can_be_read_without_verifying(self):
        self.run_ok("model=transformer", "save:1.1")
        for path in self.files():
            torch.save(torch.load(path), path)
        self.assertIn("written for another model", self.run_failing("model=transformer", "load:1.1"))
        self.run_ok("model=transformer", "verify=0", "load:1.1")

    def test_the_pickle_is_plain(self):
        """Nothing but the names that torch.load(weights_only=True) allows."""
        self.run_ok("model=transformer", "save:1.1")
        names = set()

        class Unpickler(pickle.Unpickler):
            def find_class(self, module, name):
                names.add(f"{module}.{name}")
                return dict if name == "OrderedDict" else lambda *arguments: arguments

            def persistent_load(self, key):
                return key

        for path in self.files():
            with zipfile.ZipFile(path) as archive, archive.open("archive/data.pkl") as data:
                state = Unpickler(data).load()
                self.assertTrue(all(isinstance(key, str) for key in state))
        self.assertEqual(names, {"torch._utils._rebuild_tensor_v2", "collections.OrderedDict", "torch.HalfStorage",
                                 "torch.FloatStorage"})


class Kills(CheckpointTest):
    def test_a_killed_run_leaves_no_checkpoint_and_the_next_one_cleans_up(self):
        self.run_ok("model=1000000", "save:1.1")
        running = subprocess.Popen([PROGRAM, str(self.folder), "model=40000000000", "buffer=4096", "save:1.2"])
        partial = self.folder / ".partial-global_epoch1_step2"
        deadline = time.monotonic() + 60
        while not list(partial.glob("*.pt")) and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.wait()
        self.assertTrue(list(partial.glob("*.pt")))
        self.assertEqual([path.name for path in self.folder.glob("global*")], ["global_epoch1_step1"])
        self.assertIn("there is no such checkpoint; the folder has global_epoch1_step1",
                      self.run_failing("model=1000000", "load:1.2"))
        self.assertEqual(os.listdir(self.folder), ["global_epoch1_step1"])
        self.run_ok("model=1000000", "load:1.1")

    def test_a_rank_that_fails_stops_all(self):
        self.run_ok("model=transformer", "ranks=3", "save:1.1")
        os.truncate(self.folder / "global_epoch1_step1/zero_pp_rank_1_mp_rank_0_model_states.pt", 1000)
        message = self.run_failing("model=transformer", "ranks=3", "load:1.1")
        self.assertTrue(message.startswith("rank 1: "), message)
        self.assertIn("has 1000 bytes instead of", message)


class Sizes(CheckpointTest):
    def test_a_shard_needs_no_memory(self):
        """A tensor of 512 MB, written and read with a buffer of 1 MiB."""
        running = subprocess.Popen([PROGRAM, str(self.folder), "model=512000000", "buffer=1048576", "save:1.1", "load:1.1"],
                                   stdout=subprocess.DEVNULL)
        _, running.returncode, usage = os.wait4(running.pid, 0)
        self.assertEqual(running.returncode, 0)
        self.assertLess(usage.ru_maxrss, 256 << 10)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
