"""The worked example on real data: Fashion-MNIST on one rank and on four, stopped, killed and resumed with identical losses."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def losses(text):
    """Step to loss, as printed with all its digits."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if words[2:3] == ["step"]:
            found[int(words[3])] = words[5]
    return found


@unittest.skipUnless(DATA.exists(), "needs the package dataset-fashion-mnist")
class FashionMnistTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.work = pathlib.Path(scratch.name)

    def command(self, *options):
        return [sys.executable, str(EXAMPLES / "fashion_mnist.py"), "--work", str(self.work), *options]

    def train(self, *options):
        done = subprocess.run(self.command(*options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return losses(done.stdout)

    def expect_same_losses(self, *options):
        whole = self.train("--stop-after", "40", *options)
        first = self.train("--stop-after", "17", *options)
        rest = self.train("--resume", "--stop-after", "40", *options)
        self.assertEqual(sorted(whole), list(range(1, 41)))
        self.assertEqual(sorted(first), list(range(1, 18)))
        self.assertEqual({**first, **rest}, whole)
        self.assertLess(float(whole[40]), 0.7 * float(whole[1]), "the network does not learn")

    def test_one_rank_goes_on_with_identical_losses(self):
        self.expect_same_losses()

    def test_four_ranks_go_on_with_identical_losses(self):
        self.expect_same_losses("--ranks", "4")

    def test_four_ranks_go_on_so_by_partial_local_shuffling(self):
        self.expect_same_losses("--ranks", "4", "--shuffle", "partial", "--fraction", "0.3")

    def test_it_goes_on_in_the_second_epoch(self):
        options = ("--batch", "6000", "--epochs", "3")
        whole = self.train(*options)
        self.train("--stop-after", "13", *options)
        self.assertEqual(len(whole), 30)
        self.assertEqual(self.train("--resume", *options), {step: whole[step] for step in range(14, 31)})

    def test_a_killed_job_goes_on_from_its_checkpoint(self):
        options = ("--ranks", "4", "--checkpoint-every", "5")
        whole = self.train("--stop-after", "30", *options)
        job = subprocess.Popen(self.command(*options), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               start_new_session=True)
        for line in job.stdout:
            if " step 18 " in line:
                break
        os.killpg(job.pid, signal.SIGKILL)
        job.stdout.close()
        job.wait(timeout=60)
        rest = self.train("--resume", "--stop-after", "30", *options)
        # A checkpoint of step 15 or, if the ranks were faster than the signal, of a later one.
        self.assertLessEqual(min(rest), 30)
        self.assertGreaterEqual(min(rest), 16)
        self.assertEqual(rest, {step: whole[step] for step in rest})
        self.assertEqual(max(rest), 30)


if __name__ == "__main__":
    unittest.main()
