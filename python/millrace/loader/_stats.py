"""Stats: where a loader spent its time. A dict that prints as a few sentences."""

from typing import Any, Dict, List


class Stats(Dict[str, Any]):
    """A dict that prints as text. Times are in seconds.

    wait_seconds: how long training waited for batches.
    threads: the number of threads or worker processes that load.
    worker (only for Python datasets): which of the two they are, "thread" or "process".
    read_seconds, decode_seconds: the sum over all of them. For a Python dataset, the time in its
        `__getitem__` and in `collate_fn`.
    blocked_seconds: how long they waited for training to release a batch.
    seconds: from the first request for a batch to the last batch returned.
    buffers_allocated (only for what C++ reads): how often memory for a batch was allocated. It grows
        at the start and while the program holds batches.
    reads (only for what C++ reads): the `engine` in use; the speed of each engine that was
        `measured`, if there was a choice; and why there was none (`refusal`).
    workers, map_seconds (only with map=): the processes or threads that call the function, and how long
        they were busy, summed.
    cache (only with a cache): samples, bytes and bytes_per_second of each tier: memory, disk, peer,
        and source (the files).
    shard (only with Partial.dir): what was exchanged with other ranks (`samples_sent`, `bytes_sent`,
        `samples_received`, `bytes_received`), the share of that work that overlapped with training
        (`overlapped_share`), how long the rank waited for the exchange (`wait_seconds`) and for other
        ranks (`agreeing_seconds`), what it holds (`held_samples`, `held_bytes`, in a file of
        `file_bytes`; at most `stored_samples_max` at a time), and what it copied from the dataset
        (`staged_samples`, `staged_bytes`, `staging_seconds`, `unreadable_samples`).
    """

    def __str__(self) -> str:
        lines = [self._first_line(), self._wait_line(), self._thread_line()]
        if "map_seconds" in self:
            lines.append(f"  {_count(self['workers'], 'worker')}: called the function of map= for "
                         f"{self['map_seconds']:.2f} s")
        if self["bad_samples"]:
            lines.append(f"  {self['bad_samples']:,} bad samples were skipped; the first: "
                         f"{self['first_bad_sample']}")
        lines += self._read_lines()
        lines += self._cache_lines()
        lines += self._shard_lines()
        return "\n".join(lines)

    def _read_lines(self) -> List[str]:
        reads = self.get("reads")
        if reads is None or not reads["measured"]:
            return []
        parts = [f"{name} {way['bytes_per_second'] / 1e6:,.0f} MB/s per thread"
                 for name, way in reads["measured"].items()]
        return [f"  reads with {reads['engine']}; measured: " + ", ".join(parts)]

    def _cache_lines(self) -> List[str]:
        cache = self.get("cache")
        if cache is None:
            return []
        used = [(name, cache[name]) for name in ("memory", "disk", "peer", "source")
                if cache[name]["samples"]]
        parts = [f"{use['samples']:,} from {name} ({use['bytes_per_second'] / 1e6:,.0f} MB/s)"
                 for name, use in used]
        lines = ["  samples: " + ", ".join(parts)] if parts else []
        if cache["disk_ended_by"]:
            lines.append(f"  no more samples are kept on disk: {cache['disk_ended_by']}")
        return lines

    def _shard_lines(self) -> List[str]:
        shard = self.get("shard")
        if shard is None:
            return []
        lines = [f"  holds {shard['held_samples']:,} samples ({shard['held_bytes'] / 1e6:,.1f} MB); sent "
                 f"{shard['samples_sent']:,} ({shard['bytes_sent'] / 1e6:,.1f} MB) to other ranks, "
                 f"{shard['overlapped_share']:.0%} overlapped with training"]
        if shard["unreadable_samples"]:
            lines.append(f"  {shard['unreadable_samples']:,} samples could not be copied; the first: "
                         f"{shard['first_unreadable']}")
        return lines

    def _first_line(self) -> str:
        text = f"{self['batches']:,} batches, {self['samples']:,} samples in {self['seconds']:.2f} s"
        if self["seconds"] > 0:
            text += f" ({self['samples'] / self['seconds']:,.0f} samples/s)"
        return text

    def _wait_line(self) -> str:
        share = self["wait_seconds"] / self["seconds"] if self["seconds"] > 0 else 0
        text = f"  training waited {self['wait_seconds']:.2f} s for batches ({share:.0%} of the time)"
        if self["seconds"] < 1:
            return text  # too short to judge
        if share < 0.05:
            return text + ": the loader keeps up"
        if "worker" in self:
            return text + ": more workers or cores, or a faster dataset, would help"
        if self.get("map_seconds", 0.0) > self["decode_seconds"] + self["read_seconds"]:
            return text + ", mostly for the function of map=: more workers or cores would help"
        if self["decode_seconds"] > 2 * self["read_seconds"]:
            return text + ", mostly for decoding: more threads or cores would help"
        return text + ", mostly for reading: faster storage or more threads would help"

    def _thread_line(self) -> str:
        worker = self.get("worker", "thread")
        count = self["threads"]
        workers = f"{count} {worker}" + ("" if count == 1 else "es" if worker == "process" else "s")
        read, decoded = ("fetched", "collated") if "worker" in self else ("read", "decoded")
        return (f"  {workers}: {read} {self['read_seconds']:.2f} s, {decoded} "
                f"{self['decode_seconds']:.2f} s, waited {self['blocked_seconds']:.2f} s for "
                f"training; {self['bytes_read']:,} bytes read; {self['prefetch']} batches ahead")


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"
