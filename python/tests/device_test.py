#!/usr/bin/env python3
"""Device time: brackets of events become regions on the clock of the host; copies are marked; only the
steps of a window are recorded. The device is a fake: a stream that takes the time it is told to."""

import importlib.util
import json
import subprocess
import types
import unittest

from traced import BUILD, LIBRARY, Recording, TracedTest

# A device that works in the order of launches, a little faster than its clock says: it drifts. A
# launch is a call of work(), inside a marked function. Times are real, so that the recorder's are too.
FAKE = """
    import collections, time
    from millrace.trace import _device

    calls = collections.Counter()

    class Stream:
        free_ns = 0  # when all work so far is done, on the host's clock

    STREAM = Stream()
    DRIFT = 1.001

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing
            self.ns = None
        def record(self, stream):
            calls["record"] += 1
            stream.free_ns = max(stream.free_ns, time.monotonic_ns())
            self.ns = stream.free_ns
        def query(self):
            calls["query"] += 1
            return self.ns <= time.monotonic_ns()
        def elapsed_time(self, end):
            calls["elapsed_time"] += 1
            if max(self.ns, end.ns) > time.monotonic_ns():
                raise RuntimeError("the events have not passed")
            return (end.ns - self.ns) * DRIFT / 1e6

    class Cuda:
        Event = Event
        stream = STREAM
        def current_stream(self):
            calls["current_stream"] += 1
            return self.stream
        def get_device(self): return 0
        def get_raw_stream(self, device): return id(self.stream)
        @staticmethod
        def is_initialized(): return True

    def work(milliseconds):
        STREAM.free_ns = max(STREAM.free_ns, time.monotonic_ns()) + int(milliseconds * 1e6)

    _device.timer = _device.DeviceTimer(Cuda(), kind="meta")  # before PyTorch is imported
    """
TRAIN = FAKE + """
    import torch
    from torch.utils.data import DataLoader

    class Slow(torch.nn.Linear):
        def forward(self, x):
            work(4)
            return super().forward(x)

    def main(steps, host_ms):
        model = Slow(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = torch.utils.data.TensorDataset(torch.ones(2 * steps, 2))
        for (batch,) in DataLoader(data, batch_size=2):
            time.sleep(host_ms / 1000)
            batch.to("meta")
            batch.to("meta", non_blocking=True)
            batch.to(torch.float32)     # no copy to the device
            optimizer.zero_grad()
            model(batch).sum().backward()
            work(2)
            optimizer.step()

    # The recording is in ticks: this tells how many a nanosecond has.
    from millrace import trace
    began_ns = time.monotonic_ns()
    with trace.region("reference"):
        time.sleep(0.05)
    trace.mark("reference_ns", ns=time.monotonic_ns() - began_ns)
    main(STEPS, HOST_MS)
    """


def ticks_of(recording, milliseconds) -> float:
    reference = recording.named("reference")[0]
    return (reference.end - reference.begin) / recording.named("reference_ns")[0].tags["ns"] \
        * milliseconds * 1e6


