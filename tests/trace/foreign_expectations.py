"""Compares the lines that programs write about their MPI, HDF5 and liburing calls with the recorded events."""

import collections


def compare(expected_lines, events, prefixes):
    """Returns problems as sentences: every line must have an event, and these calls must have no other events.

    A line is call, file, offset, size and result, separated by tabs; offset -1 means none."""
    wanted = collections.Counter()
    for line in expected_lines:
        call, file, offset, size, result = line.rstrip("\n").split("\t")
        wanted[call, file, int(offset), int(size), int(result)] += 1
    found = collections.Counter(
        (event.call, event.file, -1 if event.offset is None else event.offset, event.size, event.result)
        for event in events if event.call.startswith(prefixes))
    problems = ["%d times not recorded: %s" % (count, key) for key, count in (wanted - found).items()]
    problems += ["%d times recorded and not made: %s" % (count, key) for key, count in (found - wanted).items()]
    return problems


def inside(outer, events, calls):
    """Events of `calls` on the thread and file of the outer event that are inside it."""
    file = outer.file.split(":")[0]
    return [event for event in events
            if event.call in calls and event.file == file and (event.pid, event.tid) == (outer.pid, outer.tid)
            and event.begin >= outer.begin and event.begin + event.duration <= outer.begin + outer.duration]
