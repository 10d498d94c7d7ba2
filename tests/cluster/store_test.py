"""The store on several hosts: files from the disks of other hosts under unmodified programs, and the failure of a service, a
link or a host."""

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import time
import unittest
from pathlib import Path
from typing import Optional

import hosts as cluster
from hosts import LOGIN, NETWORK, Hosts

BUILD = Path(os.environ["MILLRACE_BUILD"])
MILLRACE = str(BUILD / "bin" / "millrace")
ROOT = "/data/set"
SUMS = f"cd {ROOT} && find . -type f | sort | xargs md5sum"

# Reads all files in a random order again and again, and writes what is wrong. Ends when STOP exists.
READER = """
import hashlib, os, random, sys
root, sums, stop, report = sys.argv[1:]
wanted = dict(reversed(line.split(maxsplit=1)) for line in open(sums).read().splitlines())
names = list(wanted)
wrong = []
errors = set()
rounds = 0
open(report + ".started", "w").close()
while rounds < 2 or not os.path.exists(stop):
    random.shuffle(names)
    for name in names:
        try:
            with open(os.path.join(root, name), "rb") as file:
                if hashlib.md5(file.read()).hexdigest() != wanted[name]:
                    wrong.append(name)
        except OSError as error:
            errors.add(error.errno)
    rounds += 1
with open(report, "w") as file:
    file.write(f"{rounds} rounds, wrong {wrong}, errors {sorted(errors)}\\n")
"""


def make_source(folder: Path) -> None:
    generator = random.Random(7)
    for index in range(120):
        path = folder / f"class{index % 5}" / f"{index:04}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(generator.randbytes(generator.choice((0, 10, 5000, 130_000))))
    (folder / "words.txt").write_text("one and two and three\n" * 200_000)
    (folder / "long.bin").write_bytes(generator.randbytes((3 << 20) + 11))
    (folder / "val").mkdir()
    (folder / "val" / "every.bin").write_bytes(generator.randbytes(9000))
    (folder / "link").symlink_to("words.txt")


class StoreTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cluster.begin(cls, Hosts(3))
        cls.shared = cls.hosts.shared
        cls.source = cls.shared / "source"
        make_source(cls.source)
        cls.sums = subprocess.run(["sh", "-c", SUMS.replace(ROOT, str(cls.source))], capture_output=True, text=True,
                                  check=True).stdout
        (cls.shared / "sums").write_text(cls.sums)
        (cls.shared / "reader.py").write_text(READER)
        for partitions in (1, 4, 7):
            done = cls.hosts.run("node1", MILLRACE, "store", "pack", str(cls.source), "-o", f"packs{partitions}",
                                 "--partitions", str(partitions), "--broadcast", "val/**")
            assert done.returncode == 0, done.stderr

    def setUp(self):
        self.folder = self.shared / self._testMethodName
        self.folder.mkdir()
        for name in self.hosts.names:
            if not (self.hosts.folder / "pids" / name).exists():
                self.hosts.start(name)
            self.hosts.run(name, "sh", "-c", "rm -rf /dev/shm/millrace-store-0/rescued-*")

    def environment(self, **more: str) -> list[str]:
        mca = {"plm": "rsh", "plm_rsh_agent": str(self.hosts.folder / "rsh"), "oob_tcp_if_include": NETWORK,
               "btl_tcp_if_include": NETWORK, "btl": "self,vader,tcp", "pml": "ob1", "mpi_yield_when_idle": "1"}
        variables = {"MILLRACE_STORE_PEER_DEADLINE_MS": "2000", **more}
        return [*(f"OMPI_MCA_{name}={value}" for name, value in mca.items()),
                *(f"{name}={value}" for name, value in variables.items()), "OMPI_ALLOW_RUN_AS_ROOT=1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]

    def store(self, action: str, *arguments: str, partitions: int = 4, origin: Optional[str] = None,
              packs: Optional[Path] = None) -> list[str]:
        directory = packs or self.shared / f"packs{partitions}"
        return [*self.environment(), MILLRACE, "store", action, "--packs", str(directory), "--at", ROOT,
                "--hosts", ",".join(self.hosts.names), *(("--origin", origin) if origin else ()), *arguments]

    def on_all(self, *command: str) -> list[str]:
        """A command line for each host, run by mpirun, which the store has to get through."""
        return ["mpirun", "--map-by", "ppr:1:node", "--bind-to", "none", "--host", ",".join(self.hosts.names), *command]

    def check_nothing_left(self) -> None:
        def folders() -> list[str]:
            return [line for name in self.hosts.names
                    for line in self.hosts.run(name, "sh", "-c", "ls -d /dev/shm/millrace-store-0/*").stdout.split()]
        cluster.wait_until(lambda: not folders(), "the services to end")

    # ---- everything works ---------------------------------------------------------------------------------

    def check_identical(self, partitions: int, *arguments: str) -> None:
        """All files are the same on every host, and programs are not changed."""
        script = self.folder / "sums.sh"
        script.write_text(f"({SUMS}) > {self.folder}/$(hostname).sums; ls -lR {ROOT} > {self.folder}/$(hostname).list\n")
        done = self.hosts.run(LOGIN, *self.store("run", *arguments, "--", *self.on_all("sh", str(script)),
                                                 partitions=partitions))
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in self.hosts.names:
            self.assertEqual((self.folder / f"{name}.sums").read_text(), self.sums, name)
        self.assertEqual(len({(self.folder / f"{name}.list").read_text() for name in self.hosts.names}), 1)
        self.assertNotIn("millrace: ", done.stderr)
        self.check_nothing_left()

    def test_four_partitions_on_three_hosts(self):
        self.check_identical(4)

    def test_one_partition_on_three_hosts(self):
        self.check_identical(1)

    def test_seven_partitions_with_replicas(self):
        self.check_identical(7, "--replicas", "2")

    def test_what_a_program_creates_is_saved_and_seen_on_all_hosts(self):
        save = self.folder / "save"
        script = self.folder / "write.sh"
        others = " ".join(f"{ROOT}/out/{name}" for name in self.hosts.names)
        script.write_text(f"mkdir -p {ROOT}/out; hostname > {ROOT}/out/$(hostname).tmp\n"
                          f"mv {ROOT}/out/$(hostname).tmp {ROOT}/out/$(hostname)\n"
                          f"for i in $(seq 600); do ls {others} > /dev/null 2>&1 && break; sleep 0.05; done\n"
                          f"cat {others} > {self.folder}/$(hostname).seen; test ! -w {ROOT}/words.txt\n")
        done = self.hosts.run(LOGIN, *self.store("run", "--save", str(save), "--", *self.on_all("sh", str(script))))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_nothing_left()  # the services have saved everything
        wanted = "".join(f"{name}\n" for name in self.hosts.names)
        for name in self.hosts.names:
            self.assertEqual((self.folder / f"{name}.seen").read_text(), wanted, name)
            self.assertEqual((save / "out" / name).read_text(), f"{name}\n")
            self.assertFalse((save / "out" / name).is_symlink())
        self.assertEqual({path.name for path in (save / "out").iterdir()}, set(self.hosts.names))

    def test_a_created_file_is_seen_on_all_hosts_before_it_is_saved(self):
        save = self.folder / "save"
        self.start_services("--save", str(save))
        self.block(save)
        self.on("node1", f"""
import os
os.makedirs("{ROOT}/out/deep")
with open("{ROOT}/out/part.tmp", "wb") as file:
    file.write(bytes(range(256)) * 20000 + b"end")
os.chmod("{ROOT}/out/part.tmp", 0o640)
os.utime("{ROOT}/out/part.tmp", ns=(5, 1700000000123456789))
os.rename("{ROOT}/out/part.tmp", "{ROOT}/out/model.pt")
open("{ROOT}/out/deep/empty", "w").close()
open("{ROOT}/top", "w").write("top")
""")
        look = f"""
import os
for found in (os.stat("{ROOT}/out/model.pt"), os.lstat("{ROOT}/out/model.pt")):
    print(found.st_size, oct(found.st_mode), found.st_mtime_ns)
print(sorted(os.listdir("{ROOT}/out")), os.path.islink("{ROOT}/top"), os.access("{ROOT}/top", os.R_OK))
print(sorted((e.name, e.is_file(follow_symlinks=False)) for e in os.scandir("{ROOT}/out")))
print(os.path.realpath("{ROOT}/top"), os.stat("{ROOT}/out/deep/empty").st_size)
"""
        wanted = ("5120003 0o100640 1700000000123456789\n" * 2 + "['deep', 'model.pt'] False True\n"
                  + "[('deep', False), ('model.pt', True)]\n" + f"{ROOT}/top 0\n")
        for name in ("node2", "node3"):
            self.assertEqual(self.on(name, look), wanted, name)
        # The bytes are on node1 only. A program without the library fails.
        raw = self.hosts.run("node3", "cat", f"{self.node}/tree/out/model.pt")
        self.assertNotEqual(raw.returncode, 0)
        self.assertEqual(raw.stdout, "")
        self.assertEqual([(f["path"], f["state"]) for f in self.status("node3")["elsewhere"]],
                         [("out/deep/empty", "LOCAL"), ("out/model.pt", "LOCAL"), ("top", "LOCAL")])
        tools = self.hosts.run("node2", *self.client(), "sh", "-ec", f"""
cp -rp {ROOT}/out /tmp/out; md5sum < /tmp/out/model.pt; stat -c '%s %a %Y' /tmp/out/model.pt
tail -c 3 {ROOT}/out/model.pt; find {ROOT}/out -type f | sort; cat {ROOT}/top; rm -r /tmp/out""")
        content = bytes(range(256)) * 20000 + b"end"
        self.assertEqual(tools.stdout, f"{hashlib.md5(content).hexdigest()}  -\n5120003 640 1700000000\nend"
                         f"{ROOT}/out/deep/empty\n{ROOT}/out/model.pt\ntop", tools.stderr)
        self.unblock(save)
        self.wait_until_saved()

    def test_what_happens_to_a_created_file_happens_on_all_hosts(self):
        save = self.folder / "save"
        self.start_services("--save", str(save))
        self.block(save)
        content = bytes(range(256)) * 20000
        self.on("node1", f"""
import os
os.makedirs("{ROOT}/out/deep")
open("{ROOT}/out/model.pt", "wb").write(bytes(range(256)) * 20000)
open("{ROOT}/out/deep/empty", "w").close()
open("{ROOT}/top", "w").write("top")
""")
        self.on("node2", f'open("{ROOT}/out/model.pt", "rb").read()')
        self.on("node1", f"""
import os
os.rename("{ROOT}/out", "{ROOT}/final")
open("{ROOT}/new", "w").write("the second")
os.rename("{ROOT}/new", "{ROOT}/top")
os.remove("{ROOT}/final/deep/empty")
""")
        look = f"""
import os, hashlib
print(open("{ROOT}/top").read(), os.path.exists("{ROOT}/out/model.pt"), os.path.exists("{ROOT}/new"),
      os.path.exists("{ROOT}/final/deep/empty"),
      hashlib.md5(open("{ROOT}/final/model.pt", "rb").read()).hexdigest())
"""
        wanted = f"the second False False False {hashlib.md5(content).hexdigest()}\n"
        for name in ("node2", "node3"):
            self.assertEqual(self.on(name, look), wanted, name)
        # A file of another host can be replaced, and then belongs to this one.
        self.on("node2", f'open("{ROOT}/top", "w").write("of node2")')
        for name in ("node1", "node3"):
            self.assertEqual(self.on(name, f'print(open("{ROOT}/top").read())'), "of node2\n")
        self.unblock(save)
        self.wait_until_saved()
        self.stop()
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 0, self.text())
        self.check_nothing_left()
        self.assertEqual((save / "top").read_text(), "of node2")
        self.assertEqual((save / "final" / "model.pt").read_bytes(), content)

    def test_a_symbolic_link_is_seen_on_all_hosts_before_it_is_saved(self):
        save = self.folder / "save"
        self.start_services("--save", str(save))
        self.block(save)
        self.on("node1", f"""
import os
os.makedirs("{ROOT}/out/step1")
open("{ROOT}/out/step1/model", "w").write("first")
os.symlink("step1", "{ROOT}/out/latest")
os.symlink("{ROOT}/words.txt", "{ROOT}/out/words")
os.link("{ROOT}/out/step1/model", "{ROOT}/out/same")
""")
        look = f"""
import os
print(os.readlink("{ROOT}/out/latest"), open("{ROOT}/out/latest/model").read(), os.path.islink("{ROOT}/out/latest"),
      os.lstat("{ROOT}/out/latest").st_mtime_ns, os.path.getsize("{ROOT}/out/words"), open("{ROOT}/out/same").read(),
      sorted((e.name, e.is_symlink()) for e in os.scandir("{ROOT}/out")))
"""
        wanted = self.on("node1", look)
        self.assertIn("step1 first True", wanted)
        for name in ("node2", "node3"):
            self.assertEqual(self.on(name, look), wanted, name)
        # Any host replaces it.
        self.on("node2", f"""
import os
os.makedirs("{ROOT}/out/step2")
open("{ROOT}/out/step2/model", "w").write("second")
os.symlink("step2", "{ROOT}/out/latest.tmp")
os.rename("{ROOT}/out/latest.tmp", "{ROOT}/out/latest")
""")
        for name in self.hosts.names:
            self.assertEqual(self.on(name, f'print(open("{ROOT}/out/latest/model").read())'), "second\n", name)
        self.unblock(save)
        self.wait_until_saved()
        self.stop()
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 0, self.text())
        self.assertEqual(os.readlink(save / "out/latest"), "step2")
        self.assertEqual(os.readlink(save / "out/words"), f"{ROOT}/words.txt")
        self.check_nothing_left()

    def test_any_host_appends_to_what_another_one_created(self):
        save = self.folder / "save"
        self.start_services("--save", str(save))
        self.block(save)
        self.on("node1", f"""
import os
open("{ROOT}/log", "w").write("node1 ")
open("{ROOT}/state", "wb").write(bytes(3000000))
open("{ROOT}/short", "w").write("123456789")
open("{ROOT}/full", "w").write("old")
os.chmod("{ROOT}/full", 0o640)
open("{ROOT}/over", "w").write("old")
""")
        self.on("node2", f"""
import os
open("{ROOT}/log", "a").write("node2 ")
with open("{ROOT}/state", "r+b") as file:
    file.seek(2000000)
    file.write(b"resumed")
os.truncate("{ROOT}/short", 4)
open("{ROOT}/full", "w").write("new")
open("{ROOT}/tmp", "w").write("new")
os.utime("{ROOT}/tmp", ns=(5, 1700000000123456789))
os.rename("{ROOT}/tmp", "{ROOT}/over")
""")
        self.assertEqual(self.hosts.run("node3", *self.client(), "sh", "-c", f"printf node3 >> {ROOT}/log").returncode, 0)
        self.on("node3", f'import os; os.chmod("{ROOT}/short", 0o600)')
        look = f"""
import os, hashlib
print([open("{ROOT}/" + name).read() for name in ("log", "short", "full", "over")],
      hashlib.md5(open("{ROOT}/state", "rb").read()).hexdigest(),
      [oct(os.stat("{ROOT}/" + name).st_mode) for name in ("short", "full")])
"""
        state = bytes(2000000) + b"resumed" + bytes(999993)
        wanted = (f"['node1 node2 node3', '1234', 'new', 'new'] {hashlib.md5(state).hexdigest()} "
                  "['0o100600', '0o100640']\n")
        for name in self.hosts.names:
            self.assertEqual(self.on(name, look), wanted, name)
        self.assertNotIn("at the same time", self.text())
        self.unblock(save)
        self.wait_until_saved()
        self.stop()
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 0, self.text())
        self.check_nothing_left()
        self.assertEqual((save / "log").read_text(), "node1 node2 node3")
        self.assertEqual((save / "state").read_bytes(), state)
        self.assertEqual(((save / "short").read_text(), (save / "over").read_text()), ("1234", "new"))

    def test_a_created_file_is_lost_with_its_host_unless_it_was_read(self):
        save = self.folder / "save"
        # What the next service there would rescue.
        self.addCleanup(self.hosts.run, "node2", "sh", "-c", "rm -rf /dev/shm/millrace-store-0/*")
        self.start_services("--save", str(save))
        self.block(save)
        self.on("node2", f'open("{ROOT}/mine", "w").write("of node2"); open("{ROOT}/other", "w").write("x")')
        read = f'print(open("{ROOT}/mine").read())'
        self.assertEqual(self.on("node1", read), "of node2\n")
        self.hosts.run("node2", "kill", "-9", self.service_pid("node2"))
        self.assertEqual(self.on("node1", read), "of node2\n")
        done = self.hosts.run("node3", *self.client(), "cat", f"{ROOT}/mine")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Input/output error", done.stderr)
        self.assertIn(f"{ROOT}/mine is not durable yet, and its bytes are only on the node of rank 1", done.stderr)
        line = "node3: mine: its 8 B are only on node2 (rank 1) and cannot be fetched: "
        cluster.wait_until(lambda: line in self.text(), "the log")
        self.assertEqual([(f["path"], f["rank"], f["state"]) for f in self.status("node3")["elsewhere"]],
                         [("mine", 1, "LOST"), ("other", 1, "LOST")])
        status = self.hosts.run("node3", f"MILLRACE_STORE={self.node}", MILLRACE, "store", "status").stdout
        self.assertIn("LOST      mine, 8 B, on node2 (rank 1)", status)
        self.unblock(save)
        self.stop()
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 1, self.text())
        self.assertIn("files of node2 (rank 1) are not durable:\nmillrace: store:   mine, 8 B\n", self.text())

    def test_any_host_removes_and_renames_what_another_one_created(self):
        save = self.folder / "save"
        self.start_services("--save", str(save))
        self.on("node1", f"""
import os
os.makedirs("{ROOT}/steps/1")
os.makedirs("{ROOT}/steps/2")
for step in (1, 2):
    open("{ROOT}/steps/%d/model" % step, "w").write("step %d" % step)
""")
        # A directory that one host has made is there for the next one.
        self.on("node2", f'open("{ROOT}/steps/1/rank1", "w").write("r"); open("{ROOT}/steps/2/rank1", "w").write("s")')
        self.hosts.run("node2", f"MILLRACE_STORE={self.node}", MILLRACE, "store", "flush", "--wait")
        self.assertEqual((save / "steps/1/model").read_text(), "step 1")
        done = self.hosts.run("node3", *self.client(), "sh", "-ec", f"rm -r {ROOT}/steps/1; mv {ROOT}/steps/2 {ROOT}/best; "
                              f"mv {ROOT}/best/model {ROOT}/best/final; mv {ROOT}/best/rank1 /dev/shm/taken; "
                              "cat /dev/shm/taken; rm /dev/shm/taken")
        self.assertEqual((done.returncode, done.stdout), (0, "s"), done.stderr)
        look = f"""
import os
print(sorted(os.listdir("{ROOT}/steps")), sorted(os.listdir("{ROOT}/best")), open("{ROOT}/best/final").read())
"""
        for name in self.hosts.names:
            self.assertEqual(self.on(name, look), "[] ['final'] step 2\n", name)
        self.stop()
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 0, self.text())
        found = sorted(str(path.relative_to(save)) for path in save.rglob("*") if path.is_file())
        self.assertEqual(found, ["best/final"], self.text())
        self.assertEqual((save / "best/final").read_text(), "step 2")
        self.assertFalse((save / "steps/1").exists())

    def test_a_rename_publishes_a_file_as_a_whole(self):
        """Readers on other hosts see the old file or the new one."""
        save = self.folder / "save"
        self.start_services("--save", str(save))
        self.block(save)
        self.on("node1", f'open("{ROOT}/latest", "w").write("0" * 1000)')
        reader = f"""
import os
seen = set()
while "last" not in seen:
    text = open("{ROOT}/latest").read()
    assert len(set(text)) == 1 and len(text) == 1000 + 70000 * int(text[0]), (len(text), set(text))
    seen.add(text[0])
    if text[0] == "9":
        seen.add("last")
print("whole")
"""
        readers = [subprocess.Popen(self.hosts.command(name, *self.client(), "timeout", "120", "/usr/bin/python3", "-c",
                                                       reader),
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for name in ("node2", "node3")]
        self.on("node1", f"""
import os
for step in [*range(9)] * 20 + [9]:
    with open("{ROOT}/latest.tmp", "w") as file:
        file.write(str(step) * (1000 + 70000 * step))
    os.rename("{ROOT}/latest.tmp", "{ROOT}/latest")
""")
        for process in readers:
            out, err = process.communicate(timeout=cluster.PATIENCE_S)
            self.assertEqual((process.returncode, out), (0, "whole\n"), (err, self.text()))
        self.unblock(save)
        self.wait_until_saved()

    def test_a_killed_program_leaves_what_it_wrote(self):
        save = self.folder / "save"
        self.start_services("--save", str(save))
        writer = subprocess.Popen(self.hosts.command("node1", *self.client(), "/usr/bin/python3", "-c", f"""
import time
file = open("{ROOT}/checkpoint", "wb")
file.write(bytes(3000000))
file.flush()
open("{self.folder}/written", "w").close()
time.sleep(1000)
"""), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.addCleanup(writer.wait)
        cluster.wait_until(lambda: (self.folder / "written").exists(), "the writer")
        self.assertEqual(self.on("node2", f'import os; print(os.path.exists("{ROOT}/checkpoint"))'), "False\n")
        self.hosts.run("node1", "pkill", "-9", "-f", "time.sleep.1000")
        self.on("node2", f"""
import os, time
while not os.path.exists("{ROOT}/checkpoint"):
    time.sleep(0.01)
assert open("{ROOT}/checkpoint", "rb").read() == bytes(3000000)
""")
        self.stop()
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 0, self.text())
        self.assertEqual((save / "checkpoint").read_bytes(), bytes(3000000))

    def created(self, name: str) -> dict[str, str]:
        return {file["path"]: file["state"] for file in self.status(name)["created"]}

    def test_a_service_that_is_killed_while_it_saves_loses_nothing_durable(self):
        save = self.folder / "save"
        # What the next service there would rescue.
        self.addCleanup(self.hosts.run, "node2", "sh", "-c", "rm -rf /dev/shm/millrace-store-0/*")
        self.start_services("--save", str(save))
        self.on("node2", f'open("{ROOT}/first", "w").write("durable"); open("{ROOT}/second", "w").write("too")')
        self.hosts.run("node2", f"MILLRACE_STORE={self.node}", MILLRACE, "store", "flush", "--wait")
        self.assertEqual(self.created("node2"), {"first": "DURABLE", "second": "DURABLE"})
        self.on("node2", f'open("{ROOT}/big", "wb").write(bytes(range(256)) * 250000)')
        # In the middle of the copy, if it is not too fast.
        cluster.wait_until(lambda: any(save.glob(".millrace-*")) or (save / "big").exists(), "the copy")
        self.hosts.run("node2", "kill", "-9", self.service_pid("node2"))
        states = self.created("node2")
        self.assertEqual((states["first"], states["second"]), ("DURABLE", "DURABLE"))
        self.assertEqual((save / "first").read_text(), "durable")
        if states["big"] == "DURABLE" or (save / "big").exists():
            self.assertEqual((save / "big").read_bytes(), bytes(range(256)) * 250000)
        self.assertEqual(self.on("node1", f'print(open("{ROOT}/first").read())'), "durable\n")
        self.stop()
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 0 if states["big"] == "DURABLE" else 1, self.text())
        if states["big"] != "DURABLE":
            self.assertIn("files of node2 (rank 1) are not durable:\nmillrace: store:   big, 61 MiB\n", self.text())

    def test_a_rank_that_is_killed_while_files_are_saved_loses_nothing(self):
        save = self.folder / "save"
        self.start_services("--save", str(save))
        self.on("node2", f'open("{ROOT}/model", "wb").write(bytes(range(256)) * 250000)')
        service = self.service_pid("node2")
        for rank in self.hosts.run("node2", "pgrep", "-f", "store up").stdout.split():
            if rank != service:
                self.hosts.run("node2", "kill", "-9", rank)
        # Its service ends, because no program uses it, and saves everything before that.
        self.assertEqual(self.on("node1", f'print(len(open("{ROOT}/model", "rb").read()))'), "64000000\n")
        self.stop()
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 0, self.text())
        self.check_nothing_left()
        self.assertEqual((save / "model").read_bytes(), bytes(range(256)) * 250000)

    def test_the_end_of_a_run_on_a_host_without_a_service_waits_until_all_is_durable(self):
        save = self.folder / "save"
        script = self.folder / "write.sh"
        script.write_text(f"head -c 20000000 /dev/zero > {ROOT}/$(hostname)\n")
        done = self.hosts.run(LOGIN, *self.store("run", "--save", str(save), "--", *self.on_all("sh", str(script))))
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in self.hosts.names:
            self.assertEqual((save / name).stat().st_size, 20000000, name)
        # A place to save to that cannot be used is a failure, on whatever host it happens.
        script.write_text(f"rm -rf {save}; touch {save}; mkdir {ROOT}/new; echo text > {ROOT}/new/file\n")
        done = self.hosts.run(LOGIN, *self.store("run", "--save", str(save), "--", "mpirun", "-n", "1", "--host", "node2",
                                                 "sh", str(script)))
        self.assertEqual(done.returncode, 1, done.stderr)
        rescued = "ls /dev/shm/millrace-store-0/rescued-*/new/file && rm -r /dev/shm/millrace-store-0/rescued-*"
        cluster.wait_until(lambda: self.hosts.run("node2", "sh", "-c", rescued).returncode == 0, "the rescue")
        self.check_nothing_left()

    def block(self, save: Path) -> None:
        """Nothing can be saved any more."""
        save.rename(f"{save}.away")
        save.touch()

    def unblock(self, save: Path) -> None:
        save.unlink()
        Path(f"{save}.away").rename(save)

    def wait_until_saved(self) -> None:
        """A service whose last try was before unblock() may end without another one, and then keeps its files in a folder that
        the next test waits for."""
        flush = (f"MILLRACE_STORE={self.node}", MILLRACE, "store", "flush", "--wait")
        for name in self.hosts.names:
            cluster.wait_until(lambda: self.hosts.run(name, *flush).returncode == 0, f"the files of {name} to be saved")

    def on(self, name: str, script: str) -> str:
        """The output of a Python program on a host, in the store."""
        done = self.hosts.run(name, *self.client(), "timeout", "120", "/usr/bin/python3", "-c", script)
        self.assertEqual(done.returncode, 0, (done.stderr, self.text()))
        return done.stdout

    def status(self, name: str) -> dict:
        done = self.hosts.run(name, f"MILLRACE_STORE={self.node}", MILLRACE, "store", "status", "--json")
        return json.loads(done.stdout)["stores"][0]

    def test_the_exit_code_is_that_of_the_command(self):
        done = self.hosts.run(LOGIN, *self.store("run", "--", "sh", "-c", "exit 7"))
        self.assertEqual(done.returncode, 7, done.stderr)
        self.check_nothing_left()

    def test_a_wrong_pack_is_reported_once(self):
        done = self.hosts.run(LOGIN, *self.store("run", "--", "true", partitions=5))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("no such pack"), 1, done.stderr)

    def test_up_status_and_down_in_steps(self):
        rsh = self.hosts.folder / "rsh"
        script = f"""
set -e
eval "$({' '.join(['env', *self.store('up')])})"
store="MILLRACE_STORE=$MILLRACE_STORE" preload="LD_PRELOAD=$LD_PRELOAD"
unset LD_PRELOAD MILLRACE_STORE
{rsh} node2 "$store $preload sh -c 'ls {ROOT}/class1; cat {ROOT}/words.txt {ROOT}/class*/*' >/dev/null"
{rsh} node2 "$store {MILLRACE} store status --json"
{rsh} node2 "$store {MILLRACE} store down"
"""
        done = self.hosts.run(LOGIN, "setsid", "--wait", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        status = json.loads(done.stdout)["stores"][0]
        self.assertEqual([node["name"] for node in status["nodes"]], [f"node{i + 1} (rank {i})" for i in range(3)])
        self.assertTrue(all(node["answers"] for node in status["nodes"]))
        self.assertGreater(status["from_peers"], 40)
        self.assertEqual(status["from_origin"], 0)
        self.check_nothing_left()

    # ---- something fails ------------------------------------------------------------------------------

    def start_services(self, *arguments: str, origin: Optional[str] = None, packs: Optional[Path] = None) -> None:
        """Starts services that stay until `self.folder/stop` exists."""
        job = f"{random.getrandbits(64):016x}"
        self.node = f"/dev/shm/millrace-store-0/{job}"
        self.log = cluster.begin(self, open(self.folder / "log", "wb"))
        # Not on a host that fails.
        up = subprocess.Popen(self.hosts.command(LOGIN, *self.store(
            "run", "--job", job, *arguments, "--", "sh", "-c",
            f"touch {self.folder}/ready; while [ ! -e {self.folder}/stop ]; do sleep 0.05; done", origin=origin,
            packs=packs)),
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.addCleanup(up.wait)
        self.addCleanup(self.stop)
        self.up = up
        cluster.wait_until(lambda: (self.folder / "ready").exists() or up.poll() is not None, "the services")
        self.assertIsNone(up.poll(), (self.folder / "log").read_text())

    def start_readers(self, *arguments: str, origin: Optional[str] = None) -> None:
        """Starts services, and programs on all hosts that read until `self.folder/stop` exists. The programs are not started
        by mpirun, because it would end them all with the first one."""
        self.start_services(*arguments, origin=origin)
        self.readers = {name: self.start_reader(name) for name in self.hosts.names}
        for name in self.hosts.names:
            cluster.wait_until(lambda: (self.folder / f"{name}.started").exists(), f"the reader of {name}")

    def client(self) -> tuple[str, str]:
        return f"MILLRACE_STORE={self.node}", f"LD_PRELOAD={BUILD / 'lib' / 'libmillrace_store.so'}"

    def start_reader(self, name: str) -> subprocess.Popen:
        reader = subprocess.Popen(self.hosts.command(
            name, *self.client(), "/usr/bin/python3", "reader.py", ROOT, "sums", str(self.folder / "stop"),
            str(self.folder / name)),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log)
        self.addCleanup(reader.wait)
        return reader

    def stop(self) -> None:
        (self.folder / "stop").touch()

    def service_pid(self, name: str) -> str:
        """Of the service, on its host."""
        state = self.hosts.run(name, "sh", "-c", f"od -An -tu4 -j12 -N4 {self.node}/state").stdout
        return state.strip()

    def check_reports(self, *names: str, errors: str = "[]") -> None:
        self.stop()
        for name in names:
            self.assertEqual(self.readers[name].wait(timeout=cluster.PATIENCE_S), 0, name)
            report = (self.folder / name).read_text()
            self.assertRegex(report, rf"^\d+ rounds, wrong \[\], errors {re.escape(errors)}$", (name, self.text()))

    def text(self) -> str:
        return (self.folder / "log").read_text()

    def test_a_killed_service_is_replaced_by_its_replica(self):
        self.start_readers("--replicas", "2", origin=str(self.source))
        self.hosts.run("node2", "kill", "-9", self.service_pid("node2"))
        time.sleep(1)
        self.check_reports(*self.hosts.names)
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 0, self.text())
        self.assertIn("the service of node2 was killed by signal 9", self.text())

    def test_a_killed_service_without_a_replica(self):
        self.start_readers(origin=str(self.source))
        self.hosts.run("node3", "kill", "-9", self.service_pid("node3"))
        time.sleep(1)
        self.check_reports(*self.hosts.names)
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 0, self.text())

    def test_a_host_behind_a_cut_cable(self):
        self.addCleanup(self.hosts.kill, "node3")  # with the daemon of mpirun that was left there; the next test starts it anew
        self.start_readers(origin=str(self.source))
        self.hosts.cut("node3")
        time.sleep(5)
        self.check_reports(*self.hosts.names)

    def test_a_host_that_loses_power(self):
        self.start_readers(origin=str(self.source))
        self.hosts.kill("node2")
        time.sleep(5)
        self.check_reports("node1", "node3")

    def own_packs(self) -> Path:
        """A pack of which each host has only its own partitions, on its own disk. What was packed is gone."""
        source = self.folder / "source"
        shutil.copytree(self.source, source, symlinks=True)
        packs = self.folder / "packs"
        done = self.hosts.run("node1", MILLRACE, "store", "pack", str(source), "-o", str(packs), "--partitions", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.rmtree(source)
        own = self.hosts.local / "packs"
        for rank, name in enumerate(self.hosts.names):
            parts = [f"{packs}/part-{number:05}.pack" for number in range(rank, 4, 3)]
            done = self.hosts.run(name, "sh", "-ec",
                                  f"rm -rf {own}; mkdir {own}; cp {packs}/catalogue {' '.join(parts)} {own}")
            self.assertEqual(done.returncode, 0, done.stderr)
        shutil.rmtree(packs)
        return own

    def test_without_replica_pack_and_origin_the_error_names_file_and_host(self):
        self.start_services(packs=self.own_packs())
        done = self.hosts.run("node3", *self.client(), "sh", "-c", SUMS)
        self.assertEqual(done.stdout, self.sums, done.stderr)
        self.hosts.run("node2", "kill", "-9", self.service_pid("node2"))
        done = self.hosts.run("node1", *self.client(), "sh", "-c", SUMS)
        self.assertIn("Input/output error", done.stderr)
        lines = [line for line in done.stdout.splitlines() if line]
        self.assertTrue(lines and set(lines) < set(self.sums.splitlines()))  # the others are right
        self.assertRegex(self.text(), r"node1: '[^']+' in part-00001.pack at byte \d+: node2 \(rank 1\): ")
        self.assertEqual(len(re.findall(r"node1: node2 \(rank 1\) is lost", self.text())), 1)
        self.stop()
        self.assertEqual(self.up.wait(timeout=cluster.PATIENCE_S), 0, self.text())

    def test_a_killed_launcher_leaves_nothing_behind(self):
        self.start_readers(origin=str(self.source))
        launchers = self.hosts.run(LOGIN, "pgrep", "-f", "^[^ ]*millrace store run").stdout.split()
        self.hosts.run(LOGIN, "kill", "-9", min(launchers, key=int))  # the other one is the keeper
        self.check_reports(*self.hosts.names)
        self.check_nothing_left()

    def test_a_rank_that_is_killed_does_not_end_the_services(self):
        self.start_readers(origin=str(self.source))
        ranks = self.hosts.run("node1", "pgrep", "-f", "store up").stdout.split()
        service = self.service_pid("node1")
        others = {name: self.service_pid(name) for name in ("node2", "node3")}
        for rank in ranks:
            if rank != service:
                self.hosts.run("node1", "kill", "-9", rank)
        time.sleep(4)
        for name, pid in others.items():
            self.assertEqual(self.hosts.run(name, "kill", "-0", pid).returncode, 0, (name, self.text()))
        self.check_reports(*self.hosts.names)
        self.check_nothing_left()


if __name__ == "__main__":
    cluster.run_tests()
