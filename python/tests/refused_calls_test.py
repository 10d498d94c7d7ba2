#!/usr/bin/env python3
"""The loader where the kernel refuses memfd_create, as the seccomp profiles of some containers do."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import numpy

# A real filter: from here on, this process and its children get EPERM for memfd_create.
HEAD = """
    import ctypes, errno, os, platform, struct, sys
    import numpy
    import millrace

    folder = sys.argv[1]
    libc = ctypes.CDLL(None, use_errno=True)

    def refuse_memfd():
        number = {"x86_64": 319, "aarch64": 279}[platform.machine()]
        load, is_equal, result = 0x20, 0x15, 0x06
        code = b"".join(struct.pack("HBBI", *each) for each in (
            (load, 0, 0, 0), (is_equal, 0, 1, number), (result, 0, 0, 0x00050000 | errno.EPERM),
            (result, 0, 0, 0x7FFF0000)))
        text = ctypes.create_string_buffer(code)
        program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(text))
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        assert libc.prctl(22, 2, program) == 0, os.strerror(ctypes.get_errno())  # PR_SET_SECCOMP, a filter
        try:
            os.memfd_create("x")
        except PermissionError:
            return
        raise AssertionError("memfd_create works")

    class Rows:
        def __init__(self, size):
            self.size = size
        def __len__(self):
            return 64
        def __getitem__(self, index):
            return numpy.full(self.size, index, numpy.uint8)

    def double(row):
        return 2 * row
    """
# As a container: its own /dev/shm, with a size; or none.
MOUNTS = ["unshare", "--mount", *(["--user", "--map-root-user"] if os.getuid() != 0 else [])]
SMALL = [*MOUNTS, "sh", "-c", 'mount -t tmpfs -o size=16m tmpfs /dev/shm && exec "$@"', "-"]
NONE = [*MOUNTS, "sh", "-c", 'mount -t tmpfs -o ro,mode=0555 tmpfs /dev/shm && exec "$@"', "-"]


class RefusedMemfd(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        numpy.save(self.folder / "rows.npy", numpy.arange(256, dtype="uint8").reshape(64, 4))

    def run_program(self, program: str, within=()) -> str:
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent(HEAD) + "refuse_memfd()\n" + textwrap.dedent(program))
        done = subprocess.run([*within, sys.executable, str(path), str(self.folder)], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_batches_are_shared_in_a_file_without_a_name(self):
        for context in ("fork", "spawn"):
            out = self.run_program(f"""
                if __name__ == "__main__":
                    before = os.listdir("/dev/shm")
                    loader = millrace.DataLoader(Rows(50_000), batch_size=8, num_workers=2, output="numpy",
                                                 multiprocessing_context="{context}")
                    for epoch in range(2):
                        print([batch[:, -1].tolist() for batch in loader] == numpy.arange(64).reshape(8, 8).tolist())
                    print(os.listdir("/dev/shm") == before)
                """)
            self.assertEqual(out, "True\nTrue\nTrue\n")

    def test_with_map_too(self):
        self.assertEqual(self.run_program("""
            data = millrace.Files(folder + "/rows.npy", map=double)
            loader = millrace.DataLoader(data, batch_size=8, num_workers=2, output="numpy")
            rows = numpy.concatenate(list(loader))
            print((rows == 2 * numpy.arange(256, dtype="uint8").reshape(64, 4)).all())
            """), "True\n")

    def test_too_little_room_is_an_error_and_not_the_end_of_the_process(self):
        out = self.run_program("""
            loader = millrace.DataLoader(Rows(8 << 20), batch_size=4, num_workers=1, output="numpy",
                                         skip_bad_samples=True)
            try:
                next(iter(loader))
            except RuntimeError as error:
                print(str(error).splitlines()[0])
            small = millrace.DataLoader(Rows(1 << 10), batch_size=4, num_workers=1, output="numpy")
            print(len(list(small)))
            """, SMALL)
        self.assertRegex(out, r"/dev/shm is full: .*memfd_create is refused.*--shm-size.*worker='thread'")
        self.assertEqual(out.splitlines()[1:], ["16"])

    def test_without_any_memory_file_the_error_says_what_to_do(self):
        out = self.run_program("""
            for data in (Rows(10), millrace.Files(folder + "/rows.npy", map=double)):
                try:
                    next(iter(millrace.DataLoader(data, batch_size=8, num_workers=1)))
                except RuntimeError as error:
                    print(error)
            loader = millrace.DataLoader(Rows(10), batch_size=8, worker="thread", num_workers=1)
            print(len(list(loader)))
            """, NONE)
        refusals = out.splitlines()
        self.assertEqual(len(refusals), 3, out)
        for told in refusals[:2]:
            self.assertRegex(told, r"memfd_create failed \(Operation not permitted\), and so did a file in /dev/shm "
                                   r"\(.*seccomp.*tmpfs.*worker='thread'")
        self.assertEqual(refusals[2], "8")


if __name__ == "__main__":
    unittest.main()
