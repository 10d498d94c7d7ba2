#!/usr/bin/env python3
"""The store's service as real processes: run, up, status, warm, down; killed, without room, with damaged packs."""

import ctypes.util
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

MILLRACE = os.environ["MILLRACE"]
PATIENCE_S = 60

REQUEST = struct.Struct("<IHHQQ")
REPLY = struct.Struct("<IHHQiI")
MAGIC = int.from_bytes(b"RMSS", "little")


def own_library() -> str:
    """The preload library; empty if it is not built."""
    if "MILLRACE_STORE_LIBRARY" in os.environ:
        return os.environ["MILLRACE_STORE_LIBRARY"]
    own = Path(MILLRACE).parent.parent / "lib" / "libmillrace_store.so"
    return str(own) if own.exists() else ""


def client_library() -> str:
    """The preload library, or any other one: most of these tests are about the service alone."""
    if own_library():
        return own_library()
    for folder in ("/lib", "/usr/lib"):
        for found in Path(folder).glob("*-linux-gnu/" + ctypes.util.find_library("dl")):
            return str(found)
    raise unittest.SkipTest("no library to preload")


def ask(node: Path, entries: list) -> dict:
    """Asks the service for entries of the catalogue. Returns the error of each."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(str(node / "socket"))
        errors = {}
        for entry in entries:
            connection.send(REQUEST.pack(MAGIC, 2, 1, entry, entry))
        while len(errors) < len(entries):
            reply = connection.recv(64)
            if not reply:
                raise ConnectionError("the service has ended")
            magic, version, kind, number, error, _ = REPLY.unpack(reply)
            assert (magic, version, kind) == (MAGIC, 2, 1)
            errors[number] = error
        return errors


def wait_until(condition) -> bool:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class ServiceTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))  # short, for the socket's path
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.source = self.folder / "source"
        self.local = self.folder / "local"
        self.local.mkdir()
        for i in range(20):
            path = self.source / ("train" if i % 2 else "val") / str(i)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(1000 * i))
        self.packs = self.folder / "packs"
        self.environment = {**os.environ, "MILLRACE_STORE_LIBRARY": client_library(),
                            "ASAN_OPTIONS": "verify_asan_link_order=0"}
        self.environment.pop("MILLRACE_STORE", None)
        self.store("pack", self.source, "-o", self.packs, "--partitions", "3", "--codec", "none")
        listed = json.loads(self.store("list", self.packs, "--json").stdout)
        self.paths = {i + 1: entry for i, entry in enumerate(listed["entries"])}
        self.files = [i for i, entry in self.paths.items() if entry["kind"] == "file"]
        self.up_args = ["--pack", self.packs, "--at", self.folder / "data", "--local", self.local]

    def store(self, *words, code=0, environment=None):
        done = subprocess.run([MILLRACE, "store", *map(str, words)], capture_output=True, text=True,
                              env=environment or self.environment, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def up(self, *words) -> Path:
        exports = dict(line.removeprefix("export ").split("=", 1)
                       for line in self.store("up", *self.up_args, *words).stdout.splitlines())
        node = Path(exports["MILLRACE_STORE"].strip("'"))
        self.assertIn(self.environment["MILLRACE_STORE_LIBRARY"], exports["LD_PRELOAD"])
        self.addCleanup(subprocess.run, [MILLRACE, "store", "down", "--node", node], capture_output=True)
        return node

    def status(self, node: Path) -> dict:
        (found,) = json.loads(self.store("status", "--json", "--node", node).stdout)["stores"]
        return found

    def run_words(self, *command, options=()):
        return [MILLRACE, "store", "run", *map(str, self.up_args), *options, "--", *map(str, command)]

    def nodes(self) -> list:
        return [path for top in self.local.glob("millrace-store-*") for path in top.iterdir()]

    def assert_tree(self, node: Path, entries) -> None:
        for i in entries:
            made = node / "tree" / self.paths[i]["path"]
            plain = self.source / self.paths[i]["path"]
            self.assertEqual(made.read_bytes(), plain.read_bytes())
            self.assertEqual(made.stat().st_mtime_ns, plain.stat().st_mtime_ns)
            self.assertEqual(made.stat().st_mode, plain.stat().st_mode)

    def test_up_serves_until_down(self):
        node = self.up("--capacity", "1GiB")
        self.assertEqual(node.stat().st_mode & 0o777, 0o700)
        self.assertEqual(set(ask(node, self.files).values()), {0})
        self.assert_tree(node, self.files)
        status = self.status(node)
        self.assertTrue(status["running"])
        self.assertEqual(status["materialised"], len(self.files))
        self.assertEqual(status["capacity_bytes"], 1 << 30)
        self.assertEqual(status["root"], str(self.folder / "data"))
        self.assertEqual(status["origin"], str(self.source))
        self.assertIn("running", self.store("status", "--local", self.local).stdout)
        self.store("down", "--node", node)
        self.assertFalse(node.exists())
        self.assertEqual(self.store("status", "--local", self.local).stdout, "no store is running\n")
        self.store("down", "--local", self.local, code=1)

    def test_up_keeps_no_descriptor_of_the_shell(self):
        """A shell that reads from a pipe waits until it is closed everywhere, such as in a step of a CI job."""
        reading, writing = os.pipe()
        done = subprocess.run([MILLRACE, "store", "up", *map(str, self.up_args)], capture_output=True, text=True,
                              env=self.environment, timeout=PATIENCE_S, pass_fds=[writing])
        os.close(writing)
        node = Path(done.stdout.splitlines()[0].split("=", 1)[1].strip("'"))
        self.addCleanup(subprocess.run, [MILLRACE, "store", "down", "--node", node], capture_output=True)
        self.assertTrue(self.status(node)["running"])
        os.set_blocking(reading, False)
        self.assertEqual(os.read(reading, 1), b"")  # its end; BlockingIOError: the service has it open
        os.close(reading)

    def test_a_limit_on_file_sizes_refuses_long_files_and_is_named(self):
        """ulimit -f: whoever writes more gets SIGXFSZ, which ends most programs."""
        limit = 17_000  # the service's own files are shorter
        up = subprocess.run([MILLRACE, "store", "up", *map(str, self.up_args)], capture_output=True, text=True,
                            env=self.environment, timeout=PATIENCE_S,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(up.returncode, 0, up.stderr)
        node = Path(up.stdout.splitlines()[0].split("=", 1)[1].strip("'"))
        self.addCleanup(subprocess.run, [MILLRACE, "store", "down", "--node", node], capture_output=True)
        errors = ask(node, self.files)
        refused = {entry for entry, error in errors.items() if error != 0}
        self.assertEqual(refused, {i for i in self.files if self.paths[i]["bytes"] > limit})
        self.assertTrue(self.status(node)["running"])
        self.assertIn("ulimit -f", (node / "log").read_text())

    def test_run_gives_the_command_its_environment_and_returns_its_exit_code(self):
        script = 'test -S "$MILLRACE_STORE/socket" && echo "$LD_PRELOAD" && echo to stderr >&2 && exit 7'
        done = subprocess.run(self.run_words("sh", "-c", script), capture_output=True, text=True,
                              env=self.environment, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn(self.environment["MILLRACE_STORE_LIBRARY"], done.stdout)
        self.assertEqual(done.stderr, "to stderr\n")
        self.assertEqual(self.nodes(), [])

    def test_run_ends_like_a_command_that_a_signal_killed(self):
        done = subprocess.run(self.run_words("sh", "-c", "kill -USR1 $$"), env=self.environment, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, -signal.SIGUSR1)
        done = subprocess.run(self.run_words("no-such-command"), capture_output=True, text=True,
                              env=self.environment, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 127)
        self.assertIn("no-such-command", done.stderr)
        self.assertEqual(self.nodes(), [])

    def test_run_passes_sigterm_to_the_command(self):
        flag = self.folder / "flag"
        script = f'trap "echo got >> {flag}; exit 3" TERM; echo ready > {flag}; while :; do sleep 0.05; done'
        launcher = subprocess.Popen(self.run_words("sh", "-c", script), env=self.environment)
        self.addCleanup(launcher.kill)
        self.assertTrue(wait_until(flag.exists))
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual(launcher.wait(PATIENCE_S), 3)
        self.assertEqual(flag.read_text(), "ready\ngot\n")
        self.assertEqual(self.nodes(), [])

    def test_the_service_ends_when_its_launcher_is_killed(self):
        flag = self.folder / "flag"
        launcher = subprocess.Popen(self.run_words("sh", "-c", f"echo $$ > {flag}; exec sleep 100"),
                                    env=self.environment)
        self.assertTrue(wait_until(lambda: flag.exists() and flag.read_text().strip()))
        (node,) = self.nodes()
        launcher.kill()
        launcher.wait()
        self.assertTrue(wait_until(lambda: not node.exists()))
        os.kill(int(flag.read_text()), signal.SIGKILL)

    def test_run_survives_the_death_of_its_service(self):
        script = ('pid=$("$0" store status --json | python3 -c \'import json, sys; '
                  'print(json.load(sys.stdin)["stores"][0]["pid"])\'); kill -9 $pid; echo on; exit 5')
        done = subprocess.run(self.run_words("sh", "-c", script, MILLRACE), capture_output=True, text=True,
                              env=self.environment, timeout=PATIENCE_S)
        self.assertEqual((done.returncode, done.stdout), (5, "on\n"), done.stderr)
        self.assertIn("the service ended before the command", done.stderr)
        self.assertEqual(self.nodes(), [])

    @unittest.skipUnless(own_library(), "the preload library is not built")
    def test_programs_read_the_files_through_the_library(self):
        script = ('import os, sys, hashlib\n'
                  'for folder, folders, names in os.walk(sys.argv[1]):\n'
                  '    folders.sort()\n'
                  '    for name in sorted(names):\n'
                  '        with open(os.path.join(folder, name), "rb") as file:\n'
                  '            print(name, os.fstat(file.fileno()).st_mtime_ns, '
                  'hashlib.sha256(file.read()).hexdigest())\n')
        plain = subprocess.run([sys.executable, "-c", script, self.source], capture_output=True, check=True)
        for mode in ((), ("--fast",)):
            done = subprocess.run(self.run_words(sys.executable, "-c", script, self.folder / "data", options=mode),
                                  capture_output=True, env=self.environment, timeout=PATIENCE_S)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, plain.stdout, b""), mode)

    def test_a_killed_service_is_named_dead_and_its_folder_goes_with_the_next(self):
        node = self.up()
        ask(node, self.files[:3])
        os.kill(self.status(node)["pid"], signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not self.status(node)["running"]))
        self.assertIn("DEAD", self.store("status", "--node", node).stdout)
        with self.assertRaises(OSError):
            ask(node, self.files)
        other = self.up()
        self.assertFalse(node.exists())
        self.assertEqual(set(ask(other, self.files).values()), {0})

    def test_down_removes_what_a_killed_service_left(self):
        node = self.up()
        os.kill(self.status(node)["pid"], signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not self.status(node)["running"]))
        self.store("down", "--node", node)
        self.assertFalse(node.exists())

    def test_two_stores_do_not_meet(self):
        first, second = self.up(), self.up()
        ask(first, self.files[:1])
        self.assertEqual(self.status(second)["materialised"], 0)
        refused = self.store("down", "--local", self.local, code=1)
        self.assertIn("2 stores are running; choose one", refused.stderr)
        self.store("down", "--node", first)
        self.store("down", "--local", self.local)
        self.assertFalse(second.exists())

    def test_warm_fetches_what_matches_and_stops_at_the_capacity(self):
        node = self.up()
        done = self.store("warm", "--node", node, "val/*")
        self.assertIn("10 files of", done.stdout)
        self.assert_tree(node, [i for i in self.files if self.paths[i]["path"].startswith("val/")])
        self.assertEqual(self.status(node)["materialised"], 10)
        fast = self.up("--fast")
        self.assertIn("10 files of", self.store("warm", "--node", fast, "val/*").stdout)
        self.assertEqual(self.status(fast)["materialised"], 10)
        self.assertFalse((fast / "tree" / "val" / "2").exists())
        small = self.up("--capacity", "64KiB")
        done = self.store("warm", "--node", small)
        self.assertIn("the capacity is used up", done.stdout)
        self.assertLessEqual(self.status(small)["materialised_bytes"], 64 << 10)
        self.assertEqual(set(ask(small, self.files).values()) - {0}, {28})  # ENOSPC

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to mount a small file system")
    def test_a_full_disk_refuses_files_and_leaves_no_part_of_them(self):
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", self.local], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("cannot mount")
        self.addCleanup(subprocess.run, ["umount", "-l", self.local])
        node = self.up("--capacity", "1GiB")
        errors = ask(node, self.files)
        self.assertEqual(set(errors.values()), {0, 28})  # ENOSPC
        self.assert_tree(node, [i for i, error in errors.items() if error == 0])
        for i in (i for i, error in errors.items() if error != 0):
            self.assertFalse((node / "tree" / self.paths[i]["path"]).exists())
        self.assertEqual(list((node / "making").iterdir()), [])
        self.assertEqual(self.status(node)["errors"], 0)
        self.store("down", "--node", node)

    def test_a_damaged_member_is_named_by_the_log(self):
        last = self.paths[self.files[-1]]
        with open(self.packs / f"part-{last['partition']:05}.pack", "r+b") as file:
            file.seek(last["offset"])
            byte = file.read(1)
            file.seek(last["offset"])
            file.write(bytes([byte[0] ^ 1]))
        shutil.rmtree(self.source)
        node = self.up()
        self.assertEqual(ask(node, [self.files[-1]]), {self.files[-1]: 5})  # EIO
        self.assertEqual(self.status(node)["errors"], 1)
        warmed = self.store("warm", "--node", node, code=1)
        self.assertIn("1 file could not be made", warmed.stderr)
        done = self.store("down", "--node", node)
        self.assertIn(f"'{last['path']}' in part-{last['partition']:05}.pack at byte {last['offset']}", done.stderr)

    def test_a_partition_that_is_truncated_meanwhile_is_a_damaged_one(self):
        node = self.up("--origin", self.source)
        for path in self.packs.glob("*.pack"):
            os.truncate(path, 0)
        self.assertEqual(set(ask(node, self.files).values()), {0})
        self.assert_tree(node, self.files)
        self.assertTrue(self.status(node)["running"])

    def test_a_truncated_pack_without_an_origin_is_an_error_of_each_file(self):
        shutil.rmtree(self.source)
        node = self.up()
        for path in self.packs.iterdir():
            os.truncate(path, 0)
        self.assertNotIn(0, set(ask(node, self.files).values()))
        self.assertTrue(self.status(node)["running"])

    def test_the_service_ends_with_the_session_of_its_script(self):
        words = " ".join(f"'{word}'" for word in self.up_args)
        script = f'eval "$({MILLRACE} store up {words})"; test -S "$MILLRACE_STORE/socket" && echo "$MILLRACE_STORE"'
        environment = {**self.environment}
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=environment,
                              start_new_session=True, timeout=PATIENCE_S)
        node = Path(done.stdout.strip())
        self.assertEqual(node.parent.parent, self.local, done.stderr)
        self.assertTrue(wait_until(lambda: not node.exists()))

    def test_mistakes_are_named(self):
        self.assertIn("--pack DIR is missing", self.store("up", "--at", "/x", code=2).stderr)
        self.assertIn("--at PATH is missing", self.store("up", "--pack", self.packs, code=2).stderr)
        self.assertIn("no such pack", self.store("up", "--pack", self.folder / "no", "--at", "/x", "--local",
                                                 self.local, code=1).stderr)
        self.assertIn("put it after --", self.store("run", *self.up_args, code=2).stderr)
        self.assertIn("unexpected argument 'x'", self.store("list", self.packs, "--", "x", code=2).stderr)
        self.assertIn("no store is running", self.store("warm", "--local", self.local, code=1).stderr)
        self.assertEqual(self.nodes(), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
