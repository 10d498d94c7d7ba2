#!/usr/bin/env python3
"""millrace.trace under the real recorder: correct events from every kind of function and process."""

import unittest

from traced import QUIET_TRACKER, TracedTest


class RegionsTest(TracedTest):
    def test_blocks_nest_and_have_epoch_step_and_tags(self):
        recording = self.record("""
            from pathlib import Path
            from millrace import trace
            fetch = trace.region("fetch", epoch=1, step=2, file=Path("x"), rate=0.5, n=-3, big=2**70)
            with fetch:
                with trace.region("read"):
                    pass
                trace.mark("here", flag=True)
            with fetch:
                pass
            """)
        first, second = recording.named("fetch")
        (read,), (mark,) = recording.named("read"), recording.named("here")
        self.assertEqual((first.epoch, first.step), (1, 2))
        self.assertEqual(first.tags, {"file": "x", "rate": 0.5, "n": -3, "big": str(2**70)})
        self.assertEqual(second.tags, first.tags)
        self.assertEqual((read.epoch, read.step, read.tags), (None, None, {}))
        self.assertTrue(first.begin <= read.begin < read.end <= mark.begin <= first.end
                        <= second.begin)
        self.assertTrue(mark.is_mark and mark.tags == {"flag": 1})

    def test_every_kind_of_function_keeps_its_behaviour(self):
        recording = self.record("""
            import copy, functools, inspect, pickle
            from millrace import trace

            @trace.region
            def plain(a, /, b=2, *rest, c, **more):
                "doc"
                return a, b, rest, c, more

            assert plain(1, c=3) == (1, 2, (), 3, {})
            assert plain(1, 5, 6, c=3, d=4) == (1, 5, (6,), 3, {"d": 4})
            assert (plain.__name__, plain.__doc__, plain.__module__) == ("plain", "doc", "__main__")
            assert str(inspect.signature(plain)) == "(a, /, b=2, *rest, c, **more)"
            assert pickle.loads(pickle.dumps(plain)) is plain and copy.deepcopy(plain) is plain
            assert functools.partial(plain, 1)(c=1)[0] == 1

            class Reader:
                @trace.region("method")
                def get(self, index): return self, index
                @trace.region
                @staticmethod
                def fixed(index): return index
                @trace.region
                @classmethod
                def own(cls): return cls

            reader = Reader()
            assert reader.get(4) == (reader, 4) and Reader.get(reader, 5) == (reader, 5)
            assert reader.get.__self__ is reader and list(map(reader.get, [1])) == [(reader, 1)]
            assert Reader.fixed(1) == reader.fixed(1) == 1 and reader.own() is Reader
            """)
        self.assertEqual(
            {name: len(recording.named(name))
             for name in ("plain", "method", "Reader.fixed", "Reader.own")},
            {"plain": 3, "method": 3, "Reader.fixed": 2, "Reader.own": 1})

    def test_generators_and_coroutines_keep_their_behaviour(self):
        recording = self.record("""
            import asyncio, inspect
            from millrace import trace

            @trace.region("generator")
            def generate():
                got = yield 1
                try:
                    yield got
                except KeyError:
                    yield "caught"
                return "end"

            items = generate()
            assert inspect.isgeneratorfunction(generate)
            assert next(items) == 1 and items.send(2) == 2 and items.throw(KeyError()) == "caught"
            try:
                next(items)
            except StopIteration as end:
                assert end.value == "end"

            @trace.region("coroutine")
            async def wait(event):
                await event.wait()
                return "longer"

            @trace.region("coroutine")
            async def ring(event):
                await asyncio.sleep(0)
                event.set()
                return "shorter"

            @trace.region("async generator")
            async def count():
                yield 1
                yield 2

            async def main():
                event = asyncio.Event()
                assert await asyncio.gather(wait(event), ring(event)) == ["longer", "shorter"]
                assert [item async for item in count()] == [1, 2]

            asyncio.run(main())
            """)
        self.assertEqual(
            {name: len(recording.named(name))
             for name in ("generator", "coroutine", "async generator")},
            {"generator": 4, "coroutine": 2, "async generator": 3})
        # Two tasks overlap on one thread: the longer one began first and ended last.
        longer, shorter = recording.named("coroutine")
        self.assertTrue(longer.begin < shorter.begin and shorter.end < longer.end)

    def test_an_exception_propagates_and_is_recorded(self):
        recording = self.record("""
            from millrace import trace

            @trace.region("fails", file="x")
            def fails(): raise KeyError("lost")

            def broken():
                yield 1
                raise OSError

            for attempt in (fails, lambda: list(trace.iterate(broken(), "item"))):
                try:
                    attempt()
                except (KeyError, OSError):
                    pass
            with trace.region("fine"):
                pass
            """)
        self.assertEqual([region.tags for region in recording.named("fails")],
                         [{"file": "x", "error": "KeyError"}])
        self.assertEqual([region.tags for region in recording.named("item")],
                         [{}, {"error": "OSError"}])
        self.assertEqual(recording.named("fine")[0].tags, {})

    def test_iterate_counts_steps_and_the_loop_inherits_them(self):
        recording = self.record("""
            from millrace import trace
            loader = trace.iterate(["a", "b"], "fetch")
            for epoch in range(2):
                with trace.epoch(epoch):
                    for batch in loader:
                        with trace.region("compute"):
                            pass
            with trace.region("after"):
                pass
            for batch in trace.iterate([1], "later", step=7, kind="x"):
                pass
            """)
        expected = [(0, 0), (0, 1), (1, 0), (1, 1)]
        for name in ("fetch", "compute"):
            self.assertEqual([(region.epoch, region.step) for region in recording.named(name)],
                             expected)
        self.assertEqual([region.epoch for region in recording.named("epoch")], [0, 1])
        (after,), (later,) = recording.named("after"), recording.named("later")
        self.assertEqual((after.epoch, after.step), (None, None))
        self.assertEqual((later.step, later.tags), (7, {"kind": "x"}))

    def test_threads_share_a_region_and_a_span_may_end_on_another_thread(self):
        recording = self.record("""
            import threading
            from millrace import trace
            shared, barrier = trace.region("shared"), threading.Barrier(4)

            def work():
                with shared:
                    barrier.wait()      # all are inside
                    with shared:
                        barrier.wait()

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()

            span = trace.region("moved").begin()
            thread = threading.Thread(target=span.end)
            thread.start()
            thread.join()
            trace.region("never ended").begin()
            with trace.region("here"): pass
            """)
        shared = recording.named("shared")
        self.assertEqual(len(shared), 8)
        by_thread: dict = {}
        for region in shared:
            self.assertIsNone(region.origin)
            by_thread.setdefault(region.thread, []).append(region)
        self.assertEqual(len(by_thread), 4)
        for outer, inner in by_thread.values():
            self.assertTrue(outer.begin <= inner.begin and inner.end <= outer.end)
        (moved,), (here,) = recording.named("moved"), recording.named("here")
        self.assertEqual(moved.origin, (here.process, here.thread))
        self.assertNotEqual(moved.thread, here.thread)
        self.assertEqual(recording.named("never ended"), [])

    def test_a_fork_within_a_region_is_recorded(self):
        recording = self.record("""
            import os
            from millrace import trace

            @trace.region("call")
            def call():
                return os.fork()

            region = trace.region("block")
            with trace.epoch(2), region:
                child = call()
                with trace.region("inside"):
                    pass
            if child:
                assert os.waitpid(child, 0)[1] == 0
            """)
        for name in ("call", "block", "epoch"):
            parent, child = sorted(recording.named(name), key=lambda region: region.origin is not None)
            self.assertIsNone(parent.origin)
            self.assertEqual(child.origin, (parent.process, parent.thread))
            self.assertNotEqual(child.process, parent.process)
        self.assertEqual({region.epoch for region in recording.named("inside")}, {2})
        self.assertEqual({region.origin for region in recording.named("inside")}, {None})

    def test_multiprocessing_of_every_kind_is_recorded(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method=method):
                self.trace = self.folder / method
                recording = self.record("""
                    import multiprocessing, sys
                    from millrace import trace

                    @trace.region("work")
                    def work(index):
                        with trace.region("inner", index=index):
                            return index

                    if __name__ == "__main__":
                        with multiprocessing.get_context("METHOD").Pool(2) as pool:
                            assert pool.map(work, range(6)) == list(range(6))
                            pool.close()
                            pool.join()
                    """.replace("METHOD", method), **QUIET_TRACKER)
                self.assertEqual(len(recording.named("work")), 6)
                self.assertEqual(sorted(region.tags["index"] for region in recording.named("inner")),
                                 list(range(6)))

    def test_a_killed_program_keeps_its_regions(self):
        recording = self.record("""
            import os, signal
            from millrace import trace
            child = os.fork()
            if child == 0:
                fetch = trace.region("fetch")
                for _ in range(50_000):
                    with fetch: pass
                os.kill(os.getpid(), signal.SIGKILL)
            os.waitpid(child, 0)
            """)
        self.assertEqual(len(recording.named("fetch")), 50_000)

    def test_levels_without_app_record_no_region(self):
        recording = self.record("""
            from millrace import trace
            assert not trace.enabled()
            @trace.region
            def work(): return 5
            assert work() == 5
            with trace.region("fetch"): pass
            assert list(trace.iterate([1])) == [1]
            """, MILLRACE_TRACE_LEVELS="posix")
        self.assertEqual(recording.regions, [])
        self.assertGreater(len(recording.events), 0)

    def test_ranks_and_unusual_texts_are_recorded(self):
        recording = self.record("""
            from millrace import trace
            trace.set_rank(rank=3, world_size=4)
            with trace.region("grüße", file="\\udcff.bin", none=None): pass
            """)
        self.assertEqual([region.tags for region in recording.named("grüße")],
                         [{"file": "\udcff.bin", "none": "None"}])
        self.assertIn((3, 4), [(process.rank, process.world_size)
                               for process in recording.processes])

    def test_nothing_is_leaked(self):
        self.record("""
            import sys
            from millrace import trace

            @trace.region
            def work(): return None

            def all_of_it():
                for i in range(500):
                    with trace.region("fetch", step=i, file=f"file {i}", size=1 << 40): work()
                    list(trace.iterate([1, 2], "read", kind="x"))
                    trace.region("a").begin().end()
                    trace.region(lambda: None)()

            all_of_it()
            before = sys.getallocatedblocks()
            all_of_it()
            assert sys.getallocatedblocks() - before < 50, sys.getallocatedblocks() - before
            """)

    def test_time_logger_records_regions(self):
        recording = self.record("""
            from millrace.trace import TimeLogger
            logger = TimeLogger(rank=1)
            with logger.timer("read", epoch=4, caller="loader"): pass
            """)
        (read,) = recording.named("read")
        self.assertEqual((read.epoch, read.tags), (4, {"caller": "loader"}))


if __name__ == "__main__":
    unittest.main()
