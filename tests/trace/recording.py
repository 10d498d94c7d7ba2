"""Reads a recording (docs/formats/recording.md) as Python objects: a second reader beside the C++ one.

Written from the format's page for tests of the recorder and its interfaces. It believes what it
reads no further than that: a wrong magic, version or length is a ValueError.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SESSION_MAGIC = 0x535345534D520A00
PROCESS_MAGIC = 0x434F52504D520A00
NAMES_MAGIC = 0x454D414E4D520A00
RING_MAGIC = 0x474E4952
VERSION = 1
RING_BYTES = 64 * 1024
SLOT_BYTES = 32
HEADER_BYTES = 64
REGION, MARK = 0x500, 0x501
WIDE, OTHER, TAGS, ORIGIN, CONTEXT = 0xFF01, 0xFF02, 0xFF03, 0xFF04, 0xFF05
NO_EPOCH, NO_STEP = 2**32 - 1, 2**64 - 1


class Region(NamedTuple):
    """A region or a mark."""

    name: str
    begin: int  # ticks
    end: int
    epoch: int | None
    step: int | None
    tags: dict
    process: int
    thread: int
    origin: tuple | None  # process and thread where it began, where that is elsewhere
    is_mark: bool


class Process(NamedTuple):
    pid: int
    parent_pid: int
    rank: int
    world_size: int


class Event(NamedTuple):
    """Any event, as far as the first slot tells."""

    call: int
    name: str
    begin: int
    end: int
    offset: int
    size: int
    process: int
    thread: int


class Recording:
    """All sessions below a directory."""

    def __init__(self, path) -> None:
        self.sessions = sorted(page.parent for page in Path(path).rglob("session") if page.is_file())
        if not self.sessions:
            raise ValueError(f"{path}: no session was recorded there")
        self.regions: list[Region] = []
        self.events: list[Event] = []
        self.processes: list[Process] = []
        for session in self.sessions:
            self._read_session(session)
        self.regions.sort(key=lambda region: (region.begin, -region.end))
        self.events.sort(key=lambda event: event.begin)

    def named(self, name: str) -> list[Region]:
        return [region for region in self.regions if region.name == name]

    def _read_session(self, folder: Path) -> None:
        page = (folder / "session").read_bytes()
        magic, version = struct.unpack_from("<QI", page)
        if magic != SESSION_MAGIC or version != VERSION:
            raise ValueError(f"{folder}/session: magic {magic:#x} of version {version}")
        names = Names((folder / "names").read_bytes())
        for rings in sorted(folder.glob("*.rings")):
            data = rings.read_bytes()
            self.processes.append(read_process(rings, data))
            log = rings.with_suffix(".log")
            chunks = list(log_chunks(log.read_bytes())) if log.exists() else []
            logged = {(ring, sequence) for ring, sequence, _ in chunks}
            chunks += [chunk for chunk in ring_chunks(data) if chunk[:2] not in logged]
            for _, _, chunk in sorted(chunks, key=lambda chunk: chunk[:2]):
                self._read_slots(names, chunk)

    def _read_slots(self, names: "Names", chunk: bytes) -> None:
        _, _, _, process, thread, slot_count, _ = struct.unpack_from("<IIQIIII", chunk)
        slots = [chunk[at:at + SLOT_BYTES] for at in range(
            HEADER_BYTES, HEADER_BYTES + slot_count * SLOT_BYTES, SLOT_BYTES)]
        at = 0
        while at < len(slots):
            call, slot_total = struct.unpack_from("<HB", slots[at], 28)
            if call == CONTEXT:
                process, thread = struct.unpack_from("<II", slots[at], 8)
            elif 0 < call < 0xFF00:
                self._add(names, slots[at:at + slot_total], process, thread)
                at += slot_total - 1
            at += 1

    def _add(self, names: "Names", slots: list[bytes], process: int, thread: int) -> None:
        begin, offset, duration, file, size, call = struct.unpack_from("<QQIIIH", slots[0])
        tags: dict = {}
        origin = None
        for slot in slots[1:]:
            kind = struct.unpack_from("<H", slot, 28)[0]
            if kind == WIDE:
                duration += struct.unpack_from("<I", slot, 16)[0] << 32
            elif kind == TAGS:
                tags.update(read_tags(names, slot))
            elif kind == ORIGIN:
                origin = struct.unpack_from("<II", slot)
        if call in (REGION, MARK):
            self.regions.append(Region(
                names[file], begin, begin + duration, None if size == NO_EPOCH else size,
                None if offset == NO_STEP else offset, tags, process, thread, origin,
                call == MARK))
        self.events.append(Event(call, names[file], begin, begin + duration, offset, size, process,
                                 thread))


class Names:
    """The file of names: an id is a place in it, over 8."""

    def __init__(self, data: bytes) -> None:
        magic, version = struct.unpack_from("<QI", data)
        if magic != NAMES_MAGIC or version != VERSION:
            raise ValueError(f"names: magic {magic:#x} of version {version}")
        self.data = data

    def __getitem__(self, name: int) -> str:
        if name == 0:
            return ""
        length = struct.unpack_from("<I", self.data, name * 8)[0]
        begin = name * 8 + 16
        if begin + length > len(self.data):
            raise ValueError(f"names: {name} claims {length} bytes, beyond the end")
        return self.data[begin:begin + length].decode("utf-8", "surrogateescape")


def read_process(path: Path, page: bytes) -> Process:
    magic, version, pid, parent, _, rank, world = struct.unpack_from("<QIIIIii", page)
    if magic != PROCESS_MAGIC or version != VERSION:
        raise ValueError(f"{path}: magic {magic:#x} of version {version}")
    return Process(pid, parent, rank, world)


def ring_chunks(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    for at in range(RING_BYTES, len(data) - RING_BYTES + 1, RING_BYTES):
        magic, ring, sequence = struct.unpack_from("<IIQ", data, at)
        if magic == RING_MAGIC:
            yield ring, sequence, data[at:at + RING_BYTES]


def log_chunks(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at + HEADER_BYTES <= len(data):
        magic, ring, sequence = struct.unpack_from("<IIQ", data, at)
        slot_count = struct.unpack_from("<I", data, at + 24)[0]
        size = HEADER_BYTES + slot_count * SLOT_BYTES
        if magic != RING_MAGIC or at + size > len(data):
            raise ValueError(f"log: no whole chunk at byte {at}")
        yield ring, sequence, data[at:at + size]
        at += size


def read_tags(names: Names, slot: bytes) -> Iterator[tuple[str, object]]:
    values = struct.unpack_from("<QQ", slot)
    keys = struct.unpack_from("<II", slot, 16)
    kinds = struct.unpack_from("<BB", slot, 24)
    for key, kind, value in zip(keys, kinds, values):
        if kind == 1:
            yield names[key], value - 2**64 if value >= 2**63 else value
        elif kind == 2:
            yield names[key], struct.unpack("<d", struct.pack("<Q", value))[0]
        elif kind == 3:
            yield names[key], names[value]
