#!/usr/bin/env python3
"""Device time: brackets of events become regions on the clock of the host; copies are marked; only the
steps of a window are recorded. The device is a fake: a stream that takes the time it is given."""

import importlib.util
import json
import subprocess
import types
import unittest

from traced import BUILD, LIBRARY, Recording, TracedTest

# A launch is a call of work(), inside a marked function. Times are real, so that the recorder's are too.
FAKE = f"""
    import ctypes, time
    from millrace import _trace
    from millrace.trace import _device

    driver = ctypes.CDLL({str(BUILD / "lib" / "libfake_cuda.so")!r})
    driver.fake_stream.restype = ctypes.c_void_p
    driver.fake_work.argtypes = [ctypes.c_int, ctypes.c_double]
    driver.fake_clock_speed.argtypes = [ctypes.c_double]
    used = [0]  # the current stream

    def find():
        return "libfake_cuda", lambda: 0, lambda device: driver.fake_stream(used[0])

    def work(milliseconds):
        driver.fake_work(used[0], milliseconds)

    _device.use("meta", find)  # before PyTorch is imported
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
        # It runs behind the host, and its regions adjoin, unless the host itself launched late.
        launched = {region.step: region.begin for region in recording.named("forward")}
        ended = device[0].begin
        for region in sorted(device + recording.named("device_copy"), key=lambda region: region.begin):
            if region in device:
                self.assertLess(region.begin - max(ended, launched[region.step]), ticks_of(recording, 1))
            ended = max(ended, region.end)

    def test_no_device_work_means_no_device_time(self):
        code = TRAIN.replace('return "libfake_cuda", ', "return None\n        return '', ")
        self.assertIn("return None", code)
        recording = self.record_script(self.write(
            "train.py", code.replace("main(STEPS, HOST_MS)", "main(2, 0)")))
        self.assertEqual(recording.named("device") + recording.named("device_copy"), [])
        self.assertEqual(len(recording.named("optimizer")), 2)

    def test_a_driver_that_is_not_loaded_is_missed_once(self):
        recording = self.record_script(self.write("train.py", TRAIN.replace("libfake_cuda\"", "libfake_hip\"").replace(
            "main(STEPS, HOST_MS)", "main(2, 0)")))
        self.assertEqual([lost.tags for lost in recording.named("device_time_lost")], [{"error": "no driver was found"}])
        self.assertEqual((len(recording.named("optimizer")), recording.named("device")), (2, []))

    def test_a_device_that_fails_is_left_to_the_program(self):
        code = TRAIN.replace("main(STEPS, HOST_MS)", "main(2, 0); driver.fake_fail(1); main(2, 0)")
        recording = self.record_script(self.write("train.py", code))
        self.assertEqual(len(recording.named("optimizer")), 4)
        self.assertEqual(recording.named("device_time_lost")[0].tags, {"error": "the driver returned error 719"})

    def test_a_capture_of_a_graph_is_left_alone(self):
        code = TRAIN.replace("main(STEPS, HOST_MS)", """
    assert _trace._device_enter(False)
    _trace._device_leave(False)
    _trace._device_end_step()
    _trace._device_capture(True)
    main(2, 0)
    _trace._device_capture(False)
    main(3, 0)
    """)
        recording = self.record_script(self.write("train.py", code))
        self.assertEqual(len(set(places(recording.named("device"))) - {(None, None)}), 3)

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
    MINUTE, TRUSTED = 60 * 10**9, 8
    _trace._device_tune(join_ns=MINUTE, read_ns=60 * MINUTE, probe_ns=60 * MINUTE)
    COPY, WORK = True, False
    read, end_step = _trace._device_read, _trace._device_end_step

    def launch(kind, milliseconds=0):
        assert _trace._device_enter(kind)
        work(milliseconds)
        _trace._device_leave(False)

    def calls():
        counts = {name: getattr(driver, "fake_" + name)() for name in ("recorded", "queried", "elapsed")}
        return {name: count for name, count in counts.items() if count}

    def counted(function, *arguments):
        calls()
        function(*arguments)
        return calls()

    launch(WORK), end_step(), read()  # the first event is at the begin: the clock starts with it
    """


