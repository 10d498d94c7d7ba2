"""Reads a recording as described in docs/formats/recording.md, independently of the C++ reader. Used by tests of the
recorder. The names of calls come from src/wire/trace_call.h."""

import os
import re
import struct
from collections import namedtuple

Event = namedtuple("Event", "begin pid tid call file offset size result error detail other_file other_offset "
                            "duration tags flags origin")

# A region or a mark. Times are ticks. epoch, step and origin (the process and thread where it began, if elsewhere)
# may be None.
Region = namedtuple("Region", "name begin end epoch step tags process thread origin is_mark")

RING_BYTES = 65536
NO_OFFSET = (1 << 64) - 1
WIDE, OTHER, TAGS, ORIGIN, CONTEXT = 0xff01, 0xff02, 0xff03, 0xff04, 0xff05

SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _call_names():
    with open(os.path.join(SOURCES, "src/wire/trace_call.h")) as header:
        text = header.read()
    tables = {}
    for level, name in enumerate(("Posix", "Stdio", "Mpiio", "Hdf5", "App"), start=1):
        body = re.search(r"k%sCalls\[\] = \{(.*?)\};\n" % name, text, re.S).group(1)
        tables[level] = re.findall(r'\{"(\w+)"', body)
    return tables


CALLS = _call_names()


Process = namedtuple("Process", "pid parent_pid origin rank world_size exited exit_code lost lost_error lost_names rings")