def places(regions) -> list:
    return [(region.epoch, region.step) for region in regions]


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class DeviceTest(TracedTest):
    def train(self, steps: int, host_ms: float):
        code = TRAIN.replace("main(STEPS, HOST_MS)", f"main({steps}, {host_ms})")
        return self.record_script(self.write("train.py", code))

    def test_each_step_has_its_device_time(self):
        recording = self.train(5, 10)
        self.assertEqual(recording.named("not_marked") + recording.named("device_time_lost"), [])
        device, copies = recording.named("device"), recording.named("device_copy")
        # On a busy machine, a step may be several brackets.
        self.assertEqual(sorted(set(places(device))), [(0, step) for step in range(5)])
        self.assertEqual(sorted(set(places(copies))), [(0, step) for step in range(5)])
        self.assertEqual(len(recording.named("copy")), 10)
        self.assertEqual(recording.named("copy")[0].tags, {"bytes": 16})
        trainer = recording.named("optimizer")[0].thread
        self.assertEqual(len({region.thread for region in device + copies} - {trainer}), 1)
        for wait in recording.named("batch_wait"):
            of_step = [region for region in device if region.step == wait.step]
            busy = sum(region.end - region.begin for region in of_step)
            self.assertGreaterEqual(busy, ticks_of(recording, 5.9))
            self.assertGreaterEqual(of_step[0].begin, wait.end)
        report = " ".join(self.report().split())
        self.assertIn("Compute is the GPU's own time; the host launched for ", report)
        self.assertIn("Waiting is time in which the GPU was idle", report)
        self.assertIn("copies to the GPU", report)
        split = json.loads(self.report("--json"))["time"]
        self.assertEqual(split["compute_basis"], "device")
        self.assertGreaterEqual(split["mean"]["compute_ns"], 5 * 5_900_000)

    def report(self, *options):
        return subprocess.run([BUILD / "bin" / "millrace", "report", self.trace, *options], text=True,
                              capture_output=True, check=True).stdout

    def test_a_device_that_never_idles_is_busy_without_gaps(self):
        recording = self.train(10, 0)
        device = recording.named("device")
        self.assertEqual(len(set(places(device))), 10)
        busy = sum(region.end - region.begin for region in device)
        self.assertGreaterEqual(busy, ticks_of(recording, 59))
        # It runs behind the host, and its regions adjoin, apart from copies.
        self.assertLess(sum(after.begin - before.end for before, after in zip(device, device[1:])),
                        busy / 2)

    def test_no_device_work_means_no_device_time(self):
        code = TRAIN.replace("def is_initialized(): return True", "def is_initialized(): return False")
        self.assertIn("return False", code)
        recording = self.record_script(self.write(
            "train.py", code.replace("main(STEPS, HOST_MS)", "main(2, 0)")))
        self.assertEqual(recording.named("device") + recording.named("device_copy"), [])
        self.assertEqual(len(recording.named("optimizer")), 2)

    def test_a_device_that_fails_is_left_to_the_program(self):
        code = TRAIN.replace("def record(self, stream):", """def record(self, stream):
            if FAILS: raise RuntimeError("lost")""")
        code = code.replace("main(STEPS, HOST_MS)", "FAILS = 0; main(2, 0); FAILS = 1; main(2, 0)")
        recording = self.record_script(self.write("train.py", code))
        self.assertEqual(len(recording.named("optimizer")), 4)
        self.assertEqual(recording.named("device_time_lost")[0].tags, {"error": "lost"})

    def test_a_capture_of_a_graph_is_left_alone(self):
        code = TRAIN.replace("main(STEPS, HOST_MS)", """
    _device.timer.begin_capture()
    main(2, 0)
    _device.timer.end_capture()
    main(3, 0)
    """)
        recording = self.record_script(self.write("train.py", code))
        self.assertEqual(len(set(places(recording.named("device")))), 3)

    def test_a_capture_that_cannot_begin_does_not_end_the_timing(self):
        code = TRAIN.replace("main(STEPS, HOST_MS)", """
    import types
    from millrace.trace import _torch
    class CUDAGraph:
        def capture_begin(self): raise RuntimeError("another capture is under way")
        def capture_end(self): pass
    _torch.patch_graphs(types.SimpleNamespace(CUDAGraph=CUDAGraph))
    try:
        CUDAGraph().capture_begin()
    except RuntimeError:
        main(3, 0)
    """)
        recording = self.record_script(self.write("train.py", code))
        self.assertEqual(len(set(places(recording.named("device")))), 3)

    def test_marked_methods_are_still_the_same_in_sets(self):
        code = FAKE + """
    import torch
    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), keywords=None):
            if function in {torch.Tensor.to}: print("to")
            return super().__torch_function__(function, types, arguments, keywords or {})
    torch.ones(2).as_subclass(Logged).to("meta")
    print(torch.Tensor.to.__name__, torch.Tensor.to == torch.Tensor.to, torch.Tensor.to == 3)
    """
        done = self.run_python("-m", "millrace.trace", "-o", self.trace,
                               self.write("sets.py", code), MILLRACE_TRACE_LIBRARY=str(LIBRARY))
        self.assertEqual(done.stdout, "to\nto True False\n")


    def test_waits_for_the_device_are_marked(self):
        # A tensor of the fake device has no values: reading it fails, after it was marked.
        code = FAKE + """
    import torch
    import contextlib
    there, here = torch.ones(1, device="meta"), torch.ones(1)
    def read(tensor):
        for call in (tensor.item, tensor.item, tensor.tolist, tensor.cpu, lambda: float(tensor), lambda: int(tensor),
                     lambda: bool(tensor), lambda: tensor.to("cpu"), lambda: tensor.to(device=torch.device("cpu")),
                     lambda: tensor.to(here), lambda: here.copy_(tensor)):
            with contextlib.suppress(NotImplementedError, RuntimeError):
                call()
    read(there)
    read(here)
    for call in (lambda: there.to("cpu", non_blocking=True), lambda: there.to("cpu", torch.float32, True),
                 lambda: there.to(here, True), lambda: here.copy_(there, True), lambda: there.to(torch.float64),
                 lambda: there.to("meta")):
        with contextlib.suppress(NotImplementedError, RuntimeError):
            call()
    print(torch.Tensor.item.__name__, here.item(), float(here), bool(here), here.tolist())
    """
        done = self.run_python("-m", "millrace.trace", "-o", self.trace,
                               self.write("waits.py", code), MILLRACE_TRACE_LIBRARY=str(LIBRARY))
        self.assertEqual(done.stdout, "item 1.0 1.0 True [1.0]\n")
        functions = json.loads(self.report("--json"))["functions"]
        waits = {each["name"]: each["count"] for each in functions if each["name"].startswith("device_wait")}
        self.assertEqual(waits, {"device_wait.item": 2, "device_wait.tolist": 1, "device_wait.cpu": 1,
                                 "device_wait.float": 1, "device_wait.int": 1, "device_wait.bool": 1,
                                 "device_wait.to": 3, "device_wait.copy_": 1})
        report = " ".join(self.report().split())
        self.assertIn("The host waited for the GPU for ", report)
        self.assertIn("After each wait the GPU has no work", report)


    def test_the_report_says_once_and_twice(self):
        self.record("""
    import time
    from millrace import trace
    for name, times in (("item", 1), ("cpu", 2), ("to", 3)):
        for _ in range(times):
            with trace.region("device_wait." + name):
                time.sleep(0.01)
    """)
        report = " ".join(self.report().split())
        for text in ("item() once, ", "cpu() twice, ", "to() 3 times, "):
            self.assertIn(text, report)


