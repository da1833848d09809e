"""`dabkerun --launcher mpi` on hosts with sshd (ssh_hosts.py), with the mpirun of a chosen MPI."""

import os
import shutil

# The hosts have a bridge with the same address on all of them. Without these flags, Open MPI would wait on
# that bridge for ever, and MPICH has hung at the start.
FURTHER = {
    "mpich": "-iface eth0",
    "openmpi": "--allow-run-as-root --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0",
}


def is_installed(mpi):
    return shutil.which(f"mpirun.{mpi}") is not None


def start(ssh, mpi, dabkerun, arguments):
    first_in_path = ssh.file(f"path.{mpi}")
    os.makedirs(first_in_path, exist_ok=True)
    # A script, not a link: Hydra searches for its parts beside the name by which it is called.
    script = os.path.join(first_in_path, "mpirun")
    with open(script, "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\nexec {shutil.which(f"mpirun.{mpi}")} "$@"\n')
    os.chmod(script, 0o755)
    return ssh.start(
        dabkerun,
        ["--launcher", "mpi", "--mpi-args", FURTHER[mpi], *arguments],
        environment={"PATH": f"{first_in_path}:{os.environ['PATH']}"},
    )
