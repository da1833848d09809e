#!/usr/bin/env python3
"""Faults at random moments of jobs that train in a real Slurm's allocation (job_faults.py).

The faults: a rank, the srun, an agent or the launcher is killed, or a host is cut off.

Usage: slurm_faults.py DABKERUN DIGITS [--each 20] [--seed N]

Exits with 77 where such hosts are not possible or Slurm is not installed.
"""

import contextlib
import os
import signal

import slurm
from job_faults import SILENT, Fault, StruckJob, main
from job_processes import command_of, parent_of


def kill(pid):
    os.kill(pid, signal.SIGKILL)


FAULTS = {
    "rank": Fault(
        "rank {victim} on host {host} (pid {pid}) was killed by SIGKILL",
        137,
        lambda job, victim: kill(job.pids[victim]),
    ),
    "srun": Fault(
        "the connection to its agent was lost: srun was killed by SIGKILL",
        1,
        lambda job, victim: kill(slurm.srun_below(job.launcher)),
    ),
    "agent": Fault(
        "host {host}: the connection to its agent was lost: the agent's side closed it",
        1,
        lambda job, victim: kill(parent_of(parent_of(job.pids[victim]))),
    ),
    "launcher": Fault(None, 0, lambda job, victim: kill(job.launcher)),  # salloc ignores it
    "link": Fault(SILENT, 1, None),
}


class InAllocation:
    def __init__(self, dabkerun, cluster):
        self._dabkerun, self._cluster = dabkerun, cluster

    def start(self, words):
        process, mark, pids, launcher = self._cluster.start_sleepers(self._dabkerun, words[:-3], words[-1])
        job = StruckJob(process, mark, pids)
        job.launcher = launcher
        return job

    def cut_off(self, victim):
        return self._cluster.hosts.cut(0, victim + 1)

    @staticmethod
    def may_stay_beyond_cut(pid):
        """True for Slurm's own processes: Slurm waits longer for a host, and they end once the network is
        whole again."""
        return command_of(pid)[0].startswith(("slurmstepd", "srun", "salloc"))

    @staticmethod
    def name_of(victim):
        return f"host{victim + 1}"


@contextlib.contextmanager
def open_cluster(dabkerun):
    with slurm.Cluster(3) as cluster:
        yield InAllocation(dabkerun, cluster)


if __name__ == "__main__":
    main(open_cluster, FAULTS)