class CallsTest(TracedTest):
    """How often the device is asked. Each call of the driver takes microseconds, in each step."""

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_a_steady_step_puts_in_two_events(self):
        recording = self.record_script(self.write("train.py", TIMER + """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model, loss = torch.nn.Linear(2, 1), torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    WARM, STEPS = 2 * TRUSTED, 10
    for step, (x, y) in enumerate(DataLoader(TensorDataset(torch.ones(WARM + STEPS, 2), torch.ones(WARM + STEPS, 1)))):
        if step == WARM:
            read()
            calls()
        x.to("meta"), y.to(torch.device("meta"))
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    read()
    found = calls()  # the end of the copies, and that of the work
    assert found == {"recorded": 2 * STEPS, "queried": STEPS, "elapsed": 2 * STEPS}, found
    """))
        self.assertEqual(len(recording.named("device")), 1 + 26)
        self.assertEqual(len(recording.named("device_copy")), 26)

    def test_an_end_that_was_not_expected_is_put_in_late_and_once(self):
        recording = self.record(TIMER + """
    def step(launches):
        for _ in range(launches):
            launch(WORK)
        end_step()

    for _ in range(TRUSTED):
        assert counted(step, 2)["recorded"] == 2
    assert counted(step, 2)["recorded"] == 1   # no end between the two
    assert "recorded" not in counted(launch, WORK)
    assert counted(end_step) == {"recorded": 1}
    for _ in range(TRUSTED):
        assert counted(launch, WORK)["recorded"] == 1
        assert counted(end_step) == {}
    assert counted(step, 2)["recorded"] == 2   # the expectation is gone
    """)
        self.assertEqual(len(recording.named("device")), 1 + 2 * 8 + 3)

    def test_an_expectation_that_fails_at_other_work_ends_where_that_begins(self):
        recording = self.record(TIMER + """
    for _ in range(TRUSTED):
        launch(WORK), launch(WORK), end_step()
    assert counted(launch, WORK) == {}
    assert counted(launch, COPY) == {"recorded": 2}   # the end of the work, and that of the copy
    assert "recorded" not in counted(end_step)
    """)
        self.assertEqual([len(recording.named(name)) for name in ("device", "device_copy")], [1 + 9, 1])

    def test_events_are_used_again_and_only_after_they_are_read(self):
        recording = self.record(TIMER + """
    driver.fake_clock_speed(1)
    from millrace import trace
    for step in range(100):
        trace.set_step(step)
        launch(COPY, 1), launch(WORK, 2), launch(COPY, 1), launch(WORK, 3)
        end_step()
        if step % 7 == 0:
            read()
        if step == 50:
            _trace._device_drain(), driver.fake_created()
    _trace._device_drain()
    assert driver.fake_created() < 30, "events are not used again"
    with trace.region("reference"):
        time.sleep(0.05)
    """)
        copies, works = recording.named("device_copy"), recording.named("device")[1:]
        self.assertEqual([len(copies), len(works), recording.named("device_time_lost")], [200, 200, []])
        reference = recording.named("reference")[0]
        millisecond = (reference.end - reference.begin) / 50
        # An event that was put in again too early would have another time.
        for region, ms in zip(sorted(copies + works, key=lambda region: region.begin)[3:], 100 * [1, 2, 1, 3][3:]):
            self.assertLess(region.end - region.begin, 30 * millisecond)
        self.assertGreater(sum(region.end - region.begin for region in works), 0.8 * 500 * millisecond)
        self.assertGreater(sum(region.end - region.begin for region in copies), 0.8 * 200 * millisecond)

    def test_two_streams_are_asked_for_separately(self):
        self.record(TIMER + """
    def step():
        used[0] = 1
        launch(COPY)
        used[0] = 0
        launch(WORK)
        end_step()
    step()
    read()
    assert counted(step) == {"recorded": 2}
    assert counted(read) == {"queried": 2, "elapsed": 2}
    """)

    def test_each_device_has_its_own_clock_and_events(self):
        recording = self.record(TIMER + """
    def step():
        driver.fake_use_device(1)
        launch(WORK, 1)
        driver.fake_use_device(0)
        launch(COPY), end_step()
    assert counted(step)["recorded"] == 3   # the clock of the second device starts
    for _ in range(20):
        step()
    assert counted(step)["recorded"] == 2
    """)
        self.assertEqual(recording.named("device_time_lost"), [])
        self.assertEqual([len(recording.named(name)) for name in ("device", "device_copy")], [1 + 22, 22])

    def test_a_program_without_steps_is_recorded_while_it_runs(self):
        self.record(TIMER + """
    for _ in range(100):
        launch(COPY), launch(WORK)
    assert counted(read)["elapsed"] >= 64
    """)

    def test_a_program_that_is_far_ahead_loses_only_what_does_not_fit(self):
        recording = self.record(TIMER + """
    work(300)
    timed = 0
    for _ in range(5000):
        timed += _trace._device_enter(COPY)
        _trace._device_leave(False), end_step()
    assert 4000 < timed < 4100, timed
    _trace._device_drain()
    launch(WORK)
    """)
        self.assertEqual(len(recording.named("device_time_lost")), 1)
        self.assertEqual(len(recording.named("device")), 2)

    def test_a_call_of_the_driver_that_hangs_does_not_stop_training(self):
        recording = self.record(TIMER + """
    launch(WORK), end_step()
    driver.fake_block(1)
    _trace._device_drain()  # wakes the thread that reads, and gives up after a while
    assert driver.fake_blocked() == 1
    _trace._device_capture(True), _trace._device_capture(False)
    launch(COPY), launch(WORK), end_step()
    assert driver.fake_blocked() == 1, "training waited for the driver"
    driver.fake_block(0)
    _trace._device_drain()
    """)
        self.assertEqual(len(recording.named("device")), 3)

    def test_a_forked_child_asks_nothing(self):
        self.record(TIMER + """
    import os
    launch(COPY), launch(WORK), end_step(), read(), launch(WORK)
    calls()
    pid = os.fork()
    if pid == 0:
        was_entered = _trace._device_enter(WORK)
        _trace._device_leave(False), end_step(), read(), _trace._device_drain(), _trace._device_finish()
        os._exit(1 if was_entered or calls() or driver.fake_created() > 3 else 0)
    assert os.waitpid(pid, 0)[1] == 0
    launch(WORK), end_step()
    """)


