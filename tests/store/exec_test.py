#!/usr/bin/env python3
"""Programs that are started in a store, from a store, or that cannot see it: client_case.py."""

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from client_case import FOLDER, ClientTest, setUpModule, add_fast_mode

SPAWN = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def spawn(call, program, *words, chdir=None, env=None):
    pid, actions = ctypes.c_int(), ctypes.create_string_buffer(200)
    libc.posix_spawn_file_actions_init(actions)
    if chdir:
        print(libc.posix_spawn_file_actions_addchdir_np(actions, os.fsencode(chdir)))
    arguments = (ctypes.c_char_p * (len(words) + 1))(*map(os.fsencode, words), None)
    pairs = (ctypes.c_char_p * (len(os.environ) + 1))(*(os.fsencode(f"{k}={v}") for k, v in os.environ.items()), None)
    error = getattr(libc, call)(ctypes.byref(pid), os.fsencode(program), actions, None, arguments, pairs)
    print(call, error, os.strerror(error), os.waitpid(pid.value, 0)[1] if error == 0 else "", flush=True)
"""


class ExecTest(ClientTest):
    def test_a_script_sees_its_name(self):
        self.check_same(["bash", "-c", "ROOT/bin/named a 'b c'; cd ROOT/bin; ./named; cd ..; bin/named x; exec -a other bin/named"])
        self.check_same(["env", "ROOT/bin/named"])
        self.check_same(["bash", "-c", "ROOT/bin/by_option; echo $?; ROOT/bin/wrong; echo $?; ROOT/bin/denied; echo $?; ROOT/bin"],
                        code=126)

    def test_an_interpreter_in_the_store(self):
        self.check_same(["bash", "-c", "printf '#!ROOT/bin/tool one two\\n' > OUT/x; printf '#!ROOT/bin/named one\\n' > OUT/y; "
                         "printf '#!OUT/y\\n' > OUT/z; chmod +x OUT/*; OUT/x three; OUT/y three; OUT/z three; env OUT/z; OUT/z"])
        self.check_same(["bash", "-c", "cd ROOT && bin/by_relative two"])
        self.check_same(["bash", "-c", "printf '#!OUT/x\\n' > OUT/x; chmod +x OUT/x; cd ROOT; OUT/x"], code=126)

    def test_the_search_path(self):
        for command in ("env named x", "timeout 9 named x", "echo 1 2 | xargs -n 1 named", "named x", "find ROOT/zero -exec named {} ';'",
                        "nice named y", "env without_line z", "env tool t", "sh -c 'exec named q'"):
            self.check_same(["bash", "-c", f"export PATH=ROOT/bin:$PATH; {command}"])
            self.check_same(["bash", "-c", f"cd ROOT; export PATH=bin:$PATH; {command}"])
        self.check_same(["bash", "-c", "cd ROOT/bin; export PATH=:$PATH; env named x"])
        self.check_same(["bash", "-c", "export PATH=ROOT/bin:/usr/bin:/bin; env denied; echo $?; env missing; echo $?; env zero; echo $?; "
                         "PATH=ROOT/zero:$PATH env echo found; env wrong; echo $?; env ''; echo $?"])
        self.python(SPAWN + """
os.environ["PATH"] = root + "/bin:/usr/bin"
for name in ("tool", "named", "echo", "denied", "missing", "without_line", "wrong", ""):
    spawn("posix_spawnp", name, name, "a", "b")
try:
    os.execvp("denied", ["denied"])
except OSError as error:
    print(error)
import subprocess
for settings in ({}, {"close_fds": False}, {"cwd": root + "/val"}):
    print(subprocess.run(["named", "x"], capture_output=True, **settings))
os.execlp("named", "ignored", "x")
""")

    def test_spawn(self):
        self.python(SPAWN + """
spawn("posix_spawn", root + "/bin/named", "x", "y")
spawn("posix_spawn", root + "/bin/missing", "x")
spawn("posix_spawn", "/bin/pwd", "pwd", chdir=root + "/train")
spawn("posix_spawn", "/bin/ls", "ls", chdir=root + "/to_folder")
spawn("posix_spawn", "/bin/ls", "ls", chdir=root + "/missing")
spawn("posix_spawn", "/bin/ls", "ls", chdir=root + "/zero")
for name in ("/val/words.txt", "/val/words.txt/x", "/missing"):
    try:
        pid = os.posix_spawn("/bin/cat", ["cat"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 0, root + name, os.O_RDONLY, 0)])
        print(os.waitpid(pid, 0)[1])
    except OSError as error:
        print(name, error.strerror)
