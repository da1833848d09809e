#!/usr/bin/env python3
"""Runs tests/gpu/run.sh over the doubles, from a folder of its own and with an environment as bare as a
machine's may be.

run_test.py BUILD_DIR
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = sys.argv.pop(1)


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="dabke-gpu-")
        cls.addClassCleanup(cls.place.cleanup)
        cls.pack = os.path.join(cls.place.name, "pack")
        subprocess.run(
            [os.path.join(HERE, "run.sh"), "pack", cls.pack, "--build", BUILD, "--python-build", "none"],
            check=True,
        )

    def run_packed(self, *arguments, **more):
        """Runs the folder's script, as on a machine that has only Python and a few programs."""
        tools = os.path.join(self.place.name, "tools")
        os.makedirs(tools, exist_ok=True)
        for name, file in {
            "python3": sys.executable,
            "sh": "/bin/sh",
            "timeout": "/usr/bin/timeout",
            "env": "/usr/bin/env",
            "dirname": "/usr/bin/dirname",
        }.items():
            if not os.path.exists(os.path.join(tools, name)):
                os.symlink(file, os.path.join(tools, name))
        logs = os.path.join(self.place.name, "logs")
        return subprocess.run(
            [os.path.join(self.pack, "run.sh"), "--logs", logs, *arguments],
            env={"PATH": tools, **more},
            cwd=self.place.name,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=540,
            check=False,
        )

    def test_over_the_doubles_every_step_runs_and_the_table_says_what_it_is_of(self):
        done = self.run_packed("--double")
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(os.path.join(self.place.name, "logs", "results.md"), encoding="utf-8") as file:
            table = file.read()
        self.assertTrue(table.startswith("## DOUBLE, "), table)
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in table.splitlines()
            if line.startswith("|")
        ][2:]
        seen = {(what, how): text for what, how, text in rows}
        for ranks in (2, 3, 4):
            several = "on one GPU, NCCL_MULTI_RANK_GPU_ENABLE=1"
            hierarchical = (
                [f"DABKE_GPU_OPERATIONS=hierarchical, 2 ranks on a host, {several}"] if ranks > 2 else []
            )
            for how in (
                several,
                "on one GPU, a NCCL_HOSTID each",
                "DABKE_GPU_OPERATIONS=host",
                *hierarchical,
            ):
                self.assertRegex(seen[(f"conformance, {ranks} ranks", how)], r"^\d+ cases passed", table)
        for ranks in (2, 4):
            losses = [
                text for (what, _), text in seen.items() if what.startswith(f"a rank of {ranks} is killed")
            ]
            self.assertEqual(len(losses), 2, table)  # the row about the survivors' cases, and the figure
            self.assertRegex(losses[0], r"^100 cases passed")
        of_arithmetic = [what for what, how in seen if how.startswith("`gpu_worker arithmetic`")]
        # Three dtypes, each with its minimum and maximum.
        self.assertEqual(len([what for what in of_arithmetic if "NaN" in what]), 6, table)
        self.assertEqual(len([what for what in of_arithmetic if "rounded once" in what]), 2, table)
        self.assertNotIn("GB/s", table)
        self.assertNotIn("failed", table)

    def test_what_an_older_nccl_cannot_do_is_recorded_and_fails_nothing(self):
        done = self.run_packed("--double", "--ranks", "2", "conformance", FAKE_NCCL_VERSION="21800")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(
            done.stdout,
            r"\| conformance, 2 ranks \| on one GPU, NCCL_MULTI_RANK_GPU_ENABLE=1 \| "
            r"does not work here: .*Duplicate GPU detected",
        )
        self.assertRegex(
            done.stdout, r"\| conformance, 2 ranks \| on one GPU, a NCCL_HOSTID each \| \d+ cases passed"
        )

    def test_ranks_with_different_versions_of_nccl_are_told_so_at_once_and_all_of_them(self):
        libraries = ":".join(os.path.join(self.pack, folder) for folder in ("double", "lib"))
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": libraries,
            "DABKE_MODULE_PATH": os.path.join(self.pack, "lib", "dabke"),
            "DABKE_NCCL_LIBRARY": os.path.join(self.pack, "double", "libnccl.so.2"),
            "DABKE_START_TIMEOUT_SECONDS": "600",
        }
        # dabkerun sees each rank end with code 0, so it ends no rank before that rank has printed its error.
        of_its_own = 'FAKE_NCCL_VERSION=$((23200 + DABKE_RANK / 2)) "$@"; echo "ended with $?"'
        worker = [os.path.join(self.pack, "bin", "gpu_worker"), "conformance", "5"]
        done = subprocess.run(
            [
                os.path.join(self.pack, "bin", "dabkerun"),
                "-np",
                "3",
                "--bind-to",
                "none",
                "sh",
                "-c",
                of_its_own,
                "rank",
                *worker,
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )  # far less than the start timeout
        for rank in range(3):
            self.assertIn(f"[{rank}]<stdout>:ended with 1\n", done.stdout)
            self.assertRegex(
                done.stdout,
                rf"\[{rank}\]<stderr>:mismatch: .*different versions of NCCL: "
                r"2\.32\.0 on ranks 0, 1, 2\.32\.1 on rank 2;",
            )

    def test_a_wrong_result_fails_the_run_and_is_told(self):
        done = self.run_packed(
            "--double", "--ranks", "2", "conformance", FAKE_CUDA_PLAN="cuLaunchKernel * 3 700"
        )
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"conformance, 1 rank \|.*\*\*failed\*\*: .*CUDA_ERROR_ILLEGAL_ADDRESS")

    def test_without_a_driver_it_says_so_and_ends_with_code_1(self):
        done = self.run_packed()
        if re.search(r"^\d+ x ", done.stdout):
            self.skipTest("there is a CUDA device")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("There is no CUDA device that can be used here: ", done.stdout)
        self.assertIn("CUDA driver", done.stdout)


if __name__ == "__main__":
    unittest.main()
