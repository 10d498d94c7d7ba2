"""examples/imagenet_style: trains on real JPEG files, on one and two ranks; a resumed run has the same losses."""

import importlib.util
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "imagenet_style"
# A network of the same kind, small enough for a CPU.
SMALL = ("--size", "32", "--blocks", "1,1", "--width", "4", "--batch", "8", "--epochs", "2", "--warmup", "1",
         "--log-every", "1", "--device", "cpu", "--workers", "1")
MISSING = [name for name in ("torch", "PIL") if importlib.util.find_spec(name) is None]


def make_images(folder, per_class=12):
    from PIL import Image
    chance = random.Random(7)
    for label, colour in (("cats", (200, 60, 30)), ("dogs", (30, 60, 200))):
        (folder / label).mkdir(parents=True)
        for number in range(per_class):
            pixels = bytes(max(0, min(255, part + chance.randint(-30, 30))) for _ in range(48 * 40) for part in colour)
            Image.frombytes("RGB", (48, 40), pixels).save(folder / label / f"{number}.jpg", quality=90)


def losses(text):
    """Maps each step to its loss, as printed with all digits."""
    words = [line.split() for line in text.splitlines()]
    return {int(line[3]): line[5] for line in words if line[2:3] == ["step"]}


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class ImagenetStyleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        make_images(cls.folder / "train")

    def run_example(self, *options, before=(), code=0):
        done = subprocess.run([sys.executable, *map(str, before), str(EXAMPLE / "train.py"), *SMALL, *map(str, options)],
                              capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if "cannot read or write JPEG" in done.stderr:
            self.skipTest("built without JPEG")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def train(self, work, *options):
        return self.run_example("--data", self.folder / "train", "--work", self.folder / work, *options)

    def check_resume(self, ranks, *options):
        options = ("--ranks", ranks, *options)
        whole = losses(self.train(f"whole{ranks}", *options))
        self.assertEqual(sorted(whole), list(range(1, 7)))
        begun = losses(self.train(f"parts{ranks}", "--stop-after", 2, *options))
        rest = losses(self.train(f"parts{ranks}", "--resume", *options))
        self.assertEqual({**begun, **rest}, whole)
        self.assertEqual(sorted(rest), list(range(3, 7)))
        left = sorted(file.name for file in (self.folder / f"parts{ranks}").iterdir())
        self.assertEqual(left, ["checkpoint.pt"])

    def test_one_rank_resumes_with_the_same_losses(self):
        self.check_resume(1)

    def test_two_ranks_resume_with_the_same_losses(self):
        self.check_resume(2, "--fraction", "0.5")

    def test_mixed_precision_and_the_device_alone(self):
        printed = self.train("bf16", "--precision", "bf16", "--stop-after", 1, "--alone", 1)
        self.assertEqual(len(losses(printed)), 1)
        self.assertIn("the device alone: ", printed)
        printed = self.run_example("--synthetic", 2, "--precision", "bf16")
        self.assertIn("the device alone: ", printed)

    def test_a_run_is_traced(self):
        trace = self.folder / "trace"
        self.train_traced(trace)
        program = pathlib.Path(os.environ["MILLRACE"])
        report = subprocess.run([program, "report", trace], capture_output=True, text=True, check=True).stdout
        for line in ("compute", "waiting for data", "checkpoints"):
            self.assertIn(line, report)

    def train_traced(self, trace):
        self.run_example("--data", self.folder / "train", "--work", self.folder / "traced", "--stop-after", 3,
                         before=("-m", "millrace.trace", "-o", trace))

    def test_wrong_options_are_refused(self):
        self.assertIn("nothing to resume", self.run_example(
            "--data", self.folder / "train", "--work", self.folder / "none", "--resume", code=1))
        self.assertIn("fewer than one batch", self.run_example(
            "--data", self.folder / "train", "--work", self.folder / "none", "--batch", 1000, code=1))
        self.assertIn("--data and --work", self.run_example(code=2))
        self.assertIn("--log-every must be at least 1", self.run_example("--synthetic", 1, "--log-every", 0, code=2))


if __name__ == "__main__":
    unittest.main()
