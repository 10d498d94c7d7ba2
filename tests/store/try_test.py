#!/usr/bin/env python3
"""`advise --try`: a real job is traced, and its calls on a sample of its files are made again, on a store too."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
PATIENCE_S = 120
FILES = 600

# Opens take most of its time, so that advise finds them.
JOB = """
import os, random, sys
paths = [os.path.join(top, name) for top, _, names in os.walk(sys.argv[1]) for name in names]
for epoch in range(10):
    random.Random(epoch).shuffle(paths)
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fstat(fd)
        os.read(fd, 1 << 20)
        os.close(fd)
with open(sys.argv[2], "w") as result:
    result.write("done")
"""


class TryTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.data = self.folder / "data"
        self.tries = self.folder / "tries"
        self.tries.mkdir()
        for i in range(FILES):
            path = self.data / f"class{i % 3}" / f"{i}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(3000 + i))
        (self.folder / "job.py").write_text(JOB)
        self.trace = self.folder / "t"
        subprocess.run([MILLRACE, "trace", "-o", self.trace, "--", "/usr/bin/python3", self.folder / "job.py", self.data,
                        self.folder / "result"], check=True, capture_output=True, timeout=PATIENCE_S)

    def advise(self, *words, code=0, trace=None):
        done = subprocess.run([MILLRACE, "advise", str(trace or self.trace), "--try", "--scratch", str(self.tries),
                               *words], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(list(self.tries.iterdir()), [], "the sample is removed")
        return done

    def tree(self) -> dict:
        return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in sorted(self.data.rglob("*"))}

    def test_the_measured_gain_is_beside_the_estimate(self):
        before = self.tree()
        advice = json.loads(self.advise("--json").stdout)
        self.assertEqual(self.tree(), before)
        tried = advice["tried"]
        self.assertEqual((tried["files"], tried["dataset_files"]), (FILES, FILES))
        self.assertEqual(tried["bytes"], sum(path.stat().st_size for path in self.data.rglob("*.bin")))
        self.assertEqual(tried["directory"], str(self.data))
        self.assertGreaterEqual(tried["calls"], 10 * 3 * FILES)  # open, read, close; fstat may be left out
        for side in ("from_files", "from_store"):
            self.assertGreater(tried[side]["hot_ns"], 0)
        self.assertIn(tried["job_was"], ("hot", "cold"))
        (found,) = [finding for finding in advice["findings"] if finding["rule"] == "many-small-files"]
        self.assertEqual(found["tried"]["saved_ns"], tried["saved_ns"])
        self.assertIn("from the store", found["tried"]["how"])
        (change,) = [each["text"] for each in found["changes"] if each["framework"] == "store"]
        self.assertIn(f"millrace store pack {self.data} -o PACKS", change)

    def test_text(self):
        text = self.advise().stdout
        self.assertIn("  tried   millrace store would save", text)
        self.assertRegex(text, r"\ntried     600 files of [\d.]+ MiB in")
        self.assertRegex(text, r"\n          hot: \S+ \S+ from the files, \S+ \S+ from the")

    def test_what_is_gone_is_left_out(self):
        for path in list(self.data.rglob("*.bin"))[:100]:
            path.unlink()
        self.assertEqual(json.loads(self.advise("--json").stdout)["tried"]["files"], FILES - 100)
        shutil.rmtree(self.data)
        self.assertRegex(self.advise(code=1).stderr,
                         r"--try: of 600 data files that the job read, none is here, .* Run this where the dataset is")

    def test_ctrl_c_removes_the_sample_and_ends_what_was_started(self):
        advise = subprocess.Popen([MILLRACE, "advise", self.trace, "--try", "--scratch", self.tries],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(advise.kill)
        end = time.monotonic() + PATIENCE_S
        while not list(self.tries.glob("*/original.cold")) and advise.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        advise.send_signal(signal.SIGINT)
        self.assertEqual(advise.wait(PATIENCE_S), -signal.SIGINT)
        self.assertEqual(list(self.tries.iterdir()), [])
        started = []
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if os.fsencode(self.tries) in process.read_bytes():
                    started.append(process)
        self.assertEqual(started, [])

    def test_a_saved_profile_has_no_calls(self):
        saved = self.folder / "profile.json"
        saved.write_bytes(subprocess.run([MILLRACE, "report", self.trace, "--json"], check=True,
                                         stdout=subprocess.PIPE).stdout)
        self.assertIn("is a saved profile", self.advise(code=1, trace=saved).stderr)


if __name__ == "__main__":
    unittest.main()
