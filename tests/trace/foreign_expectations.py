"""What programs that call MPI, HDF5 and liburing must find in their traces: lines that the program wrote,
against events that were recorded."""

import collections


def compare(expected_lines, events, prefixes):
    """Problems, as sentences: every line has its event, and no event of these calls is left over.

    A line is call, file, offset, size and result by tabs; offset -1 stands for none."""
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
    """Events of `calls` on the outer event's thread and file that lie within it."""
    file = outer.file.split(":")[0]
    return [event for event in events
            if event.call in calls and event.file == file and (event.pid, event.tid) == (outer.pid, outer.tid)
            and event.begin >= outer.begin and event.begin + event.duration <= outer.begin + outer.duration]
