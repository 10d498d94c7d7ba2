"""The example on real data: Fashion-MNIST on one and four ranks, stopped, killed and resumed with identical losses."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")

# Runs the example until step 18, when rank 0 kills all processes of the job or fails alone.
ENDED_IN_STEP_18 = """
import os, signal, sys
sys.path.insert(0, os.environ["EXAMPLES"])
import fashion_mnist

def train_step(job, batch, whole=fashion_mnist.Job.train_step):
    if job.rank == 0 and job.step == 17:
        if os.environ["HOW"] == "fail":
            sys.exit("rank 0 fails")
        os.killpg(0, signal.SIGKILL)
    return whole(job, batch)

fashion_mnist.Job.train_step = train_step
sys.exit(fashion_mnist.main())
"""


def losses(text):
    """Maps each step to its loss, as printed with all digits."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if words[2:3] == ["step"]:
            found[int(words[3])] = words[5]
    return found


class FashionMnistTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.work = pathlib.Path(scratch.name)

    def run_script(self, script, *options, **more):
        if "--resume" not in options:
            (self.work / "checkpoint.pt").unlink(missing_ok=True)  # the example does not replace it
        return subprocess.run([sys.executable, str(script), "--work", str(self.work), *options],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **more)

    def train(self, *options):
        done = self.run_script(EXAMPLES / "fashion_mnist.py", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return losses(done.stdout)

    def train_until_step_18(self, how, *options):
        script = self.work / "ended.py"
        script.write_text(ENDED_IN_STEP_18)
        # What a killed job leaves behind is removed with the folder of the test.
        environment = {**os.environ, "EXAMPLES": str(EXAMPLES), "HOW": how, "TMPDIR": str(self.work)}
        return self.run_script(script, *options, env=environment, start_new_session=True)

    def expect_same_losses(self, *options):
        whole = self.train("--stop-after", "40", *options)
        first = self.train("--stop-after", "17", *options)
        rest = self.train("--resume", "--stop-after", "40", *options)
        self.assertEqual(sorted(whole), list(range(1, 41)))
        self.assertEqual(sorted(first), list(range(1, 18)))
        self.assertEqual({**first, **rest}, whole)
        self.assertLess(float(whole[40]), 0.7 * float(whole[1]), "the network does not learn")

    def test_one_rank_resumes_with_identical_losses(self):
        self.expect_same_losses()

    def test_four_ranks_resume_with_identical_losses(self):
        self.expect_same_losses("--ranks", "4")

    def test_four_ranks_with_partial_shuffling_resume_with_identical_losses(self):
        self.expect_same_losses("--ranks", "4", "--shuffle", "partial", "--fraction", "0.3")

    def test_a_job_resumes_in_the_second_epoch(self):
        options = ("--batch", "6000", "--epochs", "3")
        whole = self.train(*options)
        self.train("--stop-after", "13", *options)
        self.assertEqual(len(whole), 30)
        self.assertEqual(self.train("--resume", *options), {step: whole[step] for step in range(14, 31)})

    def test_a_checkpoint_is_not_replaced_by_a_new_job(self):
        checkpoint = self.work / "runs" / "checkpoint.pt"
        checkpoint.parent.mkdir()
        checkpoint.write_text("hours of training")
        done = self.run_script(EXAMPLES / "fashion_mnist.py", "--work", str(checkpoint.parent))
        self.assertEqual(done.returncode, 2)
        self.assertIn("give --resume or another --work", done.stderr)
        self.assertEqual(checkpoint.read_text(), "hours of training")

    def test_a_killed_job_resumes_from_its_checkpoint(self):
        options = ("--ranks", "4", "--checkpoint-every", "5")
        whole = self.train("--stop-after", "30", *options)
        killed = self.train_until_step_18("kill", *options)
        self.assertEqual(killed.returncode, -signal.SIGKILL, killed.stderr)
        self.assertEqual(losses(killed.stdout), {step: whole[step] for step in range(1, 18)})
        rest = self.train("--resume", "--stop-after", "30", *options)
        self.assertEqual(rest, {step: whole[step] for step in range(16, 31)})  # the checkpoint is of step 15

    def test_if_a_rank_fails_the_others_are_stopped(self):
        failed = self.train_until_step_18("fail", "--ranks", "4")
        self.assertEqual(failed.returncode, 1, failed.stderr)
        self.assertIn("rank 0 fails", failed.stderr)


if __name__ == "__main__":
    unittest.main()
