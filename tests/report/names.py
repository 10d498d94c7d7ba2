"""The names of figures, and where each output shows them: one definition a name.

`names_test.py` compares text, JSON, tables and SQL of one trace; `tests/browser/page_test.py` compares the page.
"""

from typing import NamedTuple, Optional


class Name(NamedTuple):
    path: str                    # in `report --json`
    unit: str                    # bytes, count, share, factor, ns
    text: Optional[str] = None   # a pattern of the summary; its group is the figure. May match several times
    tile: Optional[str] = None   # title of the tile on the page
    sql: Optional[str] = None    # a query with one value
    table: Optional[tuple] = None  # (table, column): the sum over its rows is the figure


NAMES = [
    Name("job.wall_ns", "ns", r"^([\d.]+ \w+|\d+ min [\d.]+ s), (?:\w+ )?from ", "Wall time",
         'select max("begin" + duration) from events'),
    Name("job.events", "count", r"([\d,]+) events?\b", "Events", "select count(*) from events"),
    Name("job.ranks", "count", r"([\d,]+) ranks?\b", "Ranks"),
    Name("job.threads", "count", r"([\d,]+) threads?\b", "Threads"),
    Name("job.epochs", "count", tile="Epochs", sql="select count(distinct epoch) from regions where role = 'compute'"),
    Name("job.dataset_files", "count", r"^data +([\d,]+) files?\b",
         sql="select count(*) from files where kind = 'data'"),
    Name("job.dataset_bytes", "bytes", r"^data +[\d,]+ files? of ([\d.]+ \w+)", "Dataset",
         "select sum(size_bytes) from files where kind = 'data'"),
    Name("job.dataset_bytes_read", "bytes", r"^data .*\bread ([\d.]+ \w+)(?: \(|;)", "Data read",
         "select sum(bytes_read) from files where kind = 'data'", ("rank", "data_bytes_read")),
    Name("job.bytes_read", "bytes", sql="select sum(bytes_read) from files", table=("kind", "bytes_read")),
    Name("job.bytes_written", "bytes", r"written ([\d.]+ \w+)", "Written", "select sum(bytes_written) from files",
         ("kind", "bytes_written")),
    Name("job.files", "count", sql="select count(*) from files", table=("kind", "files")),
    Name("data_reads.counts.count", "count", r"^access +([\d,]+) reads",
         sql="select sum(read_count) from files where kind = 'data'"),
    Name("time.mean.wait_share", "share", r"([\d.]+) % of training$|waits for data ([\d.]+) %",
         "Waiting for data"),
    Name("time.mean.startup_ns", "ns", r"^  start-up +([\d.]+ \w+)"),
    Name("time.mean.training_ns", "ns", r"^  training +([\d.]+ \w+)"),
    Name("time.mean.compute_ns", "ns", r"^  compute +([\d.]+ \w+)"),
    Name("time.mean.wait_ns", "ns", r"^  waiting for data +([\d.]+ \w+)"),
    Name("time.mean.io_ns", "ns", r"^  I/O calls +([\d.]+ \w+)"),
    Name("time.mean.fetch_ns", "ns", r"^  fetching +([\d.]+ \w+)"),
    Name("time.mean.decode_ns", "ns", r"^  decoding +([\d.]+ \w+)"),
    Name("time.mean.transform_ns", "ns", r"^  transforms +([\d.]+ \w+)"),
    Name("time.mean.checkpoint_ns", "ns", r"^  checkpoints +([\d.]+ \w+)"),
    Name("job.amplification", "factor", r"\(([\d.]+) times per epoch\)", "Read amplification"),
]
