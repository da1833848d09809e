#!/usr/bin/env python3
"""`dabkerun --launcher mpi` on several hosts: the mpirun of each MPI starts ranks over ssh, on hosts of network namespaces.

Usage: mpirun_hosts_test.py DABKERUN DIGITS. Exits with 77, which means skipped, where there can be no such hosts.
"""

import os
import sys
import unittest

import mpirun
import namespaces
from job_processes import end_of
from ssh_hosts import SshHosts

DABKERUN = os.path.abspath(sys.argv.pop(1))
DIGITS = os.path.abspath(sys.argv.pop(1))


class JobsByMpirun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ssh = namespaces.opened(cls, SshHosts(2))

    def run_by(self, mpi, arguments):
        if not mpirun.is_installed(mpi):
            self.skipTest(f"there is no mpirun.{mpi}")
        job = mpirun.start(self.ssh, mpi, DABKERUN, arguments)
        self.addCleanup(job.kill)
        return end_of(job)

    def expect_trained(self, mpi):
        code, out, error = self.run_by(mpi, [DIGITS])
        self.assertEqual(code, 0, out + error)
        self.assertRegex(out, r"accuracy 9\d\.\d %")
        code, out, error = self.run_by(mpi, ["hostname"])
        self.assertEqual(code, 0, out + error)
        self.assertIn("host1", out)
        self.assertIn("host2", out)
        self.assertEqual(self.run_by(mpi, ["sh", "-c", "exit 7"])[0], 7)

    def test_a_network_is_trained_by_mpich(self):
        self.expect_trained("mpich")

    def test_a_network_is_trained_by_open_mpi(self):
        self.expect_trained("openmpi")


if __name__ == "__main__":
    unittest.main()
