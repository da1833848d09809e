#!/usr/bin/env python3
"""benchmarks/near_and_far.py sorts the runs of dabke-perf by the phase they were in.

near_and_far_test.py PATH_OF_NEAR_AND_FAR
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""


def row(competitor, times, lines):
    return {
        "mode": "sweep",
        "path": "raw",
        "job": "mpich",
        "competitor": competitor,
        "memory": "private",
        "ranks": 2,
        "bytes": 65536,
        "times_us": times,
        "more": {"line_ns": lines},
    }


class NearAndFar(unittest.TestCase):
    def run_on(self, content):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "seen.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            return subprocess.run(
                [sys.executable, PROGRAM, path], capture_output=True, text=True, check=False
            )

    def test_each_run_is_compared_with_its_own_phase(self):
        lines = [50, 50, 50, 200, 200, 200, 200, 0]
        results = [
            row("dabke shm", [10, 10, 10, 20, 20, 20, 20, 1], lines),
            row("dabke shm-plain", [10, 10, 10, 40, 40, 40, 40, 1], lines),
            row("dabke shm-streaming", [30, 30, 30, 20, 20, 20, 20, 1], lines),
            row("raw mpich", [25, 25, 25, 30, 30, 30, 30, 1], lines),
        ]
        done = self.run_on(json.dumps({"results": results}))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]
        ]
        self.assertEqual(
            rows,
            [
                ["2", "private", "near", "65,536", "mpich", "3", "50", "10.0", "1.00", "3.00", "2.50"],
                ["2", "private", "far", "65,536", "mpich", "4", "200", "20.0", "0.50", "0.50", "1.50"],
            ],
        )

    def test_a_phase_of_two_runs_is_left_out_and_none_at_all_is_an_error(self):
        done = self.run_on(json.dumps({"results": [row("dabke shm", [10, 20, 20], [50, 200, 200])]}))
        self.assertEqual(done.returncode, 1)
        self.assertIn("three runs of a phase", done.stderr)

    def test_what_is_something_else_is_named(self):
        for content in ("", "[]", '{"results": 3}', "{}"):
            done = self.run_on(content)
            self.assertEqual(done.returncode, 1, content)
            self.assertIn("seen.json is not what dabke-perf --json writes", done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