class Session:
    """One session directory."""

    def __init__(self, path):
        self.path = path
        with open(os.path.join(path, "names"), "rb") as names:
            self._names = names.read()
        with open(os.path.join(path, "session"), "rb") as file:
            self.lost_events, _, _, self.lost_error, _, self.lost_processes = struct.unpack_from(
                "<QQQIIQ", file.read(), 80)
        self.processes = []
        self.events = []
        for entry in sorted(os.listdir(path)):
            stem = entry[:-len(".rings")]
            if not entry.endswith(".rings") or "@" in stem:
                continue
            with open(os.path.join(path, entry), "rb") as file:
                rings = file.read()
            if stem.startswith("areas-"):
                self._read_child_pages(os.path.join(path, stem), rings)
            else:
                self._read_process(os.path.join(path, stem), rings)
        self.events.sort(key=lambda event: (event.begin, -event.duration))

    def name(self, number):
        if number == 0:
            return ""
        length, = struct.unpack_from("<I", self._names, number * 8)
        return os.fsdecode(self._names[number * 8 + 16:number * 8 + 16 + length])

    def _read_child_pages(self, stem, file):
        magic, version, count, taken = struct.unpack_from("<QIII", file)
        assert magic == 0x534145524d520a00 and version == 1, (stem, hex(magic), version)
        for number in range(min(count, taken)):
            page = file[RING_BYTES * (1 + 2 * number):RING_BYTES * (3 + 2 * number)]
            if not any(page[:8]):
                continue  # reserved, but not started
            own = "%s@%d" % (stem, number)
            if os.path.exists(own + ".rings"):
                with open(own + ".rings", "rb") as more:
                    page += more.read()[len(page):]
            self._read_process(own, page)

    def _read_process(self, stem, rings):
        if not any(rings[:8]):
            return  # killed before it started
        log = b""
        if os.path.exists(stem + ".log"):
            with open(stem + ".log", "rb") as file:
                log = file.read()
        magic, version, pid, parent, origin, rank, world = struct.unpack_from("<QIIIIii", rings)
        assert magic == 0x434f52504d520a00 and version == 1, (stem, hex(magic), version)
        lost, _, _, lost_error, lost_names = struct.unpack_from("<QQQII", rings, 104)
        ring_count, exited, code = struct.unpack_from("<IIi", rings, 136)
        self.processes.append(Process(pid, parent, origin, rank, world, bool(exited), code, lost, lost_error,
                                      lost_names, ring_count))
        chunks = []
        logged = set()
        at = 0
        while at + 64 <= len(log):
            magic, ring, sequence, _, _, slots = struct.unpack_from("<IIQIII", log, at)
            assert magic == 0x474e4952, (stem, at, hex(magic))
            end = at + 64 + 32 * slots
            if end > len(log):
                break  # incomplete: the ring still has it
            logged.add((ring, sequence))
            chunks.append(log[at:end])
            at = end
        for at in range(RING_BYTES, len(rings) - RING_BYTES + 1, RING_BYTES):
            magic, ring, sequence = struct.unpack_from("<IIQ", rings, at)
            if magic == 0x474e4952 and (ring, sequence) not in logged:
                chunks.append(rings[at:at + RING_BYTES])
        for chunk in chunks:
            self._read_chunk(chunk)

    def _read_chunk(self, chunk):
        pid, tid = struct.unpack_from("<II", chunk, 16)
        at = 64
        while at + 32 <= len(chunk):
            call, slots = struct.unpack_from("<HB", chunk, at + 28)
            if call == CONTEXT:
                _, pid, tid = struct.unpack_from("<QII", chunk, at)
            if call == 0 or call >= 0xff00:
                at += 32
                continue
            self.events.append(self._event(chunk, at, pid, tid))
            at += 32 * slots

    def _event(self, chunk, at, pid, tid):
        begin, offset, duration, file, size, call, slots, flags = struct.unpack_from("<QQIIIHBB", chunk, at)
        form = flags & 7
        result = {1: size, 2: 0, 3: size, 4: offset}.get(form, 0)
        if form == 3:
            size = 0
        error = detail = 0
        other_file, other_offset = "", None
        tags = {}
        origin = None
        for k in range(1, slots):
            place = at + 32 * k
            tag, = struct.unpack_from("<H", chunk, place + 28)
            if tag == WIDE:
                wide_result, size, high, detail, _, _, error = struct.unpack_from("<qQIIIHH", chunk, place)
                duration |= high << 32
                if form == 0:
                    result = wide_result
            elif tag == OTHER:
                other_offset, _, other = struct.unpack_from("<QQI", chunk, place)
                other_file = self.name(other)
            elif tag == TAGS:
                tags.update(self._tags(chunk, place))
            elif tag == ORIGIN:
                origin = struct.unpack_from("<II", chunk, place)
        return Event(begin, pid, tid, CALLS[call >> 8][call & 255], self.name(file),
                     None if offset == NO_OFFSET else offset, size, result, error, detail, other_file,
                     None if other_offset == NO_OFFSET else other_offset, duration, tags, flags, origin)

    def _tags(self, chunk, place):
        values = struct.unpack_from("<QQ", chunk, place)
        keys = struct.unpack_from("<II", chunk, place + 16)
        kinds = struct.unpack_from("<BB", chunk, place + 24)
        for key, kind, value in zip(keys, kinds, values):
            if kind == 1:
                yield self.name(key), value - 2**64 if value >= 2**63 else value
            elif kind == 2:
                yield self.name(key), struct.unpack("<d", struct.pack("<Q", value))[0]
            elif kind == 3:
                yield self.name(key), self.name(value)


def read(directory):
    """All sessions in a trace directory."""
    found = []
    for entry in sorted(os.listdir(directory)):
        path = os.path.join(directory, entry)
        if os.path.exists(os.path.join(path, "session")):
            found.append(Session(path))
    return found


def events(directory):
    return [event for session in read(directory) for event in session.events]


class Recording:
    """A trace directory, for tests of regions."""

    def __init__(self, directory):
        self.sessions = read(directory)
        if not self.sessions:
            raise ValueError("%s: no session was recorded there" % directory)
        self.processes = [process for session in self.sessions for process in session.processes]
        self.events = [event for session in self.sessions for event in session.events]
        self.regions = [_region(event) for event in self.events if event.call in ("region", "mark")]

    def named(self, name):
        return [region for region in self.regions if region.name == name]


def _region(event):
    return Region(event.file, event.begin, event.begin + event.duration,
                  None if event.size == 2**32 - 1 else event.size, event.offset, event.tags, event.pid, event.tid,
                  event.origin, event.call == "mark")


if __name__ == "__main__":
    import sys
    for event in events(sys.argv[1]):
        print(*event[1:])
