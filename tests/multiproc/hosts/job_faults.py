"""Faults at random moments of jobs that train on several hosts, and the checks after each fault.

The checks hold for every fault:
- the first line of the error names the cause
- the exit code is that of the cause
- no host has a process of the job left when the time is over

ssh_faults.py and slurm_faults.py define how a job is started on the hosts and what each fault does.
"""

import argparse
import os
import random
import shlex
import sys
import time

import namespaces
from job_processes import PEER_TIMEOUT, Late, expect_clean, in_time


class Fault:
    """One kind of fault.

    line  text in the first line of the error, with {victim}, {host}, {pid}; None if no process can print it
    do    a function of the job and the victim's number; None cuts the victim's host off from the launcher
    """

    def __init__(self, line, code, do):
        self.line, self.code, self.do = line, code, do


# The first line for a host that is cut off.
SILENT = f"host {{host}}: the connection to its agent was lost: nothing received for {PEER_TIMEOUT} s"


class StruckJob:
    """A job with a rank on each of two hosts, and the mark that its processes have in their environment."""

    def __init__(self, process, mark, pids):
        self.process, self.mark, self.pids = process, mark, pids
        self.launcher = process.pid


def training(digits, fault):
    patience = [] if fault.do else ["--peer-timeout-seconds", f"{PEER_TIMEOUT}"]
    return [
        *patience,
        "sh",
        "-c",
        f'echo "pid $$"; exec {shlex.quote(str(digits))} --epochs 1000000 >/dev/null',
    ]


def strike(cluster, job, fault, victim):
    """Strikes the job, waits until all its processes are gone, and returns its stderr.

    `cluster` has cut_off(victim), a context, and may_stay_beyond_cut(pid)."""
    begin = time.monotonic()
    if fault.do:
        fault.do(job, victim)
        error = job.process.communicate(timeout=200)[1]
        expect_clean(job.mark, begin)
        return error
    with cluster.cut_off(victim):
        expect_clean(job.mark, begin + PEER_TIMEOUT, cluster.may_stay_beyond_cut)
    return job.process.communicate(timeout=200)[1]


def first_line(error):
    """The first line of the launcher's verdict. If all ranks had ended before the launcher could end them,
    the last lines of the first rank stand before the verdict."""
    passed_over = ("dabkerun: the last line", "dabkerun: | ", "dabkerun: Slurm job ")
    return next(
        (
            line
            for line in error.splitlines()
            if line.startswith("dabkerun: ") and not line.startswith(passed_over)
        ),
        "",
    )


def judge(cluster, job, fault, victim):
    """Returns the fault found in the job's end, or an empty text. Raises Late."""
    try:
        error = strike(cluster, job, fault, victim).decode(errors="replace")
    except Late:
        raise
    except AssertionError as left:
        return str(left)
    finally:
        job.process.kill()
        job.process.wait()
    expected = fault.line and fault.line.format(
        victim=victim, host=cluster.name_of(victim), pid=job.pids[victim]
    )
    if job.process.returncode != fault.code:
        return f"exit code {job.process.returncode} instead of {fault.code}:\n{error}"
    if expected and expected not in first_line(error):
        return f"the first line is not '{expected}':\n{error}"
    return ""


def strike_after(cluster, words, moment, fault, victim):
    """Returns the fault found in a job that is struck `moment` seconds after its start."""

    def once():
        job = cluster.start(words)
        time.sleep(moment)
        return judge(cluster, job, fault, victim)

    try:
        return in_time(once)
    except Late as late:
        return str(late)


def main(open_cluster, faults):
    """Runs all faults. `open_cluster(dabkerun)` is a context; its value has start(words), which returns a
    StruckJob."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dabkerun", type=os.path.abspath)
    parser.add_argument("digits", type=os.path.abspath)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    failures = []
    try:
        with open_cluster(arguments.dabkerun) as cluster:
            for name, fault in faults.items():
                for turn in range(arguments.each):
                    moment, victim = draw.uniform(0, 2), draw.randrange(2)
                    begin = time.monotonic()
                    wrong = strike_after(cluster, training(arguments.digits, fault), moment, fault, victim)
                    line = (
                        f"{name} {turn + 1}/{arguments.each}, after {moment:.2f} s "
                        f"of host {cluster.name_of(victim)}: "
                        f"{wrong or 'ok'} ({time.monotonic() - begin:.1f} s)"
                    )
                    print(line, flush=True)
                    if wrong:
                        failures.append(line)
    except namespaces.NotPermitted as why:
        print(f"skipped: no such hosts here: {why}")
        sys.exit(77)
    for line in failures:
        print(line)
    print(f"{len(failures)} of {len(faults) * arguments.each} went wrong; --seed {arguments.seed}")
    sys.exit(1 if failures else 0)
