"""A real Slurm on the hosts of namespaces.py, from Debian's packages: munged, slurmctld on host 0, slurmd on
each host."""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import time

import namespaces
from job_processes import command_of, is_child_of, processes_with

TOOLS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sinfo", "nsenter")
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
CPUS = 4

CONFIG = """\
ClusterName=hosts
SlurmctldHost=host0(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool.%n
SlurmdPidFile={place}/slurmd.%n.pid
SlurmctldPidFile={place}/slurmctld.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
PropagateResourceLimits=NONE
MpiDefault={mpi}
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
KillWait=2
MessageTimeout=60
TCPTimeout=30
InactiveLimit=0
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=FORCE:8 State=UP
"""


class Cluster:
    """Each host has a network and a name of its own, and CPUS cores for Slurm. All hosts share one file
    system."""

    def __init__(self, count, mpi="pmi2"):
        self._count = count
        self._mpi = mpi
        self._daemons = []
        self.place = None
        self._names = []  # one process in the name space of each host

    def __enter__(self):
        for tool in TOOLS:
            if shutil.which(tool, path=PATH) is None:
                raise namespaces.NotPermitted(
                    f"{tool} is not installed (Debian packages slurm-wlm and munge)"
                )
        self.hosts = namespaces.Hosts(self._count).__enter__()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self._daemons):
            daemon.kill()
            daemon.wait()
        # Kills the processes of jobs that a test has left. Slurm starts them with the daemons' variables.
        for pid in processes_with("SLURM_CONF=" + os.path.join(self.place or "", "slurm.conf")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.hosts.__exit__()

    def _start(self):
        place = self.place = os.path.join(self.hosts.place, "slurm")
        os.mkdir(place)
        os.chmod(self.hosts.place, 0o755)
        os.mkdir(os.path.join(place, "state"))
        nodes = "\n".join(
            f"NodeName=host{i} NodeAddr=10.77.0.{i + 1} CPUs={CPUS} RealMemory=1000 State=UNKNOWN"
            for i in range(self._count)
        )
        self._write("slurm.conf", CONFIG.format(place=place, nodes=nodes, mpi=self._mpi))
        self._write("cgroup.conf", "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        self._write(
            "hosts",
            "127.0.0.1 localhost\n" + "".join(f"10.77.0.{i + 1} host{i}\n" for i in range(self._count)),
        )
        self._write("resolv.conf", "nameserver 127.0.0.1\n")
        with open(os.path.join(place, "munge.key"), "wb") as file:
            file.write(os.urandom(1024))
        os.chmod(os.path.join(place, "munge.key"), 0o400)
        self._daemon(
            "munged",
            [
                "munged",
                "--foreground",
                "--force",
                f"--socket={place}/munge.socket",
                f"--key-file={place}/munge.key",
                f"--pid-file={place}/munged.pid",
                f"--log-file={place}/munged.log",
                f"--seed-file={place}/munged.seed",
            ],
        )
        for host in range(self._count):
            # Hosts are found by name, as on a cluster, and no request goes to a name server that does not
            # exist.
            named = (
                f"hostname host{host} && mount --bind {place}/hosts /etc/hosts && "
                f"mount --bind {place}/resolv.conf /etc/resolv.conf && echo named && exec sleep infinity"
            )
            holder = subprocess.Popen(
                ["unshare", "--uts", "--mount", "sh", "-c", named], stdout=subprocess.PIPE
            )
            self._daemons.append(holder)
            self._names.append(holder)
            if not holder.stdout.readline():
                raise namespaces.NotPermitted("no mount namespaces with names of their own")
        self._wait(lambda: os.path.exists(os.path.join(place, "munge.socket")), "munged")
        self._daemon(
            "slurmctld", self.on_host(0, ["slurmctld", "-D", "-f", os.path.join(place, "slurm.conf")])
        )
        for host in range(self._count):
            os.mkdir(os.path.join(place, f"spool.host{host}"))
            self._daemon(
                f"slurmd{host}",
                self.on_host(
                    host, ["slurmd", "-D", "-N", f"host{host}", "-f", os.path.join(place, "slurm.conf")]
                ),
            )
        self._wait(self._is_up, "every node of Slurm")

    def _write(self, name, text):
        with open(os.path.join(self.place, name), "w", encoding="ascii") as file:
            file.write(text)

    def _daemon(self, name, command):
        with open(os.path.join(self.place, f"{name}.out"), "wb") as output:
            self._daemons.append(
                subprocess.Popen(
                    command,
                    env=self.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def _wait(self, condition, what, seconds=180):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} has not come within {seconds} s:\n{self.logs()}")
            time.sleep(0.1)

    def _is_up(self):
        done = subprocess.run(
            self.on_host(0, ["sinfo", "-h", "-t", "idle", "-o", "%D"]),
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip() == str(self._count)

    def logs(self):
        """The end of the output and of the log of each part."""
        text = ""
        for name in sorted(os.listdir(self.place)):
            if name.endswith((".out", ".log")):
                with open(os.path.join(self.place, name), encoding="utf-8", errors="replace") as file:
                    text += f"== {name}\n{file.read()[-1500:]}\n"
        return text

    def environment(self, more=None):
        return dict(
            os.environ,
            SLURM_CONF=os.path.join(self.place, "slurm.conf"),
            PATH=PATH + ":" + os.environ.get("PATH", ""),
            **(more or {}),
        )

    def on_host(self, host, command):
        spaces = f"/proc/{self._names[host].pid}/ns"
        return [
            "nsenter",
            f"--net=/run/netns/{self.hosts.name_of(host)}",
            f"--uts={spaces}/uts",
            f"--mount={spaces}/mnt",
            *command,
        ]

    def start(self, words, nodes="host1,host2", slots=2, environment=None, allocation=()):
        """Starts `words` on host 0, by default in an allocation with one slot on each of hosts 1 and 2."""
        salloc = [
            "salloc",
            "--quiet",
            f"--nodelist={nodes}",
            f"--nodes={len(nodes.split(','))}",
            f"--ntasks={slots}",
            *allocation,
            *words,
        ]
        return subprocess.Popen(
            self.on_host(0, salloc),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(environment),
        )

    def start_by_srun(self, words, tasks=2, flags=(), environment=None):
        """Starts `words` as `tasks` tasks, half on host 1 and half on host 2, without dabkerun."""
        srun = [
            "srun",
            "--quiet",
            "--nodelist=host1,host2",
            "--nodes=2",
            f"--ntasks={tasks}",
            f"--ntasks-per-node={tasks // 2}",
            *flags,
            *words,
        ]
        return subprocess.Popen(
            self.on_host(0, srun),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(environment),
        )

    def start_sleepers(self, dabkerun, arguments=(), command='echo "pid $$"; exec sleep 1000'):
        """Starts a job with one rank on each of two hosts; the ranks print their pids. Returns salloc's
        process, the mark that all processes have in their environment, the pids of the ranks, and dabkerun's
        pid."""
        value = f"{os.getpid()}.{random.randrange(1 << 32)}"
        job = self.start([dabkerun, *arguments, "sh", "-c", command], environment={"DABKE_TEST_MARK": value})
        pids = {}
        while len(pids) < 2:
            line = job.stdout.readline().decode()
            if not line:
                raise AssertionError(
                    "the job has ended early: " + job.communicate()[1].decode(errors="replace")
                )
            if found := re.match(r"\[(\d)\]<stdout>:pid (\d+)", line):
                pids[int(found[1])] = int(found[2])
        mark = f"DABKE_TEST_MARK={value}"
        launcher = next(
            pid
            for pid in processes_with(mark)
            if command_of(pid)[:1] == [dabkerun]
            and "--agent" not in command_of(pid)
            and is_child_of(pid, job.pid)
        )
        return job, mark, pids, launcher


def srun_below(launcher):
    """The srun that starts dabkerun's agents. A helper process of that srun has the same name."""
    return next(
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if command_of(pid)[:1] == ["srun"] and is_child_of(pid, launcher)
    )
