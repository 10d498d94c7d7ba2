"""Writes staged.bin: two samples that a staging of six has copied. Uses only docs/formats/shard-storage.md."""

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
    head = struct.pack("<8sIIQQ", b"\0RMSTAGE", 1, 0, 6, 0x1234)
    data = head[:12] + struct.pack("<I", crc32c(head)) + head[16:]
    for sample, offset, size, checksum in [(4, 0, 100, 0x11111111), (3, 128, 0, 0)]:
        entry = struct.pack("<QQQI", sample, offset, size, checksum)
        data += entry + struct.pack("<I", crc32c(entry))
    pathlib.Path(__file__).with_name("staged.bin").write_bytes(data)


main()
