"""Perfetto traces as plain Python: a decoder of the wire format, and the slices that packets describe.

The decoder shares no code with the writer in src/interop. tests/peers/perfetto_package.py uses the
message classes of the `perfetto` package instead; both pass the same packets to slices().
"""

import struct
from dataclasses import dataclass, field


@dataclass
class Packet:
    sequence: int = 0
    flags: int = 0
    timestamp: int = 0
    default_clock: int = 0
    clocks: dict = field(default_factory=dict)
    interned: dict = field(default_factory=dict)    # (kind, iid) -> text
    track: dict = field(default_factory=dict)       # uuid, parent, name, pid, tid, ...
    event: dict = field(default_factory=dict)       # type, track, name_iid, category_iids, annotations


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        assert shift < 70, "a number of more than ten bytes"


def fields(data: bytes):
    """Each field of a message: number and value (an int, or bytes)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        elif kind == 2:
            length, at = _varint(data, at)
            assert at + length <= len(data), "a field that is longer than its message"
            value, at = data[at:at + length], at + length
        else:
            raise AssertionError(f"wire type {kind}")
        yield key >> 3, value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _track(data: bytes) -> dict:
    track = {}
    for number, value in fields(data):
        if number in (1, 5):
            track[{1: "uuid", 5: "parent"}[number]] = value
        elif number == 2:
            track["name"] = value.decode()
        elif number == 3:
            for part, held in fields(value):
                if part == 1:
                    track["process_pid"] = held
                elif part == 6:
                    track["process_name"] = held.decode()
        elif number == 4:
            for part, held in fields(value):
                if part in (1, 2):
                    track[{1: "pid", 2: "tid"}[part]] = held
    return track


def _annotation(data: bytes) -> tuple:
    key = value = None
    for number, held in fields(data):
        if number == 1:
            key = held
        elif number == 3:
            value = held
        elif number == 4:
            value = _signed(held)
        elif number == 5:
            value = struct.unpack("<d", held)[0]
        elif number == 6:
            value = held.decode()
        elif number == 17:
            value = ("iid", held)
    return key, value


def _event(data: bytes) -> dict:
    event = {"category_iids": [], "annotations": []}
    for number, value in fields(data):
        if number == 3:
            event["category_iids"].append(value)
        elif number == 4:
            event["annotations"].append(_annotation(value))
        elif number in (9, 10, 11):
            event[{9: "type", 10: "name_iid", 11: "track"}[number]] = value
    return event


def decode(data: bytes):
    """The packets of a trace, decoded by this file."""
    for number, body in fields(data):
        assert number == 1, "a trace holds packets alone"
        packet = Packet()
        for part, value in fields(body):
            if part == 6:
                for clock_number, clock in fields(value):
                    if clock_number == 1:
                        held = dict(fields(clock))
                        packet.clocks[held[1]] = held[2]
            elif part == 8:
                packet.timestamp = value
            elif part == 10:
                packet.sequence = value
            elif part == 11:
                packet.event = _event(value)
            elif part == 12:
                for kind, entry in fields(value):
                    held = dict(fields(entry))
                    packet.interned[(kind, held[1])] = held[2].decode()
            elif part == 13:
                packet.flags = value
            elif part == 59:
                packet.default_clock = dict(fields(value))[58]
            elif part == 60:
                packet.track = _track(value)
        yield packet


CATEGORY, NAME, KEY, TEXT = 1, 2, 3, 29


@dataclass
class Slice:
    track: dict
    name: str
    category: str
    begin: int
    end: int
    depth: int
    annotations: dict


def slices(packets) -> tuple[list[Slice], dict]:
    """The slices of a trace, checked against all rules of tracks, and its clock snapshot.

    On a track, time never runs backwards, an end belongs to the slice that began last, and no slice
    stays open. Interned texts and tracks are defined before they are used.
    """
    done, clocks = [], {}
    interned, tracks, opened, last = {}, {}, {}, {}
    for packet in packets:
        clocks.update(packet.clocks)
        if packet.flags & 1:
            interned[packet.sequence] = {}
            assert packet.default_clock == 6, "times without a clock"
        known = interned.setdefault(packet.sequence, {})
        known.update(packet.interned)
        if packet.track:
            tracks[packet.track["uuid"]] = packet.track
        if not packet.event:
            continue
        event = packet.event
        uuid = event["track"]
        assert uuid in tracks and tracks[uuid].get("parent") in tracks, "an unknown track"
        assert packet.flags & 2 and packet.timestamp >= last.get(uuid, 0), "time runs back"
        last[uuid] = packet.timestamp
        stack = opened.setdefault(uuid, [])
        if event["type"] == 2:
            stack.pop().end = packet.timestamp
            continue
        annotations = {}
        for key, value in event["annotations"]:
            if isinstance(value, tuple):
                value = known[(TEXT, value[1])]
            annotations[known[(KEY, key)]] = value
        slice_ = Slice(tracks[uuid], known[(NAME, event["name_iid"])],
                       known[(CATEGORY, event["category_iids"][0])], packet.timestamp,
                       packet.timestamp, len(stack), annotations)
        done.append(slice_)
        if event["type"] == 1:
            stack.append(slice_)
        else:
            assert event["type"] == 3
    assert not any(opened.values()), "slices that never end"
    return done, clocks