# The timer alone. What is launched within a minute joins, and nothing is read unless read() is called: the number
# of calls does not depend on the speed of this machine.
TIMER = FAKE + """
    _device.JOIN_NS = 60 * 10**9
    _device.READ_SECONDS = 3600
    timer = _device.timer
    COPY, WORK = _device.names.DEVICE_COPY, _device.names.DEVICE

    def launch(name, milliseconds=0):
        assert timer.enter(name)
        work(milliseconds)
        timer.leave()

    def counted(function, *arguments):
        calls.clear()
        function(*arguments)
        return dict(calls)

    read = timer._read_passed
    """


class CallsTest(TracedTest):
    """How often the device is asked. Each call of the driver takes microseconds, in each step."""

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_a_steady_step_puts_in_three_events(self):
        recording = self.record_script(self.write("train.py", TIMER + """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model, loss = torch.nn.Linear(2, 1), torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    WARM, STEPS = 2 * _device.TRUSTED, 10
    for step, (x, y) in enumerate(DataLoader(TensorDataset(torch.ones(WARM + STEPS, 2), torch.ones(WARM + STEPS, 1)))):
        if step == WARM:
            read()
            calls.clear()
        x.to("meta"), y.to(torch.device("meta"))
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    read()
    # The begin of the copies; their end, which is the begin of the work; its end.
    assert calls == {"record": 3 * STEPS, "query": STEPS, "elapsed_time": 3 * STEPS}, calls
    """))
        self.assertEqual(len(recording.named("device")), 26)
        self.assertEqual(len(recording.named("device_copy")), 26)

    def test_an_end_that_was_not_expected_is_put_in_late_and_once(self):
        recording = self.record(TIMER + """
    def step(launches):
        for _ in range(launches):
            launch(WORK)
        timer.end_step()

    for _ in range(_device.TRUSTED):
        step(2)
    assert counted(step, 2)["record"] == 2   # no end between the two
    assert counted(launch, WORK)["record"] == 1
    assert counted(timer.end_step)["record"] == 1
    for _ in range(_device.TRUSTED):
        assert counted(launch, WORK)["record"] == 2
        assert "record" not in counted(timer.end_step)
    assert counted(step, 2)["record"] == 3   # the expectation is gone
    """)
        self.assertEqual(len(recording.named("device")), 2 * 8 + 3)

    def test_an_expectation_that_fails_at_other_work_ends_where_that_begins(self):
        recording = self.record(TIMER + """
    for _ in range(_device.TRUSTED):
        launch(WORK), launch(WORK), timer.end_step()
    assert counted(launch, WORK) == {"record": 1}
    assert counted(launch, COPY) == {"record": 2}   # the end of the work, which is the begin of the copy; its end
    assert "record" not in counted(timer.end_step)
    """)
        self.assertEqual([len(recording.named(name)) for name in ("device", "device_copy")], [9, 1])

    def test_a_shared_event_is_used_again_only_after_both_brackets_are_read(self):
        recording = self.record(TIMER + """
    def unread():
        groups = [timer._group, *timer._pending, *(group for _, group in timer._passed)]
        return [event for group in groups for bracket in group for event in (bracket.begin, bracket.end)]

    class Checked(Event):
        def record(self, stream):
            assert not any(self is event for event in unread()), "recorded again before it was read"
            super().record(stream)
    Cuda.Event = Checked

    for step in range(40):
        launch(COPY, 0.1), launch(WORK, 0.2), launch(COPY, 0.1), launch(COPY), launch(WORK, step % 3)
        timer.end_step()
        if step % 3 == 0:
            read()
        pool = timer._pool
        assert len(pool) == len(set(map(id, pool))), "twice in the pool"
        assert not set(map(id, pool)) & set(map(id, unread())), "in the pool, but not read"
    timer.drain()
    assert not timer._pending and not timer._passed
    assert calls["record"] == 40 * 5 + _device.TRUSTED, calls   # 4 brackets, and ends between the two copies at first
    """)
        self.assertEqual([len(recording.named(name)) for name in ("device", "device_copy", "device_time_lost")], [80, 80, 0])

    def test_a_bracket_in_another_stream_has_its_own_begin(self):
        self.record(TIMER + """
    side = Stream()
    def step():
        Cuda.stream = side
        launch(COPY)
        Cuda.stream = STREAM
        launch(WORK)
        timer.end_step()
    step()
    assert counted(step) == {"record": 4, "query": 2}
    """)

    def test_a_program_without_steps_is_recorded_while_it_runs(self):
        self.record(TIMER + """
    for _ in range(3 * _device.GROUP):
        launch(COPY), launch(WORK)
    assert timer._passed and len(timer._group) <= _device.GROUP
    """)


    def test_a_forked_child_begins_anew_and_destroys_no_event(self):
        self.record(TIMER + """
    import os
    launch(COPY), launch(WORK), timer.end_step(), read(), launch(WORK)
    pid = os.fork()
    if pid == 0:
        alive = [timer._open, timer._group, timer._pending, timer._passed, timer._pool, timer._lanes]
        is_new = timer._thread is None and not any(alive) and timer._clock.anchor is None
        os._exit(0 if is_new and len(_device.kept) == 1 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    launch(WORK), timer.end_step()
    """)


