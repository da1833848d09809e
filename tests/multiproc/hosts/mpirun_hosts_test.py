#!/usr/bin/env python3
"""`dabkerun --launcher mpi` on several hosts of network namespaces: the mpirun of each MPI starts ranks over
ssh.

Usage: mpirun_hosts_test.py DABKERUN DIGITS. Exits with 77, which means skipped, where such hosts are not
possible.
"""

import os
import sys
import unittest

import mpirun
import namespaces
from job_processes import end_of
from ssh_hosts import SshHosts, address

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
        code, out, error = self.run_by(mpi, [DIGITS, "--epochs", "5"])
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

    def test_an_address_that_every_host_has_is_never_chosen(self):
        for mpi in mpirun.FURTHER:
            for names in ([], ["--network-interfaces", "docker0,eth0"]):
                with self.subTest(mpi=mpi, names=names):
                    code, out, error = self.run_by(
                        mpi, [*names, "--log-level", "info", DIGITS, "--epochs", "1"]
                    )
                    self.assertEqual(code, 0, out + error)
                    for rank in (0, 1):
                        self.assertIn(f"rank {rank} on host{rank + 1}: {address(rank + 1)} (eth0)\n", error)
                        self.assertRegex(
                            error, rf"not 172\.17\.0\.1 \(docker0\): from rank {rank} on host{rank + 1}: "
                        )


if __name__ == "__main__":
    unittest.main()
