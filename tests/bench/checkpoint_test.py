"""Checkpoints compared with what other programs see: strace counts their fsyncs, zipfile, torch.load and
TensorFlow read their files, and a kill leaves no half checkpoint.

Usage: checkpoint_test.py CHECKPOINT_ACTIONS [unittest arguments]"""

import os
import pickle
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "format"))
from tfrecord_file import masked  # noqa: E402

PROGRAM = sys.argv[1]

try:
    import torch
except ImportError:
    torch = None
try:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow
except ImportError:
    tensorflow = None


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
        shards = "\n".join(call for call in self.calls(log, "pwrite64") if ".pt>" in call)
        sizes = [int(size) for size in re.findall(r", (\d+), \d+\) = \d+$", shards, re.M)]
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


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at this place, and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def message(data: bytes) -> dict[int, list]:
    """The fields of a protobuf message: numbers, or bytes."""
    fields: dict[int, list] = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size
        else:
            assert key & 7 == 5, key
            value, at = struct.unpack_from("<I", data, at)[0], at + 4
        fields.setdefault(key >> 3, []).append(value)
    return fields


class Table:
    """A reader of TensorFlow's sorted tables, written from docs/formats/tensorflow-checkpoint.md."""

    def __init__(self, data: bytes):
        self.data = data
        footer = data[-48:]
        assert footer[40:] == bytes.fromhex("57fb808b247547db")
        numbers, at = [], 0
        for _ in range(4):
            number, at = varint(footer, at)
            numbers.append(number)
        assert self.block(*numbers[:2]) == {}
        self.blocks = self.block(*numbers[2:], keys_per_restart=1)
        self.entries = {}
        for last_key, handle in self.blocks.items():
            offset, at = varint(handle, 0)
            entries = self.block(offset, varint(handle, at)[0])
            assert max(entries) <= last_key
            self.entries |= entries
        assert list(self.entries) == sorted(self.entries)

    def block(self, offset: int, size: int, keys_per_restart: int = 16) -> dict[bytes, bytes]:
        kind, crc = struct.unpack_from("<BI", self.data, offset + size)
        assert kind == 0 and crc == masked(self.data[offset:offset + size + 1])
        block = self.data[offset:offset + size]
        restart_count, = struct.unpack("<I", block[-4:])
        restarts = struct.unpack_from(f"<{restart_count}I", block, size - 4 - 4 * restart_count)
        entries, key, at = {}, b"", 0
        while at < size - 4 - 4 * restart_count:
            is_restart = at in restarts
            assert is_restart == (len(entries) % keys_per_restart == 0)
            shared, at = varint(block, at)
            assert not (is_restart and shared)
            own, at = varint(block, at)
            value, at = varint(block, at)
            key = key[:shared] + block[at:at + own]
            entries[key] = block[at + own:at + own + value]
            at += own + value
        return entries


