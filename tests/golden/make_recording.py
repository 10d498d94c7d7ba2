#!/usr/bin/env python3
"""Writes a small recording and a packed trace, using only docs/formats/recording.md and trace.md.

    make_recording.py recording DIR    the directory of a session in DIR
    make_recording.py trace FILE       a packed trace

It shares no code with the readers that it tests, and writes the same bytes each time.
"""

import struct
import sys
from pathlib import Path

MASK = (1 << 64) - 1
NONE = MASK

FIRST = (1_000_000, 5_000_000_000, 1_700_000_000_000_000_000, 50)
LAST = (FIRST[0] + 2 * 10**9, FIRST[1] + 10**9, FIRST[2] + 10**9, 50)


def ticks(ns: int) -> int:
    return FIRST[0] + 2 * ns


# ---- the recording ---------------------------------------------------------------------------------
def name_hash(text: bytes) -> int:
    h = 0xcbf29ce484222325 ^ len(text)
    whole = len(text) // 8 * 8
    for at in range(0, whole, 8):
        h = ((h ^ int.from_bytes(text[at:at + 8], "little")) * 0x9e3779b97f4a7c15) & MASK
        h ^= h >> 29
    h = ((h ^ int.from_bytes(text[whole:], "little")) * 0xbf58476d1ce4e5b9) & MASK
    h ^= h >> 27
    h = (h * 0x94d049bb133111eb) & MASK
    return h ^ (h >> 31)


class Names:
    def __init__(self):
        self.bytes = bytearray(64)

    def add(self, text: str) -> int:
        self.bytes += bytes(-len(self.bytes) % 8)
        number = len(self.bytes) // 8
        raw = text.encode()
        self.bytes += struct.pack("<IIII", len(raw), name_hash(raw) >> 32, 0, 0) + raw + b"\0"
        return number

    def finish(self) -> bytes:
        header = struct.pack("<8sIIQ", b"\0\nRMNAME", 1, 0, len(self.bytes))
        self.bytes[:len(header)] = header
        return bytes(self.bytes)


def event(begin_ns, duration_ns, call, file, size=0, offset=NONE, form=1, slots=1, flags=0) -> bytes:
    return struct.pack("<QQIIIHBB", ticks(begin_ns), offset, 2 * duration_ns, file, size, call, slots,
                       form | flags)


def wide(result=0, size=0, detail=0, error=0) -> bytes:
    return struct.pack("<qQIIIHH", result, size, 0, detail, 0, 0xff01, error)


def other(file, offset=NONE) -> bytes:
    return struct.pack("<QQIIIHH", offset, 0, file, 0, 0, 0xff02, 0)


def tags(pairs) -> bytes:
    pairs = (list(pairs) + [(0, 0, 0)])[:2]
    return struct.pack("<QQIIBBHHH", pairs[0][2], pairs[1][2], pairs[0][0], pairs[1][0], pairs[0][1],
                       pairs[1][1], 0, 0xff03, 0)


def context(process, thread) -> bytes:
    return struct.pack("<QIIQIHH", 0, process, thread, 0, 0, 0xff05, 0)


def ring(number, sequence, process, thread, slots: bytes, whole=True) -> bytes:
    count = 2046 if whole else len(slots) // 32
    head = struct.pack("<4sIQIIII32x", b"RING", number, sequence, process, thread, count, 1)
    return head + slots + bytes(32 * count - len(slots))


def process_page(pid, names, rank=-1, lost=(0, 0, 0, 0, 0), exit_code=0, parent=1, faults=(0, 0)) -> bytes:
    page = struct.pack("<8sIIIIiiQ", b"\0\nRMPROC", 1, pid, parent, 0, rank, 2 if rank >= 0 else -1, ticks(0))
    page += struct.pack("<QQqQ", *FIRST) + struct.pack("<QQqQ", *LAST) + struct.pack("<QQQII", *lost)
    page += struct.pack("<IIiIII", 1, 1, exit_code, *names)
    page += struct.pack("<QQQ", 4711, *faults) + bytes(48)
    return page.ljust(65536, b"\0")


OPEN, CLOSE, READ, LSEEK, MMAP, MAPPED = 0x100, 0x104, 0x106, 0x110, 0x11a, 0x11f
SPAWN, REGION = 0x184, 0x500


