#!/usr/bin/env python3
"""Calls of the C library that few programs make, on a store and on a plain directory: client_case.py."""

import shutil
import subprocess
import sys
import unittest

from client_case import FOLDER, ClientTest, setUpModule, add_fast_mode

LIBC = """
import ctypes, os, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments, show=lambda result: result):
    ctypes.set_errno(0)
    words = [os.fsencode(a) if isinstance(a, str) else a for a in arguments]
    result = getattr(libc, name)(*words)
    print(name, show(result), errno.errorcode.get(ctypes.get_errno(), 0) if result == -1 else "")
    return result
"""


class PathTest(ClientTest):
    def test_limits(self):
        self.python(LIBC + """
for name in ("zero", "val", "to_file", "missing", "zero/x", ""):
    for what in ("PC_NAME_MAX", "PC_PATH_MAX", "PC_PIPE_BUF", "PC_LINK_MAX"):
        try:
            value = os.pathconf(os.path.join(root, name), what)
            print(name, what, value if what != "PC_LINK_MAX" else value > 0)
        except OSError as error:
            print(name, what, error)
""")

    def test_watches(self):
        self.python(LIBC + """
fd = call("inotify_init1", os.O_NONBLOCK, show=bool)
for name in ("val", "zero", "to_file", "broken", "missing"):
    for follow in (0, 0x02000000):
        call("inotify_add_watch", fd, root + "/" + name, 0x2 | follow, show=lambda result: result > 0)
for name in (".", "class1", "../zero", "../../data/val", "missing"):
    os.chdir(root + "/train")
    call("inotify_add_watch", fd, name, 0x2, show=lambda result: result > 0)
print(open(root + "/val/words.txt").read(4))
try:
    print(os.read(fd, 1000))
except BlockingIOError as error:
    print(error)
""")

    def test_handles(self):
        """Not compared with the plain directory: its file system may have no handles, as overlayfs."""
        done = self.run_in_store([sys.executable, "-c", LIBC + f"root = {str(self.root)!r}" + """
def handle(directory, path, flags=0):
    text = (ctypes.c_uint32 * 40)(128)
    call("name_to_handle_at", directory, path, text, ctypes.byref(ctypes.c_int()), flags)
    return bytes(text)
fd = os.open(root + "/zero", os.O_RDONLY)
print(handle(-100, root + "/zero") == handle(fd, "", 0x1000), handle(-100, root + "/val/words.txt") == handle(-100, root + "/to_file", 0x400))
handle(os.open(root + "/val", os.O_RDONLY), "words.txt")
handle(-100, root + "/missing")
"""])
        found = "name_to_handle_at 0 \n"
        self.assertEqual(done.stdout.decode(), 4 * found + "True True\n" + found + "name_to_handle_at -1 ENOENT\n", done.stderr)

    def test_keys_and_flags(self):
        self.python(LIBC + """
import stat
for name in ("zero", "val", "to_file"):
    status = os.stat(root + "/" + name)
    print(libc.ftok(os.fsencode(root + "/" + name), 7) & 0xffffffff ==
          status.st_ino & 0xffff | (status.st_dev & 0xff) << 16 | 7 << 24)
call("ftok", root + "/missing", 7)
call("access", root + "/zero", 8)
call("faccessat", -100, root + "/zero", 0, 0x8000)
call("fstatat", -100, root + "/zero", ctypes.create_string_buffer(500), 0x8000)
call("statx", -100, root + "/zero", 0, 0x80000000, ctypes.create_string_buffer(500))
os.chdir(root + "/train")
text = ctypes.create_string_buffer(4096)
libc.getwd(text)
print(text.value == os.fsencode(root) + b"/train")
""")

    def test_execveat(self):
        self.python(LIBC + """
for directory, path in ((-100, root + "/bin/named"), (-100, root + "/bin/missing"), (os.open(root, os.O_RDONLY), "bin/missing")):
    if os.fork() == 0:
        call("execveat", directory, path, (ctypes.c_char_p * 3)(b"x", b"y", None), (ctypes.c_char_p * 1)(None), 0)
        os._exit(7)
    print(os.wait()[1])
""")

    def test_old_names(self):
        done = self.run_in_store([sys.executable, "-c", LIBC + f"root = {str(self.root)!r}" + """
call("lchmod", root + "/zero", 0o600)
call("futimesat", -100, root + "/zero", None)
call("futimesat", os.open(root + "/zero", os.O_RDONLY), None, None)
for name in ("zero", "val"):
    call("__xmknod", 0, root + "/" + name, 0o100600, ctypes.byref(ctypes.c_uint64()))
    call("__xmknodat", 0, -100, root + "/" + name, 0o100600, ctypes.byref(ctypes.c_uint64()))
"""])
        self.assertEqual(done.stdout.decode().split("\n")[:-1],
                         ["lchmod -1 EROFS"] + ["futimesat -1 EROFS"] * 2 + ["__xmknod -1 EEXIST", "__xmknodat -1 EEXIST"] * 2, done)

    @unittest.skipIf(shutil.which("cc") is None, "no compiler")
    def test_libraries(self):
        """A library of the store, and one that is found by what the calling library says."""
        (FOLDER / "library.c").write_text("int answer(void) { return 42; }\n")
        (FOLDER / "caller.c").write_text('#include <dlfcn.h>\n#include <stdio.h>\nint main(int argc, char** argv) {\n'
                                         '  void* found = dlopen(argv[1], RTLD_NOW);\n'
                                         '  puts(found ? dlsym(found, argv[2]) ? "found" : "no symbol" : dlerror());\n}\n')
        (FOLDER / "lib").mkdir(exist_ok=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", FOLDER / "lib/libanswer.so", FOLDER / "library.c"], check=True)
        subprocess.run(["cc", "-o", FOLDER / "caller", FOLDER / "caller.c", f"-Wl,-rpath,{FOLDER}/lib"], check=True)
        caller = str(FOLDER / "caller")
        self.assertEqual(self.check_same([caller, "libanswer.so", "answer"]), b"found\n")
        self.assertEqual(self.check_same([caller, "ROOT/bin/libz.so", "zlibVersion"]), b"found\n")
        self.check_same(["bash", "-c", f"cd ROOT; {caller} bin/libz.so zlibVersion; {caller} ./bin/../bin/libz.so zlibVersion"])
        self.check_same([caller, "ROOT/bin/missing.so", "x"])
        self.check_same([caller, "libz.so.1", "zlibVersion"])

    @unittest.skipIf(shutil.which("cc") is None, "no compiler")
    def test_words(self):
        (FOLDER / "words.c").write_text(r'''
#include <stdio.h>
#include <stdlib.h>
#include <wordexp.h>
int main(int argc, char** argv) {
  wordexp_t found;
  found.we_offs = 2;
  setenv("WORDS", "a b", 1);
  int result = wordexp(argv[1], &found, WRDE_DOOFFS);
  for (int i = 2; i < argc; ++i) printf("%d ", wordexp(argv[i], &found, WRDE_DOOFFS | WRDE_APPEND | WRDE_REUSE * (i == 4)));
  printf("%d %zu\n", result, found.we_wordc);
  for (size_t i = 0; result == 0 && i < found.we_wordc; ++i) printf("<%s>\n", found.we_wordv[2 + i]);
  if (result == 0) wordfree(&found);
}
''')
        subprocess.run(["cc", "-o", FOLDER / "words", FOLDER / "words.c"], check=True)
        for words in (["ROOT/*"], ["ROOT/v*/w* 'ROOT/v*' \"ROOT/v*\" ROOT/v\\*", "~root/none* $WORDS \"$WORDS\""], ["ROOT/none* none"],
                      ["ROOT/train/class[12]/000?.bin", "x", "ROOT/[tv]*", "ROOT/em*"], ["$(echo ROOT/t*)", "`echo ROOT/z*`"],
                      ["'x*'\"y?\"ROOT/z*", "${WORDS}*", "$((2*3)) *"], ["a | b"], ["a > b", "(x"], ["", "'unclosed*"], ["\\\\* \\[ []"]):
            with self.subTest(words):
                self.check_same([str(FOLDER / "words"), *words])
                self.check_same(["bash", "-c", "cd ROOT/bin; \"$0\" '*' \"b*\" '\"*\"' n*", str(FOLDER / "words")])


class DescriptorCallTest(ClientTest):
    def test_asynchronous_reads(self):
        self.python(LIBC + """
import struct, time
class Request(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("opcode", ctypes.c_int), ("priority", ctypes.c_int), ("buffer", ctypes.c_void_p),
                ("size", ctypes.c_size_t), ("event", ctypes.c_char * 64), ("rest", ctypes.c_char * 32), ("offset", ctypes.c_int64),
                ("more", ctypes.c_char * 64)]
def request(name, opcode=0):
    buffer = ctypes.create_string_buffer(20)
    made = Request(os.open(root + "/" + name, os.O_RDONLY), opcode, 0, ctypes.cast(buffer, ctypes.c_void_p), 20, b"", b"", 30)
    ctypes.memset(ctypes.addressof(made) + Request.event.offset, 0, 64)
    ctypes.memmove(ctypes.addressof(made) + Request.event.offset + 12, struct.pack("i", 1), 4)  # SIGEV_NONE
    return made, buffer
def wait(made):
    while libc.aio_error(ctypes.byref(made)) == errno.EINPROGRESS:
        time.sleep(0.001)
    return errno.errorcode.get(libc.aio_error(ctypes.byref(made)), 0), libc.aio_return(ctypes.byref(made))
made, buffer = request("large.bin")
call("aio_read", ctypes.byref(made))
print(wait(made), buffer.raw)
made, buffer = request("large.bin")
call("aio_write", ctypes.byref(made))
print(wait(made))
made, buffer = request("large.bin")
call("aio_fsync", os.O_SYNC, ctypes.byref(made))
several = [request(name) for name in ("large.bin", "val/words.txt", "zero")]
call("lio_listio", 0, (ctypes.POINTER(Request) * 3)(*(ctypes.pointer(made) for made, _ in several)), 3, None)
print([(wait(made), buffer.raw) for made, buffer in several])
""")

    def test_ranges(self):
        self.python(LIBC + """
for name in ("large.bin", "zero"):
    fd = os.open(root + "/" + name, os.O_RDONLY)
    offset = ctypes.c_int64
    call("sync_file_range", fd, offset(0), offset(100), 1)
    call("fallocate", os.open(root + "/" + name, os.O_RDONLY), 0, offset(0), offset(10))
    call("posix_fallocate", os.open(root + "/" + name, os.O_RDONLY), offset(0), offset(10))
    print(os.read(fd, 4))
""")


class CreateTest(ClientTest):
    """The same calls with what programs create."""

    def test_sockets(self):
        self.python(LIBC + """
import socket
os.chdir(root)
os.mkdir("val/" + "d" * 60)
def report(body):
    try:
        print(body())
    except OSError as error:
        print(error)
for name in ("socket", "val/socket", "val/" + "d" * 60 + "/s"):
    path = name if len(name) > 50 else root + "/" + name
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    client = socket.socket(socket.AF_UNIX)
    client.connect(name)
    other = server.accept()[0]
    client.send(b"hello")
    print(other.recv(9), oct(os.stat(path).st_mode), os.listdir(os.path.dirname(path) or ".").count(os.path.basename(name)))
    report(lambda: socket.socket(socket.AF_UNIX).bind(name))
    server.close()
    report(lambda: socket.socket(socket.AF_UNIX).connect(path))
    os.unlink(path)
    report(lambda: socket.socket(socket.AF_UNIX).connect(path))
one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
one.bind(root + "/datagrams")
other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
other.sendto(b"by name", root + "/datagrams")
print(one.recv(9))
for path in ("val/words.txt", "val", "missing/x", "val/words.txt/x"):
    report(lambda: socket.socket(socket.AF_UNIX).bind(root + "/" + path))
    report(lambda: socket.socket(socket.AF_UNIX).connect(root + "/" + path))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind(b"\\0millrace-test-%d" % os.getpid())
os.unlink(root + "/datagrams")
os.rmdir("val/" + "d" * 60)
""")

    def test_watches(self):
        self.python(LIBC + """
import struct
fd = libc.inotify_init1(os.O_NONBLOCK)
watches = {call("inotify_add_watch", fd, root + "/" + name, 0x100 | 0x8, show=lambda x: x > 0): name for name in ("empty", "val")}
print(open(root + "/val/words.txt").read(4))
for name in ("val/new", "empty/new"):
    with open(root + "/" + name, "w") as file:
        file.write("x")
os.mkdir(root + "/made")
watches[call("inotify_add_watch", fd, root + "/made", 0x100, show=lambda x: x > 0)] = "made"
open(root + "/made/x", "w").close()
data = os.read(fd, 4000)
while data:
    watch, mask, _, size = struct.unpack_from("iIII", data)
    print(watches[watch], hex(mask), data[16:16 + size].rstrip(b"\\0"))
    data = data[16 + size:]
for name in ("val/new", "empty/new", "made/x"):
    os.unlink(root + "/" + name)
os.rmdir(root + "/made")
""")

    def test_names_in_proc(self):
        self.python("""
import os
os.mkdir(root + "/made")
os.chdir(root + "/made")
with open("x", "w") as file:
    print(os.readlink("/proc/self/cwd"), os.readlink(f"/proc/self/fd/{file.fileno()}"), os.path.realpath("/proc/self/cwd/x"))
os.chdir("..")
os.unlink("made/x")
os.rmdir("made")
""")

    def test_scripts(self):
        self.check_same(["bash", "-c", "cp ROOT/bin/named ROOT/mine; ROOT/mine a; cd ROOT; ./mine; PATH=.:$PATH env mine; rm mine; "
                         "printf '#!ROOT/made\\n' > OUT/x; cp bin/tool made; chmod +x OUT/x; OUT/x one; rm made"])


add_fast_mode(globals())
if __name__ == "__main__":
    unittest.main()