class LazyCudaTest(unittest.TestCase):
    """Which functions of PyTorch are used. `torch._C` is private: it may change."""

    def cuda(self, **private):
        from millrace.trace._device import LazyCuda
        public = types.SimpleNamespace(is_initialized=lambda: True, Event=dict, current_stream=lambda device=None: "stream",
                                       current_device=lambda: 1)
        made = LazyCuda({"torch.cuda": public, "torch._C": types.SimpleNamespace(**private)})
        self.assertTrue(made.is_initialized())
        return made

    def test_the_cheap_functions_are_used(self):
        class Base(dict):
            pass
        cuda = self.cuda(_CudaEventBase=Base, _cuda_getDevice=lambda: 3, _cuda_getCurrentRawStream=lambda device: 7 * device)
        self.assertEqual((cuda.Event, cuda.get_device(), cuda.get_raw_stream(3)), (Base, 3, 21))

    def test_the_public_functions_are_used_if_those_are_missing_or_different(self):
        for private in ({}, {"_CudaEventBase": dict, "_cuda_getDevice": lambda: 3},
                        {"_CudaEventBase": dict, "_cuda_getDevice": lambda: 3, "_cuda_getCurrentRawStream": lambda: 0},
                        {"_CudaEventBase": lambda: None, "_cuda_getDevice": lambda: 3,
                         "_cuda_getCurrentRawStream": lambda device: 0}):
            with self.subTest(private=private):
                cuda = self.cuda(**private)
                self.assertEqual((cuda.Event, cuda.get_device(), cuda.get_raw_stream(1)), (dict, 1, "stream"))


