"""The store on several hosts: files from the disks of other hosts under unmodified programs, and the failure of a service, a
link or a host."""

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

# Starts a task on each host. Like Slurm's srun, it kills all processes of the tasks at once when it gets SIGTERM.
# Arguments of format(): the hosts twice, for sh and for mpirun, and the remote shell.
SRUN = """#!/bin/bash
case $1 in --mpi=list) exit 0 ;; esac
while [ "${{1#--}}" != "$1" ]; do shift; done
trap 'echo "srun: forcing job termination" >&2; for host in {0}; do {2} $host "kill -9 -1"; done; exit 137' TERM
mpirun --map-by ppr:1:node --bind-to none --host {1} -x MILLRACE_STORE_TABLE_WANTED "$@" &
wait $!
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
        return [*self.environment(), MILLRACE, "store", action, "--pack", str(directory), "--at", ROOT,
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

    def test_what_a_program_creates_is_seen_on_all_hosts_at_once(self):
        save = self.folder / "save"
        script = self.folder / "write.py"
        script.write_text(f"""
import os, socket, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
os.makedirs("{ROOT}/out", exist_ok=True)
for step in range(20):
    with open(f"{ROOT}/out/{{rank}}.tmp", "w") as file:
        file.write(f"{{rank}} {{step}}" * 1000)
    os.rename(f"{ROOT}/out/{{rank}}.tmp", f"{ROOT}/out/{{rank}}")
    comm.Barrier()
    for other in range(size):
        assert open(f"{ROOT}/out/{{other}}").read() == f"{{other}} {{step}}" * 1000, (rank, other, step)
    assert sorted(os.listdir("{ROOT}/out")) == [str(i) for i in range(size)] + (["log"] if step else []), step
    comm.Barrier()
    with open("{ROOT}/out/log", "a") as file:
        file.write(f"{{rank}} {{step}}\\n")
    comm.Barrier()
os.symlink("../words.txt", f"{ROOT}/out/link{{rank}}")
comm.Barrier()
assert open(f"{ROOT}/out/link{{(rank + 1) % size}}").read(3) == "one"
if rank == size - 1:
    os.rename("{ROOT}/out", "{ROOT}/final")
comm.Barrier()
assert os.path.exists("{ROOT}/final/0") and not os.path.exists("{ROOT}/out")
""")
        done = self.hosts.run(LOGIN, *self.store("run", "--save", str(save), "--",
                                                 *self.on_all("/usr/bin/python3", str(script))))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_nothing_left()
        ranks = range(len(self.hosts.names))
        self.assertEqual({path.name for path in (save / "final").iterdir()},
                         {"log", *map(str, ranks), *(f"link{i}" for i in ranks)})
        self.assertEqual(sorted((save / "final" / "log").read_text().split("\n")[:-1]),
                         sorted(f"{rank} {step}" for rank in ranks for step in range(20)))

    def test_the_exit_code_is_that_of_the_command(self):
        done = self.hosts.run(LOGIN, *self.store("run", "--", "sh", "-c", "exit 7"))
        self.assertEqual(done.returncode, 7, done.stderr)
        self.check_nothing_left()

    def test_a_wrong_pack_is_reported_once(self):
        done = self.hosts.run(LOGIN, *self.store("run", "--", "true", partitions=5))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("no such pack"), 1, done.stderr)

    def test_the_services_end_before_srun_would_kill_them(self):
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / "srun").write_text(SRUN.format(" ".join(self.hosts.names), ",".join(self.hosts.names),
                                                   self.hosts.folder / "rsh"))
        (programs / "srun").chmod(0o755)
        done = self.hosts.run(LOGIN, *self.environment(
            PATH=f"{programs}:{os.environ['PATH']}", SLURM_JOB_ID="1", SLURM_JOB_NUM_NODES="3"),
            MILLRACE, "store", "run", "--pack", str(self.shared / "packs4"), "--at", ROOT, "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("srun", done.stderr)
        for name in self.hosts.names:
            self.assertEqual(self.hosts.run(name, "sh", "-c", "ls /dev/shm/millrace-store-0").stdout, "")

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

    def test_down_ends_the_rank_of_a_killed_service(self):
        """It saves what is buffered until the job ends; `down` cannot tell it."""
        save = self.folder / "save"
        rsh = self.hosts.folder / "rsh"
        script = f"""
set -e
eval "$({' '.join(['env', *self.store('up', '--save', str(save), '--buffer', 'ckpt/*')])})"
store="MILLRACE_STORE=$MILLRACE_STORE" preload="LD_PRELOAD=$LD_PRELOAD"
unset LD_PRELOAD
{rsh} node2 "kill -9 \\$(od -An -tu4 -j12 -N4 $MILLRACE_STORE/state)"
{rsh} node2 "$store $preload sh -c 'mkdir {ROOT}/ckpt; echo 1 >{ROOT}/ckpt/1'"
{rsh} node1 "$store {MILLRACE} store down" || true
for i in $(seq 300); do  # in the session, whose end would end everything
  {rsh} node2 "pgrep -f '^[^ ]*millrace store up' >/dev/null" || exit 0
  sleep 0.1
done
exit 5
"""
        done = self.hosts.run(LOGIN, "setsid", "--wait", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((save / "ckpt" / "1").read_text(), "1\n")
        self.assertEqual(self.hosts.run("node2", "sh", "-c", "ls -d /dev/shm/millrace-store-0/buffer-*").stdout, "")
        self.hosts.run("node2", "sh", "-c", "rm -rf /dev/shm/millrace-store-0/*")  # the next service there would do it

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