def write_recording(directory: Path) -> None:
    session = directory / "node7-11111111"
    session.mkdir(parents=True)
    names = Names()
    python, command, cwd = names.add("bin/python3"), names.add("python3 train.py"), names.add("work")
    data, index, fetch = names.add("dataset/a.bin"), names.add("dataset/index"), names.add("fetch")
    key, helper = names.add("sample"), names.add("bin/no-such-helper")
    log = b"".join(event(1000 * i + 5000, 700, READ, data, 4096, 4096 * i) for i in range(100))
    now = event(1000, 400, OPEN, data, 3, form=3)
    now += event(2000, 300, OPEN, index, form=0, slots=2) + wide(result=-1, error=2)
    now += event(3000, 200, LSEEK, data, 0, 8192, form=4)
    now += event(4500, 110_000, REGION, fetch, 1, 7, form=2, slots=2) + tags([(key, 1, 12), (key, 3, data)])
    now += bytes(32) + wide()  # an unfinished event, and the slot before it
    now += event(120_000, 900, MMAP, data, 65536, 0, form=2) + context(42, 43)
    now += event(130_000, 10, MAPPED, data, 65536, 0, form=0, slots=2) + wide(result=16384, size=65536)
    now += event(140_000, 5000, SPAWN, helper, form=0, slots=2) + wide(detail=77)
    now += event(150_000, 100, CLOSE, data, form=2)
    page = process_page(42, (python, command, cwd), rank=0, faults=(3, 900),
                        lost=(17, ticks(200_000), ticks(210_000), 28, 0))
    (session / "42-f4240.rings").write_bytes(page + ring(0, 1, 42, 42, now))
    (session / "42-f4240.log").write_bytes(ring(0, 0, 42, 42, log, whole=False))
    page = process_page(50, (python, command, cwd), rank=1, exit_code=3, parent=42)
    (session / "50-f4244.rings").write_bytes(page + ring(0, 0, 50, 50, event(7000, 500, READ, data, 512, 0)))
    (session / "names").write_bytes(names.finish())
    page = struct.pack("<8sII", b"\0\nRMSESS", 1, 1) + struct.pack("<QQqQ", *FIRST) + struct.pack("<QQqQ", *LAST)
    page += struct.pack("<QQQII", 0, 0, 0, 0, 0) + struct.pack("<QII64x", 0, 0, 62)
    page += b"node7".ljust(256, b"\0") + b"11111111-2222-3333-4444-555555555555".ljust(40, b"\0")
    (session / "session").write_bytes(page.ljust(4096, b"\0"))


# ---- the packed trace ------------------------------------------------------------------------------
def crc32c(data: bytes) -> int:
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def signed(value: int) -> bytes:
    return varint(value * 2 if value >= 0 else -value * 2 - 1)


def text(value: str) -> bytes:
    return varint(len(value.encode())) + value.encode()


def numbers(values) -> bytes:
    """Uses the simplest encodings: a constant, or raw planes without a factor."""
    if not values:
        return b""
    bias = min(values)
    width = ((max(values) - bias).bit_length() + 7) // 8
    out = bytes([width, 0]) + signed(bias)
    if width > 0:
        out += varint(1)
    for plane in range(width):
        out += b"\0" + bytes(((value - bias) >> (8 * plane)) & 0xff for value in values)
    return out


class TraceFile:
    def __init__(self):
        head = struct.pack("<8sIIq36x", b"\x89MRTRACE", 1, 0, FIRST[2])
        self.bytes = head + struct.pack("<I", crc32c(head))
        self.index = b""
        self.count = 0

    def block(self, kind, count, payload, process=0, begin=0, end=0):
        head = struct.pack("<4sHHIIIIIIQQI", b"\x89MBK", kind, 0, len(payload), len(payload), crc32c(payload),
                           count, process, 0, begin, end, 0)
        head += struct.pack("<I", crc32c(head))
        self.index += varint(len(self.bytes)) + head
        self.count += 1
        self.bytes += head + payload

    def finish(self) -> bytes:
        offset = len(self.bytes)
        self.block(9, self.count, self.index)
        trailer = struct.pack("<QI", offset, 0)
        return self.bytes + trailer + struct.pack("<I", crc32c(trailer)) + b"\x89MRTEND\n"


def write_trace(path: Path) -> None:
    trace = TraceFile()
    trace.block(1, 3, varint(1) + text("dataset/a.bin") + text("fetch") + text("python3 train.py"))
    sample = bytes(32)
    trace.block(2, 1, varint(0) + text("node7") + text("boot") + varint(0) + varint(62) + text("") + signed(0) +
                struct.pack("<d", 0) + varint(250) + text("imported") + text("") + varint(0) + varint(0) + sample * 2)
    process = varint(0) + varint(0) + varint(42) + varint(1) + signed(0) + signed(1) + varint(0) + varint(0)
    process += varint(9000) + varint(1) + signed(3) + varint(0) + varint(0) + varint(0) + varint(3) + varint(0)
    trace.block(3, 1, process + (signed(0) + varint(0) + varint(0)) * 2 + text(""))
    trace.block(4, 1, varint(0) + varint(0) + varint(42))
    trace.block(5, 1, varint(0) + varint(5) + varint(0) + varint(8000) + varint(8500) + varint(28))
    # A read at 0, the next one, a failed one elsewhere, and the region around them, with a tag.
    explicit, last_call, none = 0, 1, 1
    shapes = [(READ, 0, explicit | explicit << 2 | 0 << 4 | 1 << 6 | none << 8, 0, 0),
              (READ, 0, 1 | last_call << 2 | 2 << 4 | 1 << 6 | none << 8, 0, 0),
              (READ, 16, 1 | last_call << 2 | 0 << 4 | 0 << 6 | none << 8, 5, 0),
              (REGION, 0, explicit | explicit << 2 | 0 << 4 | 2 << 6 | none << 8, 0, 0)]
    payload = bytes([8]) + varint(len(shapes))
    for call, flags, forms, error, detail in shapes:
        payload += varint(call) + bytes([flags]) + varint(forms) + varint(error) + varint(detail)
    payload += varint(1) + varint(0) + numbers([0, 1, 2, 3])
    payload += numbers([500, 100, 100, -3200]) + numbers([700, 800, 900, 4000])
    payload += numbers([1, 2]) + numbers([4096, 1]) + numbers([-1]) + numbers([0, 1 << 20, 7])
    payload += numbers([0, 0, 0, 1]) + numbers([2]) + numbers([1]) + numbers([12])
    trace.block(6, 4, payload, begin=1000, end=5000)
    path.write_bytes(trace.finish())


if __name__ == "__main__":
    {"recording": write_recording, "trace": write_trace}[sys.argv[1]](Path(sys.argv[2]))