class ClockTest(unittest.TestCase):
    """The clock alone, with times in milliseconds of a device whose origin is unknown."""

    class Event:
        def __init__(self, ms):
            self.ms = ms

        def elapsed_time(self, end):
            return end.ms - self.ms

    def bracket(self, begin, end, asked_ms, seen_ms):
        from millrace.trace._device import Bracket
        return (Bracket("device", (0, 0), None, self.Event(begin), int(asked_ms * 1e6), self.Event(end)),
                int(seen_ms * 1e6))

    def test_an_event_is_not_before_it_was_asked_for(self):
        from millrace.trace._device import DeviceClock
        clock = DeviceClock()
        self.assertEqual(clock.read(*self.bracket(100, 110, 5, 50)), (5_000_000, 15_000_000))
        # By the chain it would begin at 25; it was asked for at 26: the device's clock is slow.
        self.assertEqual(clock.read(*self.bracket(120, 130, 26, 50)), (26_000_000, 36_000_000))
        self.assertEqual(clock.read(*self.bracket(140, 150, 20, 90)), (46_000_000, 56_000_000))

    def test_an_event_is_not_after_it_was_seen(self):
        from millrace.trace._device import DeviceClock
        clock = DeviceClock()
        clock.read(*self.bracket(100, 110, 5, 50))
        self.assertEqual(clock.read(*self.bracket(120, 130, 20, 33)), (23_000_000, 33_000_000))

    def test_a_bracket_may_begin_with_the_end_of_the_one_before(self):
        from millrace.trace._device import Bracket, DeviceClock
        clock = DeviceClock()
        first, seen_ns = self.bracket(100, 110, 5, 50)
        clock.read(first, seen_ns)
        second = Bracket("device", (0, 0), None, first.end, 6_000_000, self.Event(130))
        self.assertEqual(clock.read(second, 50_000_000), (15_000_000, 35_000_000))


