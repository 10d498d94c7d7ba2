"""Tests of the hosts themselves: they are separate, connected, and removed at the end."""

import errno
import os
import select
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import hosts as cluster
from hosts import Hosts

# Makes hosts, prints their folder and the first process, and waits to be killed.
OWNER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from hosts import Hosts
with Hosts(2) as hosts:
    print(hosts.folder, hosts._number_of_login, flush=True)
    time.sleep(3600)
"""


class HostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cluster.begin(cls, Hosts(3))

    def ask(self, name: str, command: str) -> str:
        done = self.hosts.run(name, "sh", "-c", command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_each_host_has_its_own_name_boot_id_and_processes(self):
        self.assertEqual([self.ask(name, "hostname") for name in self.hosts.names], ["node1", "node2", "node3"])
        boots = {self.ask(name, "cat /proc/sys/kernel/random/boot_id") for name in (*self.hosts.names, cluster.LOGIN)}
        self.assertEqual(len(boots), 4)
        self.assertEqual({self.ask(name, "cat /proc/1/comm") for name in self.hosts.names}, {"cat"})

    def test_each_host_has_its_own_clock(self):
        read = "python3 -c 'import time; print(time.monotonic(), time.time())'"
        for name in self.hosts.names:
            monotonic, wall = map(float, self.ask(name, read).split())
            here = time.monotonic() - (time.time() - wall)
            self.assertAlmostEqual(monotonic - here, self.hosts.clock_offset_s(name), delta=1)

    def test_each_host_has_its_own_disk_and_temporary_files(self):
        for place in (str(self.hosts.local), "/tmp", "/dev/shm"):
            for name in self.hosts.names:
                self.assertEqual(self.ask(name, f"ls {place} | grep -c mine- || true"), "0")
                self.ask(name, f"echo {name} >{place}/mine-{name}")
        self.assertFalse(list(self.hosts.local.iterdir()))

    def test_a_disk_may_be_full(self):
        with Hosts(1, disk_bytes=1 << 20) as small:
            done = small.run("node1", "dd", "if=/dev/zero", f"of={small.local}/file", "bs=1M", "count=2")
            self.assertIn("No space left on device", done.stderr)

    def test_all_share_a_folder(self):
        self.ask("node1", f"echo hello >{self.hosts.shared}/from_node1")
        self.assertEqual(self.ask("node3", f"cat {self.hosts.shared}/from_node1"), "hello")
        self.assertEqual((self.hosts.shared / "from_node1").read_text(), "hello\n")

    def test_ranks_run_on_all_hosts_in_order(self):
        os.environ["HIDDEN"] = "yes"
        self.addCleanup(os.environ.pop, "HIDDEN")
        done = self.hosts.mpirun("sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname) $COLOUR $HIDDEN",
                                 ranks_per_host=2, environment={"COLOUR": "blue"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"{rank} node{1 + rank // 2} blue" for rank in range(6)])

    def test_the_network_is_not_visible_outside(self):
        links = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("10.53.", links)
        self.assertFalse([name for name in ("switch", *self.hosts.names) if f" {name} " in links])


class TroubleTest(unittest.TestCase):
    # Whether node2 answers node1: it refuses the connection.
    REACH = "import socket, sys; s = socket.socket(); s.settimeout(int(sys.argv[1])); print(s.connect_ex(('node2', 9)))"

    def setUp(self):
        self.hosts = cluster.begin(self, Hosts(2))

    def reaches(self, within_s: int) -> bool:
        done = self.hosts.run("node1", sys.executable, "-c", self.REACH, str(within_s))
        self.assertEqual(done.stderr, "")
        return int(done.stdout) == errno.ECONNREFUSED

    def assert_reached(self) -> None:
        cluster.wait_until(lambda: self.reaches(within_s=10), "an answer of node2")

    def assert_not_reached(self) -> None:
        self.assertFalse(self.reaches(within_s=2))

    def test_a_cut_link_can_be_restored(self):
        self.assert_reached()
        self.hosts.cut("node2")
        self.assert_not_reached()
        self.hosts.reconnect("node2")
        self.assert_reached()

    def test_a_killed_host_comes_back_with_its_disk(self):
        self.hosts.run("node2", "sh", "-c", f"echo kept >{self.hosts.local}/file; echo lost >/tmp/file")
        sleeper = subprocess.Popen(self.hosts.command("node2", "sleep", "3600"))
        self.hosts.kill("node2")
        self.assertNotEqual(sleeper.wait(timeout=cluster.PATIENCE_S), 0)
        self.assert_not_reached()
        done = self.hosts.mpirun("hostname")
        self.assertNotEqual(done.returncode, 0)
        self.hosts.start("node2")
        self.assert_reached()
        self.assertEqual(self.hosts.run("node2", "cat", f"{self.hosts.local}/file").stdout, "kept\n")
        self.assertNotEqual(self.hosts.run("node2", "cat", "/tmp/file").returncode, 0)
        self.assertEqual(sorted(self.hosts.mpirun("hostname").stdout.split()), ["node1", "node2"])


class EndTest(unittest.TestCase):
    def start_owner(self) -> tuple[subprocess.Popen, Path, int]:
        owner = subprocess.Popen([sys.executable, "-c", OWNER, str(Path(__file__).parent)], stdout=subprocess.PIPE,
                                 text=True)
        self.addCleanup(owner.stdout.close)
        self.addCleanup(owner.wait)
        self.addCleanup(owner.kill)
        folder, number = owner.stdout.readline().split()
        return owner, Path(folder), int(number)

    def test_a_killed_owner_leaves_nothing(self):
        owner, folder, first = self.start_owner()
        self.assertTrue(folder.is_dir())
        end = os.pidfd_open(first)
        self.addCleanup(os.close, end)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        # When the first process ends, the kernel ends all others.
        self.assertTrue(wait_until_ended(end))
        with Hosts(1):
            self.assertFalse(folder.exists())

    def test_two_sets_of_hosts_do_not_interfere(self):
        _, folder, _ = self.start_owner()
        with Hosts(2) as ours:
            self.assertNotEqual(ours.folder, folder)
            self.assertTrue(folder.is_dir())
            self.assertEqual(ours.mpirun("hostname").returncode, 0)


def wait_until_ended(pidfd: int) -> bool:
    ready, _, _ = select.select([pidfd], [], [], cluster.PATIENCE_S)
    return bool(ready)


if __name__ == "__main__":
    cluster.run_tests()
