"""Writes the Parquet files of this directory with pyarrow (26.0; in an environment of its own: pip install pyarrow).

All but nested.parquet hold the same 20 rows in row groups of 8; src/format/parquet/parquet_test.cc computes them again."""

from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet

HERE = Path(__file__).resolve().parent
COUNT = 20


def column(name, kind, values, nullable=False):
    return pyarrow.field(name, kind, nullable=nullable), pyarrow.array(values, type=kind)


def rows():
    i = range(COUNT)
    items = lambda kind: pyarrow.list_(pyarrow.field("element", kind, nullable=False))
    return [
        column("b", pyarrow.bool_(), [k % 3 == 0 for k in i]),
        column("i8", pyarrow.int8(), [k - 10 for k in i]),
        column("u8", pyarrow.uint8(), [k * 12 for k in i]),
        column("i16", pyarrow.int16(), [k * -300 for k in i]),
        column("u16", pyarrow.uint16(), [k * 3000 for k in i]),
        column("i32", pyarrow.int32(), [k * 100003 - 5 for k in i]),
        column("u32", pyarrow.uint32(), [k * 200000000 for k in i]),
        column("i64", pyarrow.int64(), [k * 10**12 - 1 for k in i]),
        column("u64", pyarrow.uint64(), [k * 9 * 10**17 for k in i]),
        column("f16", pyarrow.float16(), [numpy.float16(k / 4) for k in i]),
        column("f32", pyarrow.float32(), [k / 8 for k in i]),
        column("f64", pyarrow.float64(), [k * 1.5 - 7 for k in i]),
        column("s", pyarrow.string(), [f"row {k % 3}" for k in i]),
        column("bin", pyarrow.binary(), [b"x" * (k % 5) + bytes([k]) for k in i]),
        column("fixed", pyarrow.binary(3), [bytes([k, k + 1, k + 2]) for k in i]),
        column("list", items(pyarrow.int32()), [[k * 10 + j for j in range(k % 4)] for k in i]),
        column("nf", pyarrow.float64(), [None if k % 3 == 1 else k / 2 for k in i], True),
        column("ns", pyarrow.string(), [None if k % 4 == 2 else f"{k}" for k in i], True),
        column("ni", pyarrow.int32(), [None if k % 5 == 0 else k for k in i], True),
        column("nn", pyarrow.int16(), [k * 7 for k in i], True),
        column("nl", pyarrow.list_(pyarrow.int64()),
               [None if k % 6 == 0 else [] if k % 6 == 1 else [k, k + 1] for k in i], True),
        column("nlf", pyarrow.list_(pyarrow.float32()), [[k / 2, None] if k % 2 else [k / 2] for k in i], True),
    ]


def write(name, columns, **options):
    fields, arrays = zip(*columns)
    table = pyarrow.Table.from_arrays(list(arrays), schema=pyarrow.schema(fields))
    pyarrow.parquet.write_table(table, HERE / name, row_group_size=8, write_statistics=False, store_schema=False, **options)


write("v1_none.parquet", rows(), compression="none", use_dictionary=False, write_page_checksum=True)
write("v1_snappy.parquet", rows(), compression="snappy")
write("v1_gzip.parquet", rows(), compression="gzip", use_dictionary=["s", "i64", "ns"])
write("v1_zstd.parquet", rows(), compression="zstd", use_dictionary=False, data_page_size=16)
write("v2_zstd.parquet", rows(), compression="zstd", data_page_version="2.0", write_page_checksum=True)
encodings = dict.fromkeys(["i8", "i32", "u32", "i64", "u64", "ni", "nn", "list.list.element"], "DELTA_BINARY_PACKED")
encodings |= {"s": "DELTA_BYTE_ARRAY", "ns": "DELTA_LENGTH_BYTE_ARRAY", "bin": "DELTA_BYTE_ARRAY", "fixed": "DELTA_BYTE_ARRAY",
              "f32": "BYTE_STREAM_SPLIT", "f64": "BYTE_STREAM_SPLIT", "nf": "BYTE_STREAM_SPLIT", "u16": "BYTE_STREAM_SPLIT", "b": "RLE"}
write("v2_deltas.parquet", rows(), compression="none", use_dictionary=False, data_page_version="2.0", column_encoding=encodings)

pair = pyarrow.struct([("x", pyarrow.int32()), ("y", pyarrow.float32())])
write("nested.parquet", [
    column("pair", pair, [{"x": k, "y": k / 2} for k in range(4)], True),
    column("words", pyarrow.list_(pyarrow.string()), [["a", "b"]] * 4, True),
    column("map", pyarrow.map_(pyarrow.string(), pyarrow.int32()), [[("k", 1)]] * 4, True),
    column("lists", pyarrow.list_(pyarrow.list_(pyarrow.int32())), [[[1], [2, 3]]] * 4, True),
    column("pairs", pyarrow.list_(pair), [[{"x": 1, "y": 2.0}]] * 4, True),
    column("plain", pyarrow.int64(), range(4)),
], compression="none")