class KinetoTest(TracedTest):
    def test_a_trace_of_the_profiler_joins_the_process(self):
        self.trace.mkdir()
        done = self.run_python(self.write("program.py", """
    import os, time
    from millrace import trace
    began_ns = time.time_ns()
    with trace.region("forward"):
        time.sleep(0.05)
    print(os.getpid(), began_ns)
    """), LD_PRELOAD=str(LIBRARY), MILLRACE_TRACE_DIR=str(self.trace))
        pid, began_ns = map(int, done.stdout.split())
        work = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": pid, "ts": 0, "dur": 1}]
        work += [{"ph": "X", "cat": "kernel", "name": f"k{number}", "pid": 0, "tid": 7, "dur": 4000,
                  "ts": 5000 * number, "args": {"device": 0, "stream": 7}} for number in range(10)]
        profile = self.folder / "profile.json"
        profile.write_text(json.dumps({"traceEvents": work, "baseTimeNanoseconds": began_ns - 1_000_000}))
        program = BUILD / "bin" / "millrace"
        subprocess.run([program, "import", profile, "-o", self.trace], check=True, capture_output=True)
        text = subprocess.run([program, "report", self.trace, "--json"], check=True, text=True,
                              capture_output=True).stdout
        report = json.loads(text)
        self.assertEqual((report["job"]["ranks"], len(report["job"]["hosts"])), (1, 1))
        self.assertEqual(report["time"]["compute_basis"], "device")
        self.assertGreaterEqual(report["time"]["mean"]["compute_ns"], 40_000_000)
        self.assertLess(report["time"]["mean"]["compute_ns"], 48_000_000)


class WindowTest(TracedTest):
    LOOP = """
    import sys, torch
    from torch.utils.data import DataLoader, TensorDataset
    def main(workers):
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=2, num_workers=workers,
                            persistent_workers=workers > 0)
        for epoch in range(3):
            for (batch,) in loader:
                model(batch).sum().backward()
                optimizer.step()
                open("log.txt", "a").close()
    if __name__ == "__main__":
        main(int(sys.argv[1]))
    """

    def record_window(self, steps: str, workers: int):
        script = self.write("train.py", self.LOOP)
        done = self.run_python("-m", "millrace.trace", "-o", self.trace, "--steps", steps, script,
                               workers, MILLRACE_TRACE_LIBRARY=str(LIBRARY))
        return Recording(self.trace), done

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_only_steps_of_the_window_are_recorded(self):
        for workers in (0, 2):
            with self.subTest(workers=workers):
                self.trace = self.folder / f"trace{workers}"
                recording, done = self.record_window("3:6", workers)
                self.assertEqual(done.stderr, "")
                wanted = [(0, 3), (1, 0), (1, 1)]
                for name in ("batch_wait", "forward", "backward", "optimizer"):
                    self.assertEqual(places(recording.named(name)), wanted, name)
                self.assertEqual(sorted(places(recording.named("fetch"))), wanted)
                self.assertEqual(sorted(places(recording.named("read"))), sorted(2 * wanted))
                self.assertEqual(sorted(places(recording.named("collate"))), wanted)
                opens = [event for event in recording.events if "log.txt" in str(event)]
                self.assertTrue(opens)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_the_launcher_passes_the_window_on(self):
        self.run_python("-m", "millrace.trace", "-o", self.trace, "--steps", "3:6",
                        self.write("train.py", self.LOOP), 0)
        text = subprocess.run([BUILD / "bin" / "millrace", "report", self.trace, "--json"], check=True, text=True,
                              capture_output=True).stdout
        self.assertEqual(json.loads(text)["job"]["steps"], 3)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_a_window_that_is_never_reached_is_reported(self):
        recording, done = self.record_window("100:", 0)
        self.assertEqual(recording.named("optimizer"), [])
        self.assertIn("the window begins at step 100, but the program ended after 12 steps",
                      done.stderr)

    def test_a_wrong_window_is_refused(self):
        for steps in ("5", "5:5", "a:b", ":", "-1:4"):
            done = self.run_python("-m", "millrace.trace", "--steps=" + steps, "x.py", code=2)
            self.assertIn("--steps", done.stderr)


if __name__ == "__main__":
    unittest.main()