spawn("posix_spawnp", "cat", "cat", "words.txt", chdir=root + "/val")
""")

    def test_ldd(self):
        done = self.run_in_store(["ldd", f"{self.root}/bin/tool"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(b"libc.so.6 => /", done.stdout)
        done = self.run_in_store(["bash", "-c", f"cd {self.root}/bin; $(ldd tool | grep -o '/[^ ]*ld-linux[^ ]*') ./tool it runs"])
        self.assertEqual(done.stdout, b"it runs\n", done)


STATIC = r"""
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char** argv) {
  FILE* made = argc > 2 ? fopen(argv[2], "w") : NULL;
  if (argc > 2 && made == NULL) return perror(argv[2]), 2;
  DIR* stream = opendir(argc > 1 ? argv[1] : ".");
  if (stream == NULL) return perror("opendir"), 1;
  for (struct dirent* at; (at = readdir(stream)) != NULL;) {
    if (at->d_name[0] != '.') puts(at->d_name);
  }
  return 0;
}
"""


@unittest.skipIf(shutil.which("cc") is None, "no compiler")
class BlindTest(ClientTest):
    """Programs that do not load the library see nothing, or the origin, but never a part of the dataset."""

    @classmethod
    def setUpClass(cls):
        (FOLDER / "list.c").write_text(STATIC)
        cls.programs = {}
        for name, options in (("static", ["-static"]), ("static-pie", ["-static-pie"]), ("dynamic", [])):
            program = FOLDER / name
            if subprocess.run(["cc", *options, "-o", program, FOLDER / "list.c"], capture_output=True).returncode == 0:
                cls.programs[name] = program
        if "dynamic" in cls.programs:
            other = FOLDER / "other-rights"
            shutil.copy(cls.programs["dynamic"], other)
            if os.geteuid() == 0:
                os.chown(other, 65534, 65534)
                other.chmod(0o4755)
                cls.programs["other-rights"] = other
            cls.programs["Go"] = cls.add_note(cls.programs["dynamic"])

    @staticmethod
    def add_note(program: Path) -> Path:
        """As the Go linker does."""
        (FOLDER / "note.s").write_text('.section .note.go.buildid,"a",@note\n.align 4\n.long 4,4,4\n.ascii "Go\\0\\0"\n.long 7\n')
        go = FOLDER / "Go"
        subprocess.run(["cc", "-o", go, FOLDER / "list.c", FOLDER / "note.s"], check=True, capture_output=True)
        return go

    def list_in(self, program, folder, *words):
        """After one file of the folder was read."""
        one = {"val": "words.txt", "train/class1": "0001.bin"}[folder]
        command = f"cat {self.root}/{folder}/{one} > /dev/null; cd {self.root}/{folder}; {program} {' '.join(words)}"
        return self.run_in_store(["sh", "-c", command])

    def test_they_see_nothing_and_are_named_once(self):
        for name, program in self.programs.items():
            done = self.list_in(program, "val")
            if name == "dynamic":
                self.assertIn(b"words.txt\n", done.stdout)
                self.assertEqual(done.stderr, b"")
                continue
            with self.subTest(name):
                self.assertEqual((done.returncode, done.stdout), (0, b""), done)
                self.assertIn(b"millrace: " + bytes(program), done.stderr)
                self.assertIn(b"it does not see the store at " + bytes(self.root), done.stderr)
                self.assertEqual(done.stderr.count(b"\n"), 1)
                self.assertEqual(self.list_in(program, "val").stderr, b"")

    def test_an_argument_below_the_root(self):
        program = self.programs["static"]
        done = self.run_in_store([program, "/bin"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        done = self.run_in_store(["env", program, f"{self.root}/val"])
        self.assertIn(b"is statically linked: it does not see the store", done.stderr)
        self.assertIn(b"No such file or directory", done.stderr)

    def test_they_create_nothing_in_the_folder_of_the_node(self):
        """It would be lost at the end of the job. Root could, whatever the mode of the folder."""
        done = self.list_in(self.programs["static"], "val", ".", "made")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(b"made: ", done.stderr)

    def test_they_see_the_origin(self):
        self.node = self.make_node(origin=str(self.plain))
        done = self.list_in(self.programs["static"], "train/class1")
        names = sorted(os.fsencode(path.name) for path in (self.plain / "train/class1").iterdir())
        self.assertEqual(sorted(done.stdout.split()), names)

    def test_a_failed_start_stays_in_its_directory(self):
        (FOLDER / "denied").write_bytes(self.programs["static"].read_bytes())
        code = ("import os, sys; os.chdir(sys.argv[1])\ntry: os.execv(sys.argv[2], ['x'])\nexcept OSError: pass\n"
                "print(len(os.listdir()), os.getcwd())")
        done = self.run_in_store([sys.executable, "-c", code, f"{self.root}/train", FOLDER / "denied"])
        self.assertEqual(done.stdout.decode(), f"4 {self.root}/train\n", done)

    def test_spawn(self):
        code = "import os, sys; os.chdir(sys.argv[1]); os.listdir(); os.waitpid(os.posix_spawn(sys.argv[2], ['x'], os.environ), 0)"
        done = self.run_in_store([sys.executable, "-c", code, f"{self.root}/train", self.programs["static"]])
        self.assertEqual((done.returncode, done.stdout), (0, b""), done)

    def test_spawn_with_actions(self):
        """Of subprocess without close_fds, and of make."""
        code = ("import os, sys; os.chdir(sys.argv[1]); os.listdir(); to_error = [(os.POSIX_SPAWN_DUP2, 2, 1)]\n"
                "for words in (['.'], ['.', 'made']):\n"
                "    pid = os.posix_spawn(sys.argv[2], [sys.argv[2], *words], os.environ, file_actions=to_error)\n"
                "    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
        done = self.run_in_store([sys.executable, "-c", code, f"{self.root}/train", self.programs["static"]])
        self.assertEqual((done.returncode, done.stdout), (0, b"0\n2\n"), done)
        self.assertNotIn(b"class1", done.stderr)


add_fast_mode(globals())
if __name__ == "__main__":
    unittest.main()
