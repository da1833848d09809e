"""A job whose hosts are added and removed while it runs.

The two hosts are this machine under two names. A discovery script prints a file, which the test changes.
"""

import os
import pathlib
import re
import signal
import sys

from running_job import RunningJob

SLOW_COMMITS = pathlib.Path(__file__).resolve().parent / "slow_commits.py"
EXAMPLES = pathlib.Path(__file__).resolve().parents[4] / "examples"


class Job(RunningJob):
    """A job whose hosts the test changes."""

    def __init__(self, folder, hosts, program, *flags, environment=None):
        self.folder = folder
        shell = folder / "shell"
        shell.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        shell.chmod(0o755)
        self.list_hosts(*hosts)
        words = ["-np", "2", "--min-np", "1", "--remote-shell", str(shell)]
        words += ["--host-discovery-script", f"cat {folder}/hosts", "--blacklist-cooldown-range", "0.2", "1"]
        words += [sys.executable, str(SLOW_COMMITS), str(EXAMPLES / program), *flags]
        self.slow = folder / "slow"
        self.slow.touch()
        variables = {"ELASTIC_HOSTS": f"{folder}/hosts", "ELASTIC_SLOW": str(self.slow)}
        super().__init__(words, {**variables, **(environment or {})})

    def list_hosts(self, *hosts):
        part = self.folder / "hosts.new"
        part.write_text("".join(f"{host}\n" for host in hosts))
        part.rename(self.folder / "hosts")

    def kill_oldest_on(self, wanted):
        """Kills the first process that was started on the host."""
        workers = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                name = pathlib.Path(f"/proc/{parent}/comm").read_text().strip()
                environment = (entry / "environ").read_bytes().split(b"\0")
            except (OSError, IndexError, ValueError):
                continue
            variables = dict(each.split(b"=", 1) for each in environment if b"=" in each)
            is_mine = variables.get(b"ELASTIC_HOSTS") == f"{self.folder}/hosts".encode()
            is_there = variables.get(b"DABKE_HOSTNAME") == wanted.encode()
            number = variables.get(b"DABKE_ELASTIC_WORKER")
            if number and is_mine and is_there and name.startswith("dabke-rank"):
                workers[int(number)] = int(entry.name)
        os.kill(workers[min(workers)], signal.SIGKILL)


def run_through_changes(folder, program, *flags, environment=None):
    """Adds a host, removes the first one, kills rank 0, and adds the first host again."""
    with Job(folder, ["localhost:2"], program, *flags, environment=environment) as job:
        job.wait_for(r"\[0\]<stdout>:(epoch|iteration) +1")
        job.list_hosts("localhost:2", "other:2")
        job.wait_for(r"\b3 \(host other\) joins?\b")
        job.list_hosts("other:2")
        job.wait_for(r"epoch \d+: 2 of 4 go on")
        job.kill_oldest_on("other")  # of the members, it has rank 0
        job.wait_for(r"rank 0 \(host other\) was killed by SIGKILL")
        job.list_hosts("localhost:1", "other:2")
        job.wait_for(r"\d \(host localhost\).* joins?\b")
        job.slow.unlink()
        text = job.finish()
    for rank in 0, 1:
        assert f"rank {rank} (host localhost) leaves: host localhost is no longer listed" in text
    return text


def accuracy_of(text):
    return float(re.search(r"\[0\]<stdout>:held-out accuracy (\d+\.\d) %", text)[1])
