"""A synthetic job as a .pfw file. `millrace import` reads it, and the exports are compared with it."""

import json
import random
from pathlib import Path

START_US = 1_700_000_000_000_000
HOSTS = {"node1": "00000000000000a1", "node2": "00000000000000a2"}


class Job:
    """Collects lines; events are also kept as dictionaries, for comparison."""

    def __init__(self):
        self.lines = []
        self.events = []
        self.files = {}

    def metadata(self, record, pid, host, **args):
        self.lines.append({"name": record, "cat": "dftracer", "type": 1, "pid": pid, "tid": pid, "ph": 4,
                           "args": {"hhash": HOSTS[host], **args}})

    def process(self, pid, host, rank):
        self.metadata("HH", pid, host, name=host, value=HOSTS[host])
        self.metadata("PR", pid, host, name="rank", value=str(rank))

    def file(self, path, pid, host):
        if path not in self.files:
            self.files[path] = f"{len(self.files) + 1:016x}"
            self.metadata("FH", pid, host, name=path, value=self.files[path])
        return self.files[path]

    def event(self, name, cat, begin_ns, end_ns, pid, tid, host="node1", path=None, **args):
        begin_us, end_us = begin_ns // 1000, end_ns // 1000
        held = {"hhash": HOSTS[host], "ns": begin_ns % 1000 * 1000 + end_ns % 1000, **args}
        if path is not None:
            held["fhash"] = self.file(path, pid, host)
        self.lines.append({"id": len(self.lines), "name": name, "cat": cat, "type": 3, "pid": pid,
                           "tid": tid, "ts": START_US + begin_us, "dur": end_us - begin_us, "ph": 1,
                           "args": held})
        self.events.append({"name": name, "begin": begin_ns, "end": end_ns, "pid": pid, "tid": tid,
                            "path": path, "args": args})

    def write(self, path: Path):
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in self.lines),
                        encoding="utf-8")


def make_job(seed: int = 1, count: int = 300) -> Job:
    """Two ranks on two hosts: regions over calls, calls inside calls, regions that overlap, errors."""
    chance = random.Random(seed)
    job = Job()
    for pid, host, rank in ((10, "node1", 0), (10, "node2", 1), (11, "node1", 2)):
        job.process(pid, host, rank)
        for tid in (pid, pid + 100):
            now = chance.randrange(1000)
            for step in range(count):
                begin = now
                now += chance.randrange(1, 300)
                path = f'/dataset/{chance.randrange(20)} "é".npz'
                size = chance.randrange(1 << 40)
                job.event("pread", "POSIX", now, now + 50, pid, tid, host, path, ret=size - 1,
                          count=size, offset=chance.randrange(1 << 45))
                now += 50
                job.event("open", "POSIX", now, now, pid, tid, host, "/none", ret=-1, errno=2, flags=65)
                end = now + chance.randrange(3)
                # In the order of their ends: inner events come first.
                job.event("fetch", "APP", begin, end, pid, tid, host, epoch=step // 100, step=step,
                          batch=chance.randrange(64), loss=chance.random(), kind="a b")
                now = end + chance.choice((0, 0, 5))
                if step % 10 == 0:  # began long before, and ends during the next one
                    job.event("overlap", "APP", max(0, begin - 500), now + 20, pid, tid, host)
                if step % 25 == 0:  # began on another thread
                    job.event("foreign", "APP", max(0, begin - 100), now, pid, tid, host, event_flags=8)
            job.event("epoch", "APP", 0, now + 1000, pid, tid, host)
    return job
