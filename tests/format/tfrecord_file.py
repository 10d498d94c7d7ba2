"""TFRecord files as their format says, for tests: checksums, and the records of a file."""

import struct
from typing import Iterator


def crc32c_of(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


TABLE = [crc32c_of(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """The checksum as TensorFlow stores it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecords(data: bytes) -> Iterator[bytes]:
    while data:
        length, length_crc = struct.unpack("<QI", data[:12])
        payload = data[12:12 + length]
        assert masked(data[:8]) == length_crc
        assert masked(payload) == struct.unpack("<I", data[12 + length:16 + length])[0]
        yield payload
        data = data[16 + length:]
