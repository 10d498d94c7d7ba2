"""Slurm: a Slurm cluster on the hosts of tests/cluster/hosts.py, with one node per host.

The controller and munged run on the login node. All files are in the folder of the hosts, and all daemons in their
namespaces. So nothing is left when the hosts end, and another Slurm on the machine is not touched.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parents[1] / "cluster"))
from hosts import LOGIN, Hosts, begin, run_tests, wait_until  # noqa: E402,F401

CONFIGURATION = """
ClusterName=millrace
SlurmctldHost={login}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/slurm/state
SlurmctldPidFile={folder}/slurm/slurmctld.pid
SlurmctldLogFile={folder}/slurm/slurmctld.log
SlurmdLogFile={folder}/slurm/slurmd-%n.log
SlurmdPidFile=/tmp/slurmd.pid
SlurmdSpoolDir=/tmp/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={nodes} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=NO
"""


class Slurm:
    """Runs from __enter__ to __exit__."""

    def __init__(self, hosts: Hosts, cpus: int = 4) -> None:
        self.hosts = hosts
        self.folder = hosts.folder / "slurm"
        self._munge = hosts.folder / "munge"
        self._cpus = cpus
        self._daemons: list[subprocess.Popen] = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def __enter__(self) -> "Slurm":
        try:
            (self.folder / "state").mkdir(parents=True)
            self._munge.mkdir()
            (self._munge / "key").write_bytes(os.urandom(128))
            (self._munge / "key").chmod(0o600)
            (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
                login=LOGIN, folder=self.hosts.folder, nodes=",".join(self.hosts.names), cpus=self._cpus))
            # --force: the folder is below /tmp, which others may write to.
            self._start(LOGIN, "munged", "--foreground", "--force", "--num-threads=2",
                        *(f"--{what}={self._munge / what.split('-')[0]}"
                          for what in ("key-file", "socket", "pid-file", "log-file", "seed-file")))
            self._wait_for((self._munge / "socket").exists, "munged")
            self._start(LOGIN, "slurmctld", "-D", "-c")
            for name in self.hosts.names:
                self._start(name, "slurmd", "-D", "-N", name)
            self._wait_for(self._all_idle, "the nodes of Slurm")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error) -> None:
        for daemon in reversed(self._daemons):
            daemon.kill()
            daemon.wait()

    def run(self, *command: str, **options) -> subprocess.CompletedProcess:
        """Runs a Slurm command on the login node."""
        return self.hosts.run(LOGIN, *command, **{"env": self.environment, **options})

    def sbatch(self, script: Path, *arguments: str, options: tuple = (), **environment: str) -> subprocess.CompletedProcess:
        """Runs a job. stdout and returncode of the result are those of the job."""
        output = self.hosts.shared / "slurm.out"
        output.unlink(missing_ok=True)
        done = self.run("sbatch", "--wait", f"--output={output}", *options, str(script), *arguments,
                        env={**self.environment, **environment})
        printed = output.read_text(errors="replace") if output.exists() else ""
        return subprocess.CompletedProcess(done.args, done.returncode, printed, done.stderr)

    def _start(self, host: str, *command: str) -> None:
        with open(self.folder / f"{command[0]}-{host}.out", "wb") as output:
            self._daemons.append(subprocess.Popen(self.hosts.command(host, *command), stdin=subprocess.DEVNULL,
                                                  stdout=output, stderr=output, env=self.environment))

    def _all_idle(self) -> bool:
        states = self.run("sinfo", "--noheader", "-N", "-o", "%T").stdout.split()
        return states == ["idle"] * len(self.hosts.names)

    def _wait_for(self, condition, what: str) -> None:
        def is_up_or_hopeless() -> bool:
            return condition() or any(daemon.poll() is not None for daemon in self._daemons)
        wait_until(is_up_or_hopeless, what)
        dead = [daemon.args for daemon in self._daemons if daemon.poll() is not None]
        if dead:
            raise OSError(f"{what}: {dead} ended; the logs:\n{self._logs()}")

    def _logs(self) -> str:
        files = [*self.folder.glob("*.out"), *self.folder.glob("*.log"), self._munge / "log"]
        return "\n".join(f"{file.name}:\n{file.read_text(errors='replace')[-1500:]}" for file in files if file.exists())