class ClockTest(TracedTest):
    """Clocks that run at quite different speeds, so that what the host knows must correct them."""

    def test_work_is_after_its_launch_and_before_its_end_was_seen(self):
        for speed in (0.8, 1.2):
            with self.subTest(speed=speed):
                self.trace = self.folder / f"trace{speed}"
                recording = self.record(TIMER + f"""
    driver.fake_clock_speed({speed})
    _trace._device_tune(probe_ns=0)
    from millrace import trace
    for number in range(20):
        with trace.region("step"):
            launch(WORK, 10)
            end_step()
            time.sleep(0.02)
            read()
    """)
                steps, works = recording.named("step"), recording.named("device")[1:]
                self.assertEqual((len(steps), len(works)), (20, 20))
                slack = min(step.end - step.begin for step in steps) / 100
                for step, work in zip(steps, works):
                    self.assertGreaterEqual(work.begin, step.begin - slack)
                    self.assertLessEqual(work.end, step.end + slack)


class FindCudaTest(unittest.TestCase):
    """Which functions of PyTorch are used. `torch._C` is private: it may change."""

    def find(self, **private):
        from millrace.trace._device import find_cuda
        stream = types.SimpleNamespace(cuda_stream=5)
        public = types.SimpleNamespace(is_initialized=lambda: True, current_stream=lambda device=None: stream,
                                       current_device=lambda: 1)
        return find_cuda({"torch.cuda": public, "torch._C": types.SimpleNamespace(**private)}, "libc.so")

    def test_the_cheap_functions_are_used(self):
        _, get_device, get_stream = self.find(_cuda_getDevice=lambda: 3, _cuda_getCurrentRawStream=lambda device: 7 * device)
        self.assertEqual((get_device(), get_stream(3)), (3, 21))

    def test_the_public_functions_are_used_if_those_are_missing_or_different(self):
        for private in ({}, {"_cuda_getDevice": lambda: 3},
                        {"_cuda_getDevice": lambda: 3, "_cuda_getCurrentRawStream": lambda: 0}):
            with self.subTest(private=private):
                _, get_device, get_stream = self.find(**private)
                self.assertEqual((get_device(), get_stream(1)), (1, 5))

    def test_nothing_is_found_before_the_gpu_is_initialised(self):
        from millrace.trace._device import find_cuda
        self.assertIsNone(find_cuda({}, "libc.so"))
        self.assertIsNone(find_cuda({"torch.cuda": types.SimpleNamespace(is_initialized=lambda: False)}, "libc.so"))


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
                # Workers fetch ahead of the window; the process that trains does nothing before it.
                trainer = recording.named("optimizer")[0].process
                begin = min(region.begin for region in recording.named("batch_wait"))
                early = [event for event in recording.events if event.pid == trainer and event.begin < begin]
                self.assertEqual(early, [])

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_the_launcher_passes_the_window_on(self):
        self.run_python("-m", "millrace.trace", "-o", self.trace, "--steps", "3:6",
                        self.write("train.py", self.LOOP), 0)
        text = subprocess.run([BUILD / "bin" / "millrace", "report", self.trace, "--json"], check=True, text=True,
                              capture_output=True).stdout
        report = json.loads(text)
        self.assertEqual(report["job"]["steps"], 3)
        self.assertEqual(report["job"]["framework"], "pytorch")
        # The window is the job: it begins with the first wait.
        self.assertEqual([stall for stall in report["stalls"] if stall["phase"] == "before training"], [])
        self.assertEqual(min(step["begin_ns"] for step in report["steps"]["slowest"]), 0)

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
