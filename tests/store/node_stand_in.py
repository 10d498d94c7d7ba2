"""A stand-in for the node service of the store: makes the directory of a node (docs/formats/store-node.md) from a pack,
and answers requests in a thread. It can be fast, and be told to be slow, silent or failing."""

import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

KIND_FILE, KIND_DIRECTORY, KIND_LINK = 1, 2, 3
REQUEST = struct.Struct("<IHHQQ")
REPLY = struct.Struct("<IHHQiI")
KIND_MATERIALISE, KIND_PLACE = 1, 4
COUNTERS = ("opens", "materialised", "fallbacks", "errors", "bytes")


def read_catalogue(path: Path) -> list:
    """(path, kind, mode, mtime_ns, target) of every entry."""
    data = path.read_bytes()
    partitions, = struct.unpack_from("<I", data, 12)
    entries, slots, names_bytes = struct.unpack_from("<QQQ", data, 24)
    names = data[128 + 64 * entries + 8 * slots + 32 * partitions:]
    found = []
    for i in range(entries):
        size, offset, _, mtime_ns, name_offset, parent, mode = struct.unpack_from("<QQQqQII", data, 128 + 64 * i)
        name_bytes, kind = struct.unpack_from("<BB", data, 128 + 64 * i + 56)
        name = names[name_offset:name_offset + name_bytes]
        whole = os.path.join(found[parent][0], name) if i > 0 else b""
        target = names[offset:offset + size] if kind == KIND_LINK else None
        found.append((whole, kind, mode, mtime_ns, target))
    return found


class Node:
    def __init__(self, millrace: str, pack: Path, folder: Path, root: Path, origin: str = "", fast: bool = False):
        self.folder = folder
        self.delay_s = 0.0
        self.error = 0
        self.is_full = False  # the arena of fast mode
        self.requests = []
        self.lock = threading.Lock()
        folder.mkdir(mode=0o700)
        self.extracted = folder / "extracted"
        subprocess.run([millrace, "store", "extract", pack, "-o", self.extracted], check=True, capture_output=True)
        shutil.copy(pack / "catalogue", folder / "catalogue")
        self.entries = read_catalogue(pack / "catalogue")
        (folder / "making").mkdir()
        self.tree = os.fsencode(folder / "tree")
        for path, kind, mode, mtime_ns, target in self.entries:
            real = os.path.join(self.tree, path)
            if kind == KIND_DIRECTORY:
                os.mkdir(real)
            elif kind == KIND_LINK:
                os.symlink(target, real)
        text = b"\0RMSSTAT" + struct.pack("<IIQQ", 2, os.getpid(), 0, int(fast))
        text += os.fsencode(root).ljust(4096, b"\0") + origin.encode().ljust(4096, b"\0")
        (folder / "upper").mkdir()  # for what programs create
        text += os.fsencode(folder / "upper").ljust(4096, b"\0") + bytes(4096 + 80)
        (folder / "state").write_bytes(text)
        if fast:
            (folder / "arena").write_bytes(bytes(64))
            os.truncate(folder / "arena", 100_000_000)
            self.arena_end = 64
            (folder / "places").write_bytes(bytes(8 * len(self.entries)))
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(folder / "socket"))
        self.listener.listen(64)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection:
            while request := connection.recv(100):
                magic, version, kind, number, entry = REQUEST.unpack(request)
                assert (magic, version) == (0x53534d52, 2) and kind in (KIND_MATERIALISE, KIND_PLACE), request
                self.requests.append(entry)
                time.sleep(self.delay_s)
                error = self.error or (self.place(entry) if kind == KIND_PLACE else self.materialise(entry))
                try:
                    connection.send(REPLY.pack(magic, version, kind, number, error, 0))
                except BrokenPipeError:
                    return

    def materialise(self, entry: int) -> int:
        path, kind, mode, mtime_ns, _ = self.entries[entry]
        if kind != KIND_FILE:
            return 22
        making = os.path.join(os.fsencode(self.folder / "making"), b"%d-%d" % (entry, threading.get_ident()))
        shutil.copyfile(os.path.join(os.fsencode(self.extracted), path), making)
        os.chmod(making, mode)
        os.utime(making, ns=(mtime_ns, mtime_ns))
        os.rename(making, os.path.join(self.tree, path))
        return 0

    def place(self, entry: int) -> int:
        """Into the arena of fast mode."""
        path, kind = self.entries[entry][:2]
        if kind != KIND_FILE:
            return 22
        if self.is_full:
            return 28
        with open(os.path.join(os.fsencode(self.extracted), path), "rb") as file:
            data = file.read()
        with self.lock, open(self.folder / "arena", "r+b") as arena, open(self.folder / "places", "r+b") as places:
            begin = self.arena_end
            self.arena_end += (len(data) + 63) // 64 * 64
            arena.seek(begin)
            arena.write(data)
            arena.flush()
            places.seek(8 * entry)
            places.write(struct.pack("<Q", begin))
        return 0

    def counters(self) -> dict:
        return dict(zip(COUNTERS, struct.unpack_from("<5Q", (self.folder / "state").read_bytes(), 16416)))

    def stop(self):
        """As if it was killed: the socket stays, but nobody listens."""
        if self.listener.fileno() == -1:
            return
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
