#!/usr/bin/env python3
"""DABKE_GPU_OPERATIONS=mpi in jobs of MPI over the double of CUDA: through the host, and with pointers of the
device for MPI.

The double's memory is the host's, so any MPI can represent a CUDA-aware one. These tests do not show that a
real CUDA-aware MPI works.

    mpi_test.py GPU_WORKER MODULE_PATH FOLDER_OF_DOUBLES
"""

import os
import shutil
import subprocess
import sys
import unittest

DOUBLES, MODULES, WORKER = sys.argv.pop(), sys.argv.pop(), sys.argv.pop()
# {mpirun: its flags}
MPIS = {"mpirun.mpich": [], "mpirun.openmpi": ["--oversubscribe", "--allow-run-as-root"]}
# Cases of the matrix. With more ranks than cores, many rounds of a non-blocking collective take MPICH long.
FEW = "80"


class MpiOnDevices(unittest.TestCase):
    def mpis(self):
        found = [
            name
            for name in MPIS
            if shutil.which(name) and os.path.exists(os.path.join(MODULES, f"mpi-{name.split('.')[1]}.so"))
        ]
        if not found:
            self.skipTest("there is no mpirun of a module of this build")
        return found

    def run_job(self, mpirun, command, **variables):
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": DOUBLES,
            "DABKE_MODULE_PATH": MODULES,
            "DABKE_GPU_OPERATIONS": "mpi",
            "DABKE_TEST_MATRIX": "pairwise",
            "DABKE_LOG_LEVEL": "info",
            **variables,
        }
        done = subprocess.run(
            [mpirun, *MPIS[mpirun], *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=540,
            check=False,
            errors="replace",
        )
        return done.returncode, done.stdout

    def conformance(self, mpirun, ranks, **variables):
        command = ["-np", str(ranks), "timeout", "-k", "5", "480", WORKER, "conformance", FEW]
        code, output = self.run_job(mpirun, command, DABKE_PROFILE="1", **variables)
        self.assertEqual(code, 0, output)
        self.assertIn(f"{FEW} cases passed", output)
        return output

    def test_an_mpi_that_does_not_say_that_it_is_cuda_aware_gets_copies_on_the_host(self):
        for mpirun in self.mpis():
            for ranks in (2, 4):
                with self.subTest(mpirun=mpirun, ranks=ranks):
                    output = self.conformance(mpirun, ranks)
                    self.assertIn(
                        "is not given pointers to the memory of CUDA devices (by its own report)", output
                    )
                    self.assertRegex(output, r"\nallreduce +staged ")
                    self.assertNotRegex(output, r"\nallreduce +mpi ")

    def test_one_that_takes_them_gets_pointers_of_the_device(self):
        for mpirun in self.mpis():
            for ranks in (2, 3):
                with self.subTest(mpirun=mpirun, ranks=ranks):
                    output = self.conformance(mpirun, ranks, DABKE_MPI_CUDA_AWARE="yes")
                    self.assertIn(
                        "is given pointers to the memory of CUDA devices (DABKE_MPI_CUDA_AWARE=yes)", output
                    )
                    for collective in ("allreduce", "broadcast"):
                        self.assertRegex(output, rf"\n{collective} +mpi ")
                        self.assertNotRegex(output, rf"\n{collective} +staged ")

    def test_ranks_that_were_told_differently_end_with_an_error_that_says_so(self):
        mpirun = self.mpis()[0]
        if mpirun != "mpirun.mpich":
            self.skipTest("it needs mpirun.mpich")
        worker = ["timeout", "-k", "5", "120", WORKER, "conformance", "4"]
        code, output = self.run_job(
            mpirun,
            [
                "-np",
                "1",
                "-env",
                "DABKE_MPI_CUDA_AWARE",
                "yes",
                *worker,
                ":",
                "-np",
                "1",
                "-env",
                "DABKE_MPI_CUDA_AWARE",
                "no",
                *worker,
            ],
        )
        self.assertNotEqual(code, 0, output)
        self.assertRegex(output, r"device route (direct|host)")


if __name__ == "__main__":
    unittest.main()
