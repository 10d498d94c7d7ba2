#!/usr/bin/env python3
"""Descriptors of a program that reads through the store, and fast mode: client_case.py."""

import os
import re
import subprocess
import sys
import unittest

from client_case import ClientTest, setUpModule, add_fast_mode


class DescriptorTest(ClientTest):
    """What programs do with descriptors, where fast mode must not be noticed."""

    def test_parent_and_child_share_the_offset(self):
        self.python("""
import os
fd = os.open(root + "/large.bin", os.O_RDONLY)
print(os.read(fd, 10))
pid = os.fork()
if pid == 0:
    os.read(fd, 1000)
    os._exit(0)
os.waitpid(pid, 0)
print(os.lseek(fd, 0, os.SEEK_CUR), os.read(fd, 10))
""")

    def test_copies_share_the_offset(self):
        self.python("""
import os, fcntl
fd = os.open(root + "/large.bin", os.O_RDONLY)
os.read(fd, 100)
copy = os.dup(fd)
print(os.read(copy, 5), os.read(fd, 5))
other = os.open(root + "/val/words.txt", os.O_RDONLY)
os.dup2(fd, other)                                  # replaces a descriptor of the store
print(os.read(other, 5), os.lseek(fd, 0, os.SEEK_CUR))
os.dup2(os.open("/etc/passwd", os.O_RDONLY), other) # and again, by one of another file
print(os.read(other, 5), os.fstat(other).st_size)
os.close(fd)
print(os.read(copy, 5), fcntl.fcntl(copy, fcntl.F_DUPFD, 40), os.read(40, 5))
""")

    def test_flags(self):
        self.python("""
import os, fcntl
for flags in (0, os.O_CLOEXEC, os.O_NOFOLLOW | os.O_NONBLOCK, os.O_CREAT):
    fd = os.open(root + "/large.bin", os.O_RDONLY | flags)
    print(fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD), os.isatty(fd), os.get_inheritable(fd))
    os.set_inheritable(fd, True)
    print(fcntl.fcntl(fd, fcntl.F_GETFD), os.fpathconf(fd, "PC_NAME_MAX"))
""")

    def test_inherited_descriptors(self):
        self.python("""
import os, subprocess, sys
fd = os.open(root + "/val/words.txt", os.O_RDONLY)
os.read(fd, 5)
print(subprocess.run(["sh", "-c", f"head -n 1 <&{fd}; head -c 3 /dev/fd/{fd}"], pass_fds=[fd], capture_output=True))
with open(root + "/val/words.txt") as file:
    print(subprocess.run(["md5sum"], stdin=file, capture_output=True))
    print(subprocess.run(["md5sum"], stdin=file, capture_output=True, preexec_fn=lambda: None))
print(os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_CUR) > 5, flush=True)
os.set_inheritable(fd, True)
os.lseek(fd, 11, os.SEEK_SET)
os.system(f"head -c 4 <&{fd}")
print(os.popen(f"echo from; head -c 4 <&{fd}", "r").read(), flush=True)
os.execl("/bin/sh", "sh", "-c", f"head -n 2 <&{fd}; cat <&9 2>&1 | wc -l")
""", edit=lambda text: re.sub(rb"fd/\d+|<&\d+|pass_fds=\[\d+\]", b"FD", text))

    def test_the_lowest_number_is_used_for_standard_descriptors(self):
        self.python("""
import os
with open(root + "/zero"):
    pass
os.close(0)
print(os.open(root + "/val/words.txt", os.O_RDONLY), os.read(0, 4))
os.set_inheritable(0, True)
os.execl("/bin/cat", "cat")
""")

    def test_other_calls(self):
        self.python("""
import os, select, mmap, socket, fcntl, ctypes, errno, array
fd = os.open(root + "/large.bin", os.O_RDONLY)
os.lseek(fd, 4096, os.SEEK_SET)
print(select.select([fd], [], [], 0)[0] == [fd])
fd = os.open(root + "/large.bin", os.O_RDONLY)
poll = select.poll()
poll.register(fd, select.POLLIN)
print([event for _, event in poll.poll(0)])
try:
    select.epoll().register(os.open(root + "/large.bin", os.O_RDONLY))
except OSError as error:
    print(error)
fd = os.open(root + "/large.bin", os.O_RDONLY)
print(mmap.mmap(fd, 100, prot=mmap.PROT_READ, offset=8192)[:20])
fd = os.open(root + "/large.bin", os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_SH)
fd = os.open(root + "/large.bin", os.O_RDONLY)
pair = socket.socketpair()
socket.send_fds(pair[0], [b"x"], [fd])
received = socket.recv_fds(pair[1], 1, 1)[1][0]
print(os.read(received, 10), os.lseek(fd, 0, os.SEEK_CUR))
print(os.read(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY), 10), os.path.getsize(f"/dev/fd/{fd}"))
fd = os.open(root + "/large.bin", os.O_RDONLY)
print(os.preadv(fd, [bytearray(10), bytearray(20)], 5), os.readv(fd, [memoryview(bytearray(10))]), os.posix_fadvise(fd, 0, 0, 1))
for call in (lambda: os.write(fd, b"x"), lambda: os.ftruncate(fd, 0), lambda: os.lseek(fd, -1, 0), lambda: os.listdir(fd),
             lambda: os.fchdir(fd), lambda: os.pread(fd, 1, -1), lambda: fcntl.ioctl(fd, 0x5401, b"x" * 60),
             lambda: os.open("x", 0, dir_fd=fd), lambda: os.getxattr(fd, "user.x"), lambda: os.lseek(fd, 3_000_000, os.SEEK_DATA)):
    try:
        print(call())
    except OSError as error:
        print(error)
print(os.lseek(fd, 1 << 42, os.SEEK_SET), os.read(fd, 1), os.lseek(fd, 0, os.SEEK_HOLE))
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(root + "/large.bin", os.O_RDONLY)
print(libc.read(fd, None, 10), ctypes.get_errno(), libc.read(fd, ctypes.create_string_buffer(10), 0))
os.close(fd)
for call in (os.fstat, os.dup, os.close, lambda fd: os.read(fd, 1), lambda fd: fcntl.fcntl(fd, fcntl.F_GETFD), os.isatty,
             lambda fd: os.lseek(fd, 0, 0)):
    try:
        print(call(fd))
    except OSError as error:
        print(error)
fds = [os.open(root + "/val/words.txt", os.O_RDONLY) for _ in range(200)]
print({os.read(fd, 3) for fd in fds}, len(set(fds)))
os.closerange(fds[50], fds[150])
bad = 0
for fd in fds:
    try:
        os.close(fd)
    except OSError:
        bad += 1
print(bad, open(root + "/val/words.txt").read(8), os.read(os.open("/etc/passwd", os.O_RDONLY), 4))
""")

    def test_a_number_that_was_closed_by_a_raw_system_call(self):
        """It belongs to whatever the kernel has there now."""
        self.python("""
import ctypes, os, platform, socket, tempfile
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
libc.fileno.argtypes = [ctypes.c_void_p]
close = {"x86_64": 3, "aarch64": 57}[platform.machine()]
pair = socket.socketpair()
def pipe():
    numbers = os.pipe()
    os.write(numbers[1], b"from a pipe")
    return numbers[0]
def sockets():
    one, other = socket.socketpair()
    other.send(b"from a socket")
    return one.detach()
def memory():
    fd = os.memfd_create("x")
    os.write(fd, b"in memory")
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
def temporary():
    fd, name = tempfile.mkstemp(dir=out)
    os.write(fd, b"written")
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
def received():
    sent = os.open("/etc/passwd", os.O_RDONLY)
    os.dup2(sent, 90)
    os.close(sent)
    socket.send_fds(pair[0], [b"x"], [90])
    return socket.recv_fds(pair[1], 1, 1)[1][0]
makers = (pipe, sockets, memory, temporary, received, lambda: os.open("/etc/passwd", os.O_RDONLY), lambda: os.dup(90),
          lambda: os.eventfd(7), lambda: libc.fileno(libc.fopen(b"/etc/passwd", b"r")),
          lambda: os.open(root + "/val/words.txt", os.O_RDONLY | os.O_NOATIME))
for make in makers:
    fd = os.open(root + "/large.bin", os.O_RDONLY)
    os.read(fd, 3)
    libc.syscall(close, fd)
    new = make()
    print(new == fd, os.read(new, 8), os.fstat(new).st_size)
""")

    def test_numbers_that_were_closed_do_not_count(self):
        self.python("""
import os, resource
fds = [os.open(root + "/val/words.txt", os.O_RDONLY) for _ in range(20)]
resource.setrlimit(resource.RLIMIT_NOFILE, (max(fds) + 1, max(fds) + 1))
for fd in fds:
    os.close(fd)
pipes = [os.pipe() for _ in range(9)]
files = [os.open("/etc/passwd", os.O_RDONLY) for _ in range(2)]
try:
    os.pipe()
except OSError as error:
    print(error)
os.close(files[0])
print(open(root + "/val/words.txt").read(4), len(os.read(files[1], 4)))
""")

    def test_a_fork_without_handlers_shares_the_offset(self):
        self.python("""
import ctypes, os
libc = ctypes.PyDLL(None)
if not hasattr(libc, "_Fork"):
    raise SystemExit(print("not in this C library"))
fd = os.open(root + "/large.bin", os.O_RDONLY)
os.read(fd, 10)
pid = libc._Fork()
if pid == 0:
    os.read(fd, 1000)
    os._exit(0)
os.waitpid(pid, 0)
print(os.lseek(fd, 0, os.SEEK_CUR))
""")

    def test_threads_close_while_others_read(self):
        self.python("""
import os, threading, glob, hashlib
paths = sorted(glob.glob(root + "/train/*/*"))
known = {hashlib.md5(open(path, "rb").read()).digest() for path in paths}
wrong = []
def work(number):
    for i in range(400):
        fd = os.open(paths[(i * 7 + number) % len(paths)], os.O_RDONLY)
        if i % 50 == number:
            os.close(os.dup(fd))
        parts = []
        while part := os.read(fd, 5000):
            parts.append(part)
        os.close(fd)
        if hashlib.md5(b"".join(parts)).digest() not in known:
            wrong.append(i)
threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
[t.start() for t in threads], [t.join() for t in threads]
print(wrong)
""")


