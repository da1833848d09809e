#!/usr/bin/env python3
"""Faults at random moments of jobs that train over ssh: a rank, an ssh, an agent or the launcher is killed, or a host is
cut off. Each time the first line names the cause, the exit code is its, and nothing is left on any host in time.

Usage: ssh_faults.py DABKERUN DIGITS [--each 20] [--seed N]. Exits with 77 where there can be no such hosts.
"""

import argparse
import os
import random
import signal
import sys
import time

import namespaces
from job_processes import parent_of, processes_with, wait_until
from ssh_hosts import CLEAN_SECONDS, SshHosts, address, ssh_below

PEER_TIMEOUT = 3.0


class Fault:
    def __init__(self, line, code, do, slack=0.0):
        self.line, self.code, self.do, self.slack = line, code, do, slack


def kill(pid):
    os.kill(pid, signal.SIGKILL)


# What to do to (job, pids, victim), and what the first line is.
FAULTS = {
    "rank": Fault("rank {victim} on host {host} (pid {pid}) was killed by SIGKILL", 137,
                  lambda job, pids, victim: kill(pids[victim])),
    "ssh": Fault("the connection to its agent was lost: ssh was killed by SIGKILL", 1,
                 lambda job, pids, victim: kill(ssh_below(job.pid))),
    "agent": Fault("host {host}: the connection to its agent was lost: ssh ", 1,
                   lambda job, pids, victim: kill(parent_of(parent_of(pids[victim])))),
    "launcher": Fault(None, -signal.SIGKILL, lambda job, pids, victim: kill(job.pid)),
    "link": Fault("host {host}: the connection to its agent was lost: nothing heard for 3 s", 1, None, PEER_TIMEOUT),
}


def try_one(ssh, arguments, name, moment, victim):
    """What was wrong; empty: nothing."""
    fault = FAULTS[name]
    job, mark, pids = ssh.start_sleepers(
        arguments.dabkerun, ["--peer-timeout-seconds", f"{PEER_TIMEOUT:g}"],
        f'echo "pid $$"; exec {arguments.digits} --epochs 1000000 >/dev/null')
    time.sleep(moment)
    try:
        begin = time.monotonic()
        if name == "link":
            with ssh.hosts.cut(0, victim + 1):
                error = job.communicate(timeout=60)[1].decode(errors="replace")
                clean = expect_clean(mark, begin + fault.slack)
        else:
            fault.do(job, pids, victim)
            error = job.communicate(timeout=60)[1].decode(errors="replace")
            clean = expect_clean(mark, begin)
    finally:
        job.kill()
        job.wait()
    # Where all ranks had ended before the launcher could end them, the last lines of the first stand before the verdict.
    said = next((line for line in error.splitlines()
                 if line.startswith("dabkerun: ") and not line.startswith(("dabkerun: the last line", "dabkerun: | "))), "")
    expected = fault.line and fault.line.format(victim=victim, host=address(victim + 1), pid=pids[victim])
    if job.returncode != fault.code:
        return f"exit code {job.returncode} instead of {fault.code}:\n{error}"
    if expected and expected not in said:
        return f"the first line is not '{expected}':\n{error}"
    return clean


def expect_clean(mark, begin):
    try:
        wait_until(lambda: not processes_with(mark), "the end of all processes", CLEAN_SECONDS - (time.monotonic() - begin))
    except AssertionError as late:
        return str(late)
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dabkerun", type=os.path.abspath)
    parser.add_argument("digits", type=os.path.abspath)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    failures = 0
    with SshHosts(2) as ssh:
        for name in FAULTS:
            for turn in range(arguments.each):
                moment, victim = draw.uniform(0, 2), draw.randrange(2)
                begin = time.monotonic()
                wrong = try_one(ssh, arguments, name, moment, victim)
                failures += bool(wrong)
                print(f"{name} {turn + 1}/{arguments.each}, after {moment:.2f} s of host {address(victim + 1)}: "
                      f"{wrong or 'ok'} ({time.monotonic() - begin:.1f} s)", flush=True)
    print(f"{failures} of {len(FAULTS) * arguments.each} went wrong; --seed {arguments.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except namespaces.NotPermitted as why:
        print(f"skipped: no hosts with sshd here: {why}")
        sys.exit(77)
