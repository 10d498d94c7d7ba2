"""Writes owned.bin: what rank 1 of 2 holds of six samples in epoch 9. Uses only docs/formats/shard-storage.md."""

import pathlib
import struct


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def main():
    entries = b"".join(
        struct.pack("<QQQII", sample, offset, size, checksum, 0)
        for sample, offset, size, checksum in [(3, 64, 10, 0x11111111), (0, 0, 64, 0x22222222), (5, 128, 0, 0)])
    head = struct.pack("<8sIIQQdIIQQQ", b"\0RMOWNED", 3, 0, 6, 17, 0.5, 2, 1, 9, 3, 0x1234)
    checksum = struct.pack("<I", crc32c(head + entries))
    path = pathlib.Path(__file__).with_name("owned.bin")
    path.write_bytes(head[:12] + checksum + head[16:] + entries)


main()
