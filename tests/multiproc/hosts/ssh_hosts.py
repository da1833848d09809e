"""Hosts of network namespaces (namespaces.py), each with an sshd. A dabkerun on host 0 starts jobs on them
over ssh.

Needs root, iproute2, util-linux, openssh-client and openssh-server.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile

import namespaces
from job_processes import parent_of, text_of, wait_until

PORT = 2222


def address(host):
    return f"10.77.0.{host + 1}"


def ssh_below(launcher):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as file:
                if file.read().strip() == "ssh" and parent_of(pid) == launcher:
                    return int(pid)
        except OSError:
            pass
    raise AssertionError("no ssh runs")


def generate_key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


class SshHosts:
    """`with SshHosts(2) as ssh:` makes the launcher's host 0, and hosts 1 and 2 with an sshd."""

    def __init__(self, count):
        self._count = count
        self._daemons = []
        self.hosts = namespaces.Hosts(count + 1)

    def __enter__(self):
        for tool in ("ssh", "ssh-keygen", "nsenter"):
            if shutil.which(tool) is None:
                raise namespaces.NotPermitted(f"{tool} is not installed")
        if shutil.which("sshd", path="/usr/sbin:/sbin") is None:
            raise namespaces.NotPermitted("sshd is not installed (openssh-server)")
        self.hosts.__enter__()
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in self._daemons:
            daemon.kill()
            daemon.wait()
        # Kills the sessions of sshd: a session whose link was cut would wait for hours.
        for host in range(self._count + 1):
            for pid in subprocess.run(
                ["ip", "netns", "pids", self.hosts.name_of(host)], capture_output=True, text=True
            ).stdout.split():
                with contextlib.suppress(ProcessLookupError):  # the process has ended together with another
                    os.kill(int(pid), signal.SIGKILL)
        self.hosts.__exit__()

    def _open(self):
        self.place = tempfile.mkdtemp(dir=self.hosts.place)
        self.key, self.other_key = self.file("key"), self.file("other_key")
        generate_key(self.key)
        generate_key(self.other_key)
        shutil.copy(self.key + ".pub", self.file("authorized_keys"))
        os.makedirs("/run/sshd", exist_ok=True)
        self.known_hosts = self.file("known_hosts")
        self.shell_start = self.file(
            "bashrc"
        )  # bash as a login shell reads this file, if a test has written it
        for host in range(1, self._count + 1):
            self._start_sshd(host)

    def file(self, name):
        return os.path.join(self.place, name)

    def _start_sshd(self, host):
        host_key, log = self.file(f"host_key{host}"), self.file(f"log{host}")
        generate_key(host_key)
        with (
            open(host_key + ".pub", encoding="ascii") as file,
            open(self.known_hosts, "a", encoding="ascii") as known,
        ):
            known.write(f"[{address(host)}]:{PORT} {file.read()}")
        config = self.file(f"sshd{host}")
        with open(config, "w", encoding="ascii") as file:
            file.write(
                f"Port {PORT}\nHostKey {host_key}\nAuthorizedKeysFile {self.file('authorized_keys')}\n"
                "UsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n"
                f"MaxStartups 200\nPidFile none\nSetEnv BASH_ENV={self.shell_start}\n"
            )
        command = [
            "unshare",
            "--uts",
            "sh",
            "-c",
            f'hostname host{host}; exec "$@"',
            "sh",
            shutil.which("sshd", path="/usr/sbin:/sbin"),
            "-D",
            "-E",
            log,
            "-f",
            config,
        ]
        self._daemons.append(
            subprocess.Popen(self.on_host(host, command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        )
        wait_until(lambda: "Server listening" in text_of(log), "sshd")

    def on_host(self, host, command):
        return ["nsenter", f"--net=/run/netns/{self.hosts.name_of(host)}", *command]

    def all_hosts(self, slots):
        return ",".join(f"{address(host)}:{slots}" for host in range(1, self._count + 1))

    def start(
        self,
        dabkerun,
        arguments,
        hosts=None,
        port=PORT,
        key=None,
        known_hosts=None,
        environment=None,
        directory=None,
        stdin=subprocess.DEVNULL,
    ):
        options = f"-F none -o UserKnownHostsFile={known_hosts or self.known_hosts} -o IdentitiesOnly=yes"
        flags = [
            "-H",
            hosts or self.all_hosts(1),
            "-p",
            str(port),
            "-i",
            key or self.key,
            "--ssh-args",
            options,
        ]
        program = dabkerun if isinstance(dabkerun, list) else [dabkerun]
        return subprocess.Popen(
            self.on_host(0, [*program, *flags, *arguments]),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=dict(os.environ, **(environment or {})),
        )

    def start_sleepers(self, dabkerun, arguments=(), command='echo "pid $$"; exec sleep 1000'):
        """Starts a job with one rank per host; the ranks print their pids. Returns the job, the mark that its
        processes have in their environment, and the pids."""
        value = f"{os.getpid()}.{random.randrange(1 << 32)}"
        job = self.start(dabkerun, [*arguments, "sh", "-c", command], environment={"DABKE_TEST_MARK": value})
        pids = {}
        while len(pids) < self._count:
            line = job.stdout.readline().decode()
            if not line:
                raise AssertionError(
                    "the job has ended early: " + job.communicate()[1].decode(errors="replace")
                )
            if found := re.match(r"\[(\d+)\]<stdout>:pid (\d+)", line):
                pids[int(found[1])] = int(found[2])
        return job, f"DABKE_TEST_MARK={value}", pids
