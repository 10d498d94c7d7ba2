"""Datasets that bench generates, read by numpy, Pillow and a TFRecord reader written from its description; and generation
that is killed, has no space, or may not write.

Usage: generate_test.py BENCH_DATASET [unittest arguments]"""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from pathlib import Path

import numpy

try:
    from PIL import Image
except ImportError:
    Image = None

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "format"))
from tfrecord_file import tfrecords  # noqa: E402

PROGRAM = sys.argv[1]


def run(verb: str, *arguments, before=(), **keys) -> subprocess.CompletedProcess:
    settings = [f"{key}={value}" for key, value in keys.items()]
    return subprocess.run([*before, PROGRAM, verb, *map(str, arguments), *settings], capture_output=True, text=True)


def hashes(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "millrace-manifest.json"]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def can_mount() -> bool:
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True)
    return done.returncode == 0


def fields(data: bytes) -> list[tuple[int, object]]:
    """The fields of a message of Protocol Buffers: bytes, or numbers."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                return value, at
    found, at = [], 0
    while at < len(data):
        key, at = varint(at)
        value, at = varint(at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        found.append((key >> 3, value))
    return found


class DatasetTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "data"

    def generate(self, **keys) -> Path:
        done = run("generate", data_folder=self.folder, **keys)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder

    def verified(self, **keys):
        done = run("verify", data_folder=self.folder, **keys)
        self.assertEqual(done.returncode, 0, done.stderr)


class OtherReadersTest(DatasetTest):
    def test_sizes_are_those_that_numpy_draws(self):
        for length, stdev in ((146600628, 68341808), (2828486, 71311), (100000, 90000)):
            done = run("dims", 1000, num_files_train=1000, record_length_bytes=length, record_length_bytes_stdev=stdev)
            numpy.random.seed(10)
            drawn = numpy.random.normal(int(length ** 0.5), stdev / 2 / length ** 0.5, 2000)
            wanted = [max(int(each), 1) for each in drawn]
            self.assertEqual([int(word) for word in done.stdout.split()], wanted)

    def test_numpy_reads_npz(self):
        keys = {"format": "npz", "num_files_train": 12, "record_length_bytes": 50000, "record_length_bytes_stdev": 9000}
        folder = self.generate(**keys)
        numpy.random.seed(10)
        for i in range(12):
            shape = [max(int(each), 1) for each in numpy.random.normal(223, 9000 / 2 / 50000 ** 0.5, 2)]
            with numpy.load(folder / f"train/img_{i:02}_of_12.npz") as arrays:
                self.assertEqual(sorted(arrays), ["x", "y"])
                self.assertEqual(arrays["x"].shape, (*shape, 1))
                self.assertEqual(arrays["x"].dtype, numpy.uint8)
                numpy.testing.assert_array_equal(arrays["y"], [0])
        self.verified(**keys)

    def test_the_last_axis_of_npz_and_npy_is_the_sample(self):
        for form in ("npz", "npy"):
            one = run("generate", data_folder=self.folder / form / "one", format=form, num_files_train=1,
                      record_dims="30x40", record_element_type="int16")
            many = run("generate", data_folder=self.folder / form / "many", format=form, num_files_train=1,
                       num_samples_per_file=7, record_dims="30x40", record_element_type="int16")
            self.assertEqual((one.returncode, many.returncode), (0, 0), one.stderr + many.stderr)
            load = lambda name: numpy.load(self.folder / form / name / f"train/img_0_of_1.{form}")
            one, many = load("one"), load("many")
            if form == "npz":
                one, many = one["x"], many["x"]
            self.assertEqual((one.shape, many.shape), ((30, 40, 1), (30, 40, 7)))
            numpy.testing.assert_array_equal(one[..., 0], many[..., 0])
            self.assertEqual(len({many[..., k].tobytes() for k in range(7)}), 7)

    def test_tfrecords_are_examples_with_image_and_size(self):
        keys = {"format": "tfrecord", "num_files_train": 2, "num_samples_per_file": 3, "record_length_bytes": 2500}
        folder = self.generate(**keys)
        payloads = list(tfrecords((folder / "train/img_1_of_2.tfrecord").read_bytes()))
        self.assertEqual(len(payloads), 3)
        for payload in payloads:
            ((_, features),) = fields(payload)
            found = {}
            for _, entry in fields(features):
                (_, name), (_, feature) = fields(entry)
                ((kind, values),) = fields(feature)
                found[name.decode()] = (kind, values)
            self.assertEqual(sorted(found), ["image", "size"])
            kind, image = found["image"]
            self.assertEqual((kind, len(fields(image)[0][1])), (1, 2500))
            kind, size = found["size"]
            self.assertEqual((kind, fields(size)[0][1]), (3, b"\xc4\x13"))  # 2500
        self.verified(**keys)

    @unittest.skipIf(Image is None, "needs python3-pil")
    def test_pillow_reads_images_and_their_comment(self):
        for form in ("jpeg", "png"):
            for dims, mode in (("50x70", "L"), ("50x70x3", "RGB")):
                folder = self.folder / f"{form}-{mode}"
                keys = {"data_folder": folder, "format": form, "num_files_train": 3, "record_dims": dims,
                        "content": "photo"}
                done = run("generate", **keys)
                if "this build" in done.stderr:
                    self.skipTest(done.stderr)
                self.assertEqual(done.returncode, 0, done.stderr)
                image = Image.open(folder / f"train/img_2_of_3.{form}")
                image.load()
                self.assertEqual((image.size, image.mode), ((70, 50), mode))
                comment = image.info.get("comment") or image.info["Comment"].encode()
                self.assertRegex(comment, rb"^millrace seed 0 train 2 crc32c [0-9a-f]{8}$")
                self.assertEqual(run("verify", **keys).returncode, 0)

    @unittest.skipIf(Image is None, "needs python3-pil")
    def test_photos_compress_like_photographs_and_noise_does_not(self):
        sizes = {}
        for content in ("photo", "random"):
            folder = self.folder / content
            done = run("generate", data_folder=folder, format="npy", num_files_train=1, record_dims="512x512x3", content=content)
            self.assertEqual(done.returncode, 0, done.stderr)
            out = io.BytesIO()
            Image.fromarray(numpy.load(folder / "train/img_0_of_1.npy")[..., 0]).save(out, "JPEG", quality=75)
            sizes[content] = len(out.getvalue()) * 8 / 512 / 512  # bits per pixel
        self.assertGreater(sizes["photo"], 0.7)
        self.assertLess(sizes["photo"], 2.5)
        self.assertGreater(sizes["random"], 4)

    def test_physics_compresses_like_simulations(self):
        self.generate(format="npy", num_files_train=1, record_dims="256x256", record_element_type="float32",
                      content="physics")
        array = numpy.load(self.folder / "train/img_0_of_1.npy")[..., 0]
        self.assertTrue(numpy.isfinite(array).all())
        planes = array.view(numpy.uint8).reshape(-1, 4).T.tobytes()  # HDF5's shuffle filter
        ratio = array.nbytes / len(zlib.compress(planes, 4))
        self.assertGreater(ratio, 1.3)
        self.assertLess(ratio, 4)


class BadConditionsTest(DatasetTest):
    keys = {"format": "npz", "num_files_train": 40, "record_length_bytes": 1000000, "num_subfolders_train": 4}

    def kill_in_the_middle(self, signal_number: int):
        settings = [f"{key}={value}" for key, value in self.keys.items()]
        process = subprocess.Popen([PROGRAM, "generate", f"data_folder={self.folder}", "slow=3000", "threads=3", *settings])
        while process.poll() is None and len(list(self.folder.glob("train/*/*"))) < 10:
            time.sleep(0.005)
        process.send_signal(signal_number)
        process.wait()

    def test_a_killed_generation_leaves_only_whole_files_and_continues(self):
        self.kill_in_the_middle(signal.SIGKILL)
        left = list(self.folder.glob("train/*/*"))
        self.assertGreaterEqual(len(left), 10)
        self.assertLess(len(left), 40)
        for file in left:
            with numpy.load(file) as arrays:
                self.assertEqual(arrays["x"].shape, (1000, 1000, 1))
        self.assertFalse(json.loads((self.folder / "millrace-manifest.json").read_text())["complete"])
        done = run("generate", data_folder=self.folder, **self.keys)
        self.assertEqual(done.returncode, 0, done.stderr)
        written, kept, _ = map(int, done.stdout.split())
        self.assertEqual((written, kept), (40 - len(left), len(left)))
        manifest = json.loads((self.folder / "millrace-manifest.json").read_text())
        self.assertTrue(manifest["complete"])
        self.assertEqual(sorted(os.listdir(self.folder)), ["millrace-manifest.json", "train", "valid"])
        self.verified(**self.keys)
        other = self.folder.parent / "other"
        run("generate", data_folder=other, **self.keys)
        self.assertEqual(hashes(self.folder), hashes(other))

    @unittest.skipIf(shutil.which("strace") is None, "needs strace")
    def test_fsync_is_issued_for_every_file(self):
        log = self.folder.parent / "calls"
        done = run("generate", data_folder=self.folder, format="raw", num_files_train=7, record_length_bytes=100, fsync=1,
                   before=["strace", "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", log])
        if "ptrace" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        for i in range(7):
            self.assertRegex(log.read_text(), rf"sync\(\d+<.*/img_{i}_of_7.raw>(\) += 0| <unfinished)")

    @unittest.skipUnless(can_mount(), "needs the right to mount")
    def test_a_small_disk_is_refused_before_the_first_file(self):
        self.folder.mkdir()
        script = f'mount -t tmpfs -o size=2m tmpfs "{self.folder}" && "$@"; code=$?; find "{self.folder}" -type f; exit $code'
        done = run("generate", data_folder=self.folder, before=["unshare", "-m", "sh", "-c", script, "sh"], **self.keys)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"{self.folder}: the 40 files to generate need 40", done.stderr)
        self.assertRegex(done.stderr, r"but 20\d{5} bytes \(2.\d+ MB\) are free")
        self.assertEqual(done.stdout.split(), [])

    @unittest.skipUnless(can_mount(), "needs the right to mount")
    def test_a_disk_that_fills_up_leaves_only_whole_files(self):
        # Each of these short files takes a page, which is not foreseen.
        self.folder.mkdir()
        script = (f'mount -t tmpfs -o size=2m tmpfs "{self.folder}" && "$@"; code=$?; '
                  f'find "{self.folder}" -type f -size +0 | sort; exit $code')
        done = run("generate", data_folder=self.folder, before=["unshare", "-m", "sh", "-c", script, "sh"], format="csv",
                   num_files_train=1000, record_length_bytes=100)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"no space left on device.*; " + str(self.folder) + r" needs about \d+ more bytes")
        self.assertIn("complete files are kept", done.stderr)
        left = done.stdout.split()
        self.assertGreater(len(left), 10)
        self.assertFalse([name for name in left if "partial" in name])

    @unittest.skipUnless(can_mount(), "needs the right to mount")
    def test_a_read_only_folder_is_named(self):
        self.folder.mkdir()
        script = f'mount -t tmpfs -o ro tmpfs "{self.folder}" && "$@"'
        done = run("generate", data_folder=self.folder, before=["unshare", "-m", "sh", "-c", script, "sh"], **self.keys)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"{self.folder}/millrace-manifest.json: ", done.stderr)
        self.assertIn("read-only file system", done.stderr)

    def test_a_folder_without_rights_is_named(self):
        if os.geteuid() == 0:
            self.skipTest("root may write anywhere")
        self.folder.mkdir()
        self.folder.chmod(0o500)
        done = run("generate", data_folder=self.folder, **self.keys)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(str(self.folder), done.stderr)
        self.assertIn("permission denied", done.stderr)

    def test_another_dataset_is_not_touched(self):
        self.generate(**self.keys)
        before = hashes(self.folder)
        done = run("generate", data_folder=self.folder, **{**self.keys, "record_length_bytes": 2000000})
        self.assertEqual(done.returncode, 1)
        self.assertIn("was generated with dataset.record_length_bytes=1000000, but the workload says 2000000", done.stderr)
        self.assertEqual(hashes(self.folder), before)

    def test_a_damaged_sample_is_found(self):
        self.generate(format="npy", num_files_train=2, record_length_bytes=10000)
        file = self.folder / "train/img_1_of_2.npy"
        data = bytearray(file.read_bytes())
        data[5128] ^= 1
        file.write_bytes(data)
        done = run("verify", data_folder=self.folder, format="npy", num_files_train=2, record_length_bytes=10000)
        self.assertEqual(done.returncode, 1)
        self.assertIn("sample 0 of train file 1: 'data': its byte 5000 is ", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
