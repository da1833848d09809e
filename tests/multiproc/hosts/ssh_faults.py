#!/usr/bin/env python3
"""Faults at random moments of jobs that train over ssh (job_faults.py).

The faults: a rank, an ssh, an agent or the launcher is killed, or a host is cut off.

Usage: ssh_faults.py DABKERUN DIGITS [--each 20] [--seed N]. Exits with 77 where such hosts are not possible.
"""

import contextlib
import os
import signal

from job_faults import SILENT, Fault, StruckJob, main
from job_processes import parent_of
from ssh_hosts import SshHosts, address, ssh_below


def kill(pid):
    os.kill(pid, signal.SIGKILL)


FAULTS = {
    "rank": Fault(
        "rank {victim} on host {host} (pid {pid}) was killed by SIGKILL",
        137,
        lambda job, victim: kill(job.pids[victim]),
    ),
    "ssh": Fault(
        "the connection to its agent was lost: ssh was killed by SIGKILL",
        1,
        lambda job, victim: kill(ssh_below(job.launcher)),
    ),
    "agent": Fault(
        "host {host}: the connection to its agent was lost: ssh ",
        1,
        lambda job, victim: kill(parent_of(parent_of(job.pids[victim]))),
    ),
    "launcher": Fault(None, -signal.SIGKILL, lambda job, victim: kill(job.launcher)),
    "link": Fault(SILENT, 1, None),
}


class OverSsh:
    def __init__(self, dabkerun, ssh):
        self._dabkerun, self._ssh = dabkerun, ssh

    def start(self, words):
        return StruckJob(*self._ssh.start_sleepers(self._dabkerun, words[:-3], words[-1]))

    def cut_off(self, victim):
        return self._ssh.hosts.cut(0, victim + 1)

    @staticmethod
    def may_stay_beyond_cut(pid):
        return False

    @staticmethod
    def name_of(victim):
        return address(victim + 1)


@contextlib.contextmanager
def open_cluster(dabkerun):
    with SshHosts(2) as ssh:
        yield OverSsh(dabkerun, ssh)


if __name__ == "__main__":
    main(open_cluster, FAULTS)
