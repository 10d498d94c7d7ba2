#!/usr/bin/env python3
"""Reads Perfetto exports with the message classes of the PyPI package `perfetto`. See README.md."""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "interop"))
import perfetto_packets as own  # noqa: E402
from sample_job import START_US, make_job  # noqa: E402

MILLRACE = os.environ["MILLRACE"]
KINDS = {own.CATEGORY: "event_categories", own.NAME: "event_names", own.KEY: "debug_annotation_names",
         own.TEXT: "debug_annotation_string_values"}


def annotation(held) -> tuple:
    kind = held.WhichOneof("value")
    value = getattr(held, kind)
    return held.name_iid, ("iid", value) if kind == "string_value_iid" else value


def decode(data: bytes):
    """The packets of a trace, decoded by the package."""
    trace = proto.Trace()
    trace.ParseFromString(data)
    for message in trace.packet:
        assert len(UnknownFieldSet(message)) == 0, "a field that the package does not know"
        packet = own.Packet(sequence=message.trusted_packet_sequence_id, flags=message.sequence_flags,
                            timestamp=message.timestamp)
        if message.HasField("trace_packet_defaults"):
            packet.default_clock = message.trace_packet_defaults.timestamp_clock_id
        if message.HasField("clock_snapshot"):
            assert message.clock_snapshot.primary_trace_clock == proto.BUILTIN_CLOCK_BOOTTIME
            packet.clocks = {c.clock_id: c.timestamp for c in message.clock_snapshot.clocks}
        for kind, name in KINDS.items():
            for entry in getattr(message.interned_data, name):
                text = entry.str.decode() if kind == own.TEXT else entry.name
                packet.interned[(kind, entry.iid)] = text
        if message.HasField("track_descriptor"):
            track = message.track_descriptor
            packet.track = {"uuid": track.uuid}
            if track.HasField("parent_uuid"):
                packet.track["parent"] = track.parent_uuid
            if track.HasField("name"):
                packet.track["name"] = track.name
            if track.HasField("process"):
                packet.track["process_pid"] = track.process.pid
                packet.track["process_name"] = track.process.process_name
            if track.HasField("thread"):
                packet.track["pid"], packet.track["tid"] = track.thread.pid, track.thread.tid
        if message.HasField("track_event"):
            event = message.track_event
            packet.event = {"type": event.type, "track": event.track_uuid,
                            "category_iids": list(event.category_iids),
                            "annotations": [annotation(a) for a in event.debug_annotations]}
            if event.name_iid:
                packet.event["name_iid"] = event.name_iid
        yield packet


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        job = make_job(seed=5, count=2000)
        job.write(base / "job.pfw")
        subprocess.run([MILLRACE, "import", base / "job.pfw", "-o", base / "t"], check=True)
        subprocess.run([MILLRACE, "export", base / "t", "--to", "perfetto", "-o", base / "t.pt"], check=True)
        data = (base / "t.pt").read_bytes()
    theirs, ours = list(decode(data)), list(own.decode(data))
    assert theirs == ours, next((a, b) for a, b in zip(theirs, ours) if a != b)
    found, clocks = own.slices(theirs)
    origin = clocks[proto.BUILTIN_CLOCK_REALTIME] - clocks[proto.BUILTIN_CLOCK_BOOTTIME] - START_US * 1000
    held = Counter((s.name, s.begin + origin, s.end + origin) for s in found)
    wanted = Counter((e["name"], e["begin"], e["end"]) for e in job.events)
    assert held == wanted, (held - wanted, wanted - held)
    print(f"perfetto package: {len(theirs)} packets, {len(found)} slices, all as exported; "
          f"{len(data) / len(found):.1f} bytes a slice")


if __name__ == "__main__":
    main()
