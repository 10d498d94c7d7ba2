#!/usr/bin/env python3
"""The loader and its process: signals, forks, kills, traces, no torch and no numpy."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest

from traced import TracedTest

MAKE = """
import os, sys, numpy, millrace
os.makedirs("raw", exist_ok=True)
for i in range({count}):
    numpy.full(4, i, "int32").tofile(f"raw/{{i:04}}.bin")
"""
OPEN = 'millrace.DataLoader(millrace.RawFolder("raw", shape=(4,), dtype="int32"), '


class ProcessTest(TracedTest):
    def setUp(self):
        super().setUp()
        self.run_python(self.write("make.py", MAKE.format(count=60)))

    def start(self, code: str) -> subprocess.Popen:
        # A shell that started the tests with `&` makes them ignore Ctrl-C, so install the default
        # handler.
        code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" \
            + textwrap.dedent(code)
        process = subprocess.Popen([sys.executable, self.write("program.py", code)], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def test_ctrl_c_ends_a_wait_for_a_sample(self):
        (self.folder / "raw/0000.bin").unlink()
        os.mkfifo(self.folder / "raw-pipe")
        process = self.start(f"""
            import os, millrace
            open("raw/0000.bin", "wb").write(bytes(16))
            loader = {OPEN} batch_size=4)
            os.unlink("raw/0000.bin")
            os.rename("raw-pipe", "raw/0000.bin")  # a read that never ends
            print("waiting", flush=True)
            for batch in loader: pass
        """)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
        self.assertIn("KeyboardInterrupt", errors)
        self.assertEqual(process.returncode, -signal.SIGINT)

    def test_a_signal_that_is_handled_does_not_end_a_wait_in_cpp(self):
        process = self.start(f"""
            import os, signal, millrace
            signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
            loader = {OPEN} batch_size=1)
            os.unlink("raw/0000.bin")
            os.mkfifo("raw/0000.bin")
            print("waiting", flush=True)
            print(next(iter(loader)).tolist())
        """)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        time.sleep(0.5)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.stdout.readline(), "heard\n")  # while it waits
        (self.folder / "raw/0000.bin").write_bytes(bytes(16))
        out, errors = process.communicate(timeout=600)
        self.assertEqual(out, "[[0, 0, 0, 0]]\n", errors)

    def test_ctrl_c_ends_a_wait_for_a_python_dataset(self):
        process = self.start("""
            import time, millrace
            class Stuck:
                def __len__(self): return 4
                def __getitem__(self, i):
                    if i == 0: print("waiting", flush=True)  # only now: importing torch may take long
                    time.sleep(3600)
            for batch in millrace.DataLoader(Stuck(), num_workers=2): pass
        """)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
        self.assertIn("KeyboardInterrupt", errors)

    def test_a_signal_that_is_handled_does_not_end_the_wait(self):
        process = self.start("""
            import signal, threading, millrace
            heard = threading.Event()
            def hear(*_):
                print("heard", flush=True)
                heard.set()
            signal.signal(signal.SIGUSR1, hear)
            class Slow:
                def __len__(self): return 2
                def __getitem__(self, i):
                    if i == 0: print("waiting", flush=True)
                    heard.wait()
                    return i
            print([batch.tolist() for batch in millrace.DataLoader(Slow(), num_workers=2, worker="thread")])
        """)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        time.sleep(0.5)
        process.send_signal(signal.SIGUSR1)
        out, errors = process.communicate(timeout=600)
        self.assertEqual(out, "heard\n[[0], [1]]\n", errors)

    def test_an_exception_in_the_training_ends_the_program(self):
        done = self.run_python(self.write("program.py", f"""
            import millrace
            for batch in {OPEN} batch_size=4):
                raise SystemExit(7)
        """), code=7)
        self.assertEqual(done.stderr, "")

    def test_a_forked_child_gets_an_error_and_can_make_its_own_loader(self):
        for dataset in ('millrace.RawFolder("raw", shape=(4,), dtype="int32")', "list(range(60))"):
            done = self.run_python(self.write("program.py", f"""
                import os, millrace
                loader = millrace.DataLoader({dataset}, batch_size=4)
                batches = iter(loader)
                next(batches)
                child = os.fork()
                if child == 0:
                    try:
                        next(batches)
                    except RuntimeError as error:
                        print(error, flush=True)
                    own = millrace.DataLoader({dataset}, batch_size=4)
                    print(sum(1 for _ in own), flush=True)
                    raise SystemExit(0)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                print(sum(1 for _ in batches))
            """))
            first, own, rest = done.stdout.splitlines()
            self.assertIn("fork", first)
            self.assertEqual((own, rest), ("15", "14"))

    def test_a_forked_child_exits_although_a_thread_of_the_parent_holds_the_lock(self):
        self.run_python(self.write("program.py", """
            import os, threading, millrace
            loader = millrace.DataLoader(list(range(60)), batch_size=4, worker="thread")
            next(iter(loader))
            is_held, release = threading.Event(), threading.Event()
            def hold():
                with loader._loader._workers[0]._changed:
                    is_held.set()
                    release.wait()
            thread = threading.Thread(target=hold)
            thread.start()
            is_held.wait()
            child = os.fork()
            if child == 0:
                raise SystemExit(0)
            ended = os.waitpid(child, 0)[1]
            release.set()
            assert ended == 0, ended
        """))

    def test_a_forked_child_can_close_a_loader_that_a_thread_of_the_parent_waits_for(self):
        self.run_python(self.write("program.py", f"""
            import os, threading, time, millrace
            loader = {OPEN} batch_size=1)
            os.unlink("raw/0000.bin")
            os.mkfifo("raw/0000.bin")
            batches = iter(loader)
            thread = threading.Thread(target=lambda: next(batches))
            thread.start()
            time.sleep(0.5)  # by now it probably waits; the checks hold in any case
            child = os.fork()
            if child == 0:
                loader.close()
                raise SystemExit(0)
            ended = os.waitpid(child, 0)[1]
            open("raw/0000.bin", "wb").write(bytes(16))
            thread.join()
            assert ended == 0, ended
        """))

    def test_a_killed_job_continues_from_its_last_state(self):
        program = self.write("train.py", f"""
            import json, os, signal, millrace
            loader = {OPEN} batch_size=4, shuffle=True, seed=3)
            if os.path.exists("state.json"):
                loader.load_state_dict(json.load(open("state.json")))
            with open("seen", "a") as seen:
                for batch in loader:
                    seen.write(" ".join(map(str, batch[:, 0].tolist())) + " ")
                    seen.flush()
                    json.dump(loader.state_dict(), open("state.new", "w"))
                    os.rename("state.new", "state.json")
                    if not os.path.exists("killed") and loader.batch.index == 6:
                        open("killed", "w").close()
                        os.kill(os.getpid(), signal.SIGKILL)
        """)
        self.run_python(program, code=-signal.SIGKILL)
        self.run_python(program)
        seen = list(map(int, (self.folder / "seen").read_text().split()))
        whole = self.run_python(self.write("whole.py", f"""
            import millrace
            loader = {OPEN} batch_size=4, shuffle=True, seed=3)
            print(*[i for batch in loader for i in batch[:, 0].tolist()])
        """)).stdout
        self.assertEqual(seen, list(map(int, whole.split())))

    def test_without_torch_batches_are_numpy_arrays_and_without_numpy_buffers(self):
        program = self.write("program.py", f"""
            import sys
            for name in sys.argv[1:]:
                sys.modules[name] = None  # cannot be imported
            import millrace
            loader = {OPEN} batch_size=4)
            batch = next(iter(loader))
            squares = millrace.DataLoader([(i, "x") for i in range(3)], batch_size=3)
            print(type(batch).__module__, type(batch).__name__, memoryview(batch)[3, 0],
                  *[type(part).__name__ for part in next(iter(squares))])
        """)
        self.assertEqual(self.run_python(program, "torch").stdout, "numpy ndarray 3 ndarray list\n")
        self.assertEqual(self.run_python(program, "torch", "numpy").stdout,
                         "millrace._loader Array 3 list list\n")

    def test_importing_the_package_loads_none_of_its_parts(self):
        done = self.run_python("-c", "import sys, millrace; print(sorted(name for name in sys.modules "
                               "if name.startswith(('millrace.', 'torch', 'numpy'))))\n"
                               "print(millrace.pls.ImageFolder.__name__, millrace.trace.enabled())")
        self.assertEqual(done.stdout, "[]\nImageFolder False\n")

    def test_without_the_extension_the_error_says_how_to_get_it(self):
        done = self.run_python("-c", "import sys; sys.modules['millrace._loader'] = None\n"
                               "import millrace, millrace.trace\n"
                               "try: millrace.DataLoader\n"
                               "except ImportError as error: print(error)")
        self.assertIn("pip install .", done.stdout)
        self.assertIn("pybind11-dev", done.stdout)

    def test_a_trace_has_the_epochs_and_what_the_loader_did(self):
        recording = self.record(f"""
            import millrace
            loader = {OPEN} batch_size=20, shuffle=True, num_workers=1)
            python = millrace.DataLoader(list(range(6)), batch_size=2)
            from millrace import trace
            for epoch in range(2):
                for batch in loader:
                    with trace.region("compute"): pass
            for batch in python: pass
        """)
        fetches = [region for region in recording.regions if region.name == "fetch"]
        self.assertEqual(sorted((region.epoch, region.step) for region in fetches
                                if region.epoch < 2 and region.step < 3)[-1], (1, 2))
        computes = [(region.epoch, region.step) for region in recording.regions
                    if region.name == "compute"]
        self.assertEqual(computes, [(epoch, step) for epoch in range(2) for step in range(3)])
        waits = [region.step for region in recording.regions if region.name == "batch_wait"
                 and region.epoch == 0]
        self.assertEqual(waits[-3:], [0, 1, 2])  # those of the Python dataset

    def test_a_trace_has_one_wait_for_each_batch_with_map(self):
        recording = self.record("""
            import millrace
            data = millrace.RawFolder("raw", shape=(4,), dtype="int32", map=len)
            for batch in millrace.DataLoader(data, batch_size=20, num_workers=1): pass
        """)
        waits = [region.step for region in recording.regions if region.name == "batch_wait"]
        self.assertEqual(waits, [0, 1, 2])


if __name__ == "__main__":
    unittest.main()