class TensorFlow(CheckpointTest):
    """Checkpoints of layout tensorflow, read from the description of their bytes and, if it is there, by TensorFlow."""

    TYPES = {1: 4, 4: 1, 6: 1, 19: 2}  # bytes of float32, uint8, int8, float16

    def read(self, checkpoint: str = "global_epoch1_step5", step: int = 5) -> dict[str, tuple[int, int]]:
        """The type and number of elements of each tensor, with all checksums verified."""
        prefix = self.folder / checkpoint / f"model.ckpt-{step}"
        table = Table(prefix.with_name(prefix.name + ".index").read_bytes())
        header = message(table.entries.pop(b""))
        shards = [prefix.with_name(f"{prefix.name}.data-{i:05}-of-{header[1][0]:05}").read_bytes()
                  for i in range(header[1][0])]
        self.assertEqual(message(header[3][0]), {1: [1]})
        ends = [0] * len(shards)
        tensors = {}
        for key, value in table.entries.items():
            entry = message(value)
            shard, offset, size = entry.get(3, [0])[0], entry.get(4, [0])[0], entry[5][0]
            count = message(message(entry[2][0])[2][0])[1][0]
            self.assertEqual(size, count * self.TYPES[entry[1][0]])
            data = shards[shard][offset:offset + size]
            self.assertEqual(len(data), size)
            self.assertEqual(entry[6][0], masked(data), key)
            ends[shard] = max(ends[shard], offset + size)
            tensors[key.decode()] = (entry[1][0], count)
        self.assertEqual(ends, [len(shard) for shard in shards])
        return tensors

    def test_sizes_are_those_that_were_asked_for(self):
        sizes = [1024, 73403, 335544, 4608]  # L2HMC's, with less data
        self.run_ok("layout=tensorflow", "sizes=" + ",".join(map(str, sizes)), "save:1.5", "load:1.5")
        found = [(self.folder / "global_epoch1_step5" / name).stat().st_size
                 for name in ["checkpoint", "model.ckpt-5.data-00000-of-00001", "model.ckpt-5.meta", "model.ckpt-5.index"]]
        self.assertEqual(found, sizes)
        tensors = self.read()
        self.assertGreater(len(tensors), 100)
        self.assertEqual(tensors["rest"], (4, 3))

    def test_the_tensors_are_those_of_the_model(self):
        self.run_ok("layout=tensorflow", "model=transformer", "ranks=2", "save:1.5", "load:1.5")
        tensors = self.read()
        self.assertEqual(tensors["zero_pp_rank_1_mp_rank_0_model_states/0/0"], (19, 32000))
        self.assertEqual(tensors["zero_pp_rank_0_mp_rank_0_optim_states/1"], (1, 5 * 64))
        self.assertEqual(len(tensors), 2 * (3 + 2 * 6 + 6))

    def test_a_table_of_several_blocks(self):
        self.run_ok("layout=tensorflow", "sizes=0,200000,0,600000", "save:1.5")
        tensors = self.read()
        self.assertGreater(len(tensors), 20000)
        index = (self.folder / "global_epoch1_step5/model.ckpt-5.index").read_bytes()
        self.assertEqual(len(index), 600000)
        self.assertGreater(len(Table(index).blocks), 1)

    def test_the_graph_restores_every_tensor(self):
        self.run_ok("layout=tensorflow", "sizes=0,100002,200000,2000", "save:1.5")
        tensors = self.read()
        meta = message((self.folder / "global_epoch1_step5/model.ckpt-5.meta").read_bytes())
        saver = message(meta[3][0])
        self.assertEqual([saver[i][0] for i in (1, 2, 3)], [b"save/Const:0", b"save/Const:0", b"save/restore_all"])
        nodes = [message(node) for node in message(meta[2][0])[1]]
        by_name = {node[1][0].decode(): node for node in nodes}
        self.assertEqual({name for name, node in by_name.items() if node[2] == [b"VariableV2"]}, set(tensors))
        assigned = {by_name[name[1:].decode()][3][0].decode() for name in by_name["save/restore_all"][3]}
        self.assertEqual(assigned, set(tensors))
        for node in nodes:
            for name in node.get(3, []):
                self.assertIn(name.decode().lstrip("^").split(":")[0], by_name)

    def test_a_flipped_byte_is_named(self):
        sizes = "sizes=1000,100000,200000,4500"
        self.run_ok("layout=tensorflow", sizes, "save:1.5")
        for name, at, what in [("model.ckpt-5.data-00000-of-00001", 50000, "tensor 'variable_00"),
                               ("model.ckpt-5.index", 100, "the table"), ("model.ckpt-5.meta", 100, "the graph"),
                               ("model.ckpt-5.meta", 199999, "the graph's constant"), ("checkpoint", 3, "the text")]:
            path = self.folder / "global_epoch1_step5" / name
            right = path.read_bytes()
            path.write_bytes(right[:at] + bytes([right[at] ^ 1]) + right[at + 1:])
            failure = self.run_failing("layout=tensorflow", sizes, "load:1.5")
            self.assertIn(f"{path}: byte {at} ({what}", failure)
            self.assertIn("load an older checkpoint", failure)
            path.write_bytes(right)
        self.run_ok("layout=tensorflow", sizes, "load:1.5")

    @unittest.skipIf(tensorflow is None, "needs tensorflow")
    def test_tensorflow_restores_it(self):
        for model in ["transformer", "groups", "300000"]:
            self.run_ok("layout=tensorflow", f"model={model}", "ranks=2", "type=all_ranks", "save:1.5")
            self.check_with_tensorflow(self.read())
        self.run_ok("layout=tensorflow", "sizes=1024,7340032,33554432,4608", "save:1.5")
        self.check_with_tensorflow(None)

    def check_with_tensorflow(self, tensors):
        tf = tensorflow.compat.v1
        prefix = tf.train.latest_checkpoint(str(self.folder / "global_epoch1_step5"))
        reader = tf.train.load_checkpoint(prefix)
        listed = tf.train.list_variables(prefix)
        if tensors is not None:
            self.assertEqual({name: shape for name, shape in listed}, {name: [count] for name, (_, count) in tensors.items()})
        with tf.Graph().as_default(), tf.Session() as session:
            tf.train.import_meta_graph(prefix + ".meta").restore(session, prefix)
            for name, _ in listed:
                self.assertEqual(session.run(name + ":0").tobytes(), reader.get_tensor(name).tobytes())


class Kills(CheckpointTest):
    def test_a_killed_run_leaves_no_checkpoint_and_the_next_one_cleans_up(self):
        self.run_ok("model=1000000", "save:1.1")
        running = subprocess.Popen([PROGRAM, str(self.folder), "model=40000000000", "buffer=4096", "save:1.2"])
        partial = ".partial-global_epoch1_step2-*/*.pt"
        deadline = time.monotonic() + 60
        while not list(self.folder.glob(partial)) and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.wait()
        self.assertTrue(list(self.folder.glob(partial)))
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
