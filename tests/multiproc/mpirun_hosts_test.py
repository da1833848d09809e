#!/usr/bin/env python3
"""`dabkerun --launcher mpi` on several hosts: the mpirun of each MPI starts ranks over ssh, on hosts of network namespaces.

Usage: mpirun_hosts_test.py DABKERUN DIGITS. Exits with 77, which means skipped, where there can be no such hosts.
"""

import os
import shutil
import sys
import tempfile
import unittest

import namespaces
import python_example
from ssh_hosts import SshHosts

DABKERUN = os.path.abspath(sys.argv.pop(1))
DIGITS = os.path.abspath(sys.argv.pop(1))
# The hosts have a bridge with one address on all of them, which Open MPI of itself would try.
FURTHER = {"mpich": "-iface eth0", "openmpi": "--allow-run-as-root --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0"}


class JobsByMpirun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ssh = SshHosts(2).__enter__()
        cls.addClassCleanup(cls.ssh.__exit__)

    def run_by(self, mpi, command):
        program = shutil.which(f"mpirun.{mpi}")
        if program is None:
            self.skipTest(f"there is no mpirun.{mpi}")
        with tempfile.TemporaryDirectory() as first_in_path:
            # No link: Hydra looks for its parts beside the name by which it is called.
            script = os.path.join(first_in_path, "mpirun")
            with open(script, "w", encoding="ascii") as file:
                file.write(f'#!/bin/sh\nexec {program} "$@"\n')
            os.chmod(script, 0o755)
            job = self.ssh.start(DABKERUN, ["--launcher", "mpi", "--mpi-args", FURTHER[mpi], *command],
                                 environment={"PATH": f"{first_in_path}:{os.environ['PATH']}"})
            self.addCleanup(job.kill)
            out, error = job.communicate(timeout=100)
        return job.returncode, out.decode(errors="replace"), error.decode(errors="replace")

    def expect_trained(self, mpi, command):
        code, out, error = self.run_by(mpi, command)
        self.assertEqual(code, 0, out + error)
        self.assertRegex(out, r"accuracy 9\d\.\d %")
        code, out, error = self.run_by(mpi, ["hostname"])
        self.assertEqual(code, 0, out + error)
        self.assertIn("host1", out)
        self.assertIn("host2", out)
        self.assertEqual(self.run_by(mpi, ["sh", "-c", "exit 7"])[0], 7)

    def test_a_network_is_trained_by_mpich(self):
        self.expect_trained("mpich", [DIGITS])

    def test_a_network_is_trained_by_open_mpi(self):
        self.expect_trained("openmpi", [DIGITS])

    def test_a_network_is_trained_from_python(self):
        if trouble := python_example.trouble():
            self.skipTest(trouble)
        for mpi in ("mpich", "openmpi"):
            with self.subTest(mpi=mpi):
                code, out, error = self.run_by(mpi, python_example.COMMAND)
                self.assertEqual(code, 0, out + error)
                self.assertRegex(out, r"accuracy 9\d\.\d %")


if __name__ == "__main__":
    try:
        with SshHosts(1):
            pass
    except namespaces.NotPermitted as why:
        print(f"skipped: no hosts with sshd here: {why}")
        sys.exit(77)
    unittest.main()