class FastModeTest(ClientTest):
    fast = True

    def test_reads_need_no_real_file(self):
        code = "import os, sys; f = open(sys.argv[1], 'rb'); print(len(f.read()), os.pread(f.fileno(), 3, 9), f.seek(7))"
        done = self.run_in_store([sys.executable, "-c", code, f"{self.root}/large.bin"])
        self.assertIn(b"3000000", done.stdout, done.stderr)
        self.assertEqual(len(self.node.requests), 1)
        self.assertFalse((self.node.folder / "tree" / "large.bin").exists())

    def test_an_uncovered_call_fails_and_gives_no_bytes(self):
        code = """
import ctypes, errno, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(8)
fd = os.open(sys.argv[1], os.O_RDONLY)
number = {"x86_64": 0, "aarch64": 63}[platform.machine()]
print(libc.syscall(number, fd, buffer, 8), errno.errorcode[ctypes.get_errno()], buffer.raw)
"""
        done = self.run_in_store([sys.executable, "-c", code, f"{self.root}/large.bin"])
        self.assertEqual(done.stdout, b"-1 EBADF " + repr(bytes(8)).encode() + b"\n", done.stderr)

    def test_a_program_goes_on_when_the_service_has_died(self):
        code = "import os, sys; r = lambda: len(open(sys.argv[1], 'rb').read()); print(r(), flush=True); input(); print(r())"
        with subprocess.Popen([sys.executable, "-c", code, f"{self.root}/large.bin"], env=self.environment(),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            self.assertEqual(program.stdout.readline(), b"3000000\n")
            self.node.stop()
            self.assertEqual(program.communicate(b"\n")[0], b"3000000\n")

    def test_files_that_were_refused_are_read_as_real_files(self):
        self.node.is_full = True
        done = self.run_in_store(["cat", f"{self.root}/val/words.txt"])
        self.assertEqual(done.stdout, (self.plain / "val" / "words.txt").read_bytes(), done.stderr)
        self.assertTrue((self.node.folder / "tree" / "val" / "words.txt").exists())


class CourtesyTest(ClientTest):
    def test_calls_that_succeed_keep_errno(self):
        code = """
import ctypes, sys
libc, root = ctypes.CDLL(None, use_errno=True), sys.argv[1].encode()
libc.fopen.restype = libc.opendir.restype = libc.readdir.restype = libc.open_memstream.restype = ctypes.c_void_p
libc.realpath.restype = ctypes.c_char_p
status, out = ctypes.create_string_buffer(500), ctypes.create_string_buffer(5000)
def call(name, *arguments):
    ctypes.set_errno(77)
    arguments = [ctypes.c_void_p(a) if isinstance(a, int) and a > 1 << 32 else a for a in arguments]
    result = getattr(libc, name)(*arguments)
    assert result not in (None, -1), (name, result)
    assert ctypes.get_errno() == 77, (name, ctypes.get_errno())
    return result
fd = call("open", root + b"/large.bin", 0)
call("fstat", fd, status), call("stat", root + b"/to_file", status), call("lstat", root + b"/to_file", status)
call("fclose", call("fopen", root + b"/val/words.txt", b"r")), call("close", fd)
call("fclose", call("open_memstream", out, status))
stream = call("opendir", root + b"/val")
for _ in range(3):
    call("readdir", stream)
call("closedir", stream), call("access", root + b"/zero", 4), call("realpath", root + b"/val/up", out)
call("readlink", root + b"/to_file", out, 100), call("chdir", root + b"/train"), call("getcwd", out, 5000)
"""
        done = self.run_in_store([sys.executable, "-c", code, str(self.root)])
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_signals_do_not_disturb_a_request(self):
        self.node.delay_s = 0.2
        done = self.run_in_store([sys.executable, "-c", "import signal, sys\n"
                                  "signal.signal(signal.SIGALRM, lambda *_: None)\n"
                                  "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
                                  "print(len(open(sys.argv[1], 'rb').read()))", f"{self.root}/large.bin"])
        self.assertEqual((done.stdout, done.stderr), (b"3000000\n", b""))

    def test_the_last_descriptor_is_enough(self):
        done = self.run_in_store(["sh", "-c", f"ulimit -n 4; cat {self.root}/val/words.txt"])
        self.assertEqual(done.stdout, (self.plain / "val" / "words.txt").read_bytes(), done.stderr)


add_fast_mode(globals())

if __name__ == "__main__":
    unittest.main()
