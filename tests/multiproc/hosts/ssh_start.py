#!/usr/bin/env python3
"""The time that a job of many ranks takes over ssh, from its start to its end: of `true`, and of a program
that calls only init and shutdown.

Usage: ssh_start.py DABKERUN PROGRAM [--hosts 4] [--slots 16] [--times 3]
"""

import argparse
import os
import sys
import time

import namespaces
from ssh_hosts import SshHosts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dabkerun", type=os.path.abspath)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    with SshHosts(arguments.hosts) as ssh:
        for command in ("true", arguments.program):
            taken = []
            for _ in range(arguments.times):
                begin = time.monotonic()
                job = ssh.start(arguments.dabkerun, [command], hosts=ssh.all_hosts(arguments.slots))
                error = job.communicate()[1].decode(errors="replace")
                taken.append(time.monotonic() - begin)
                if job.returncode != 0:
                    print(f"{command} ended with {job.returncode}:\n{error}")
                    return 1
            print(
                f"{arguments.hosts * arguments.slots} ranks of {os.path.basename(command)} "
                f"on {arguments.hosts} hosts: "
                f"{' '.join(f'{each:.2f}' for each in taken)} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except namespaces.NotPermitted as why:
        sys.exit(f"no hosts with sshd here: {why}")
