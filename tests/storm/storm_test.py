"""Checks that a storm can fail: a mistake of one rank must be found, and reported with all data for a replay.

storm_test.py RUN BUILD_DIR
"""

import os
import re
import subprocess
import sys
import unittest

RUN, BUILD = sys.argv[1:3]
WORKER = os.path.join(BUILD, "tests", "storm", "storm_worker")


def show(seed):
    return subprocess.run(
        [WORKER, "--show", str(seed)], check=True, capture_output=True, encoding="utf-8", errors="replace"
    ).stdout


def is_plain_sum(text):
    """True for a program of three ranks under dabkerun, whose last rank adds a tensor of integers.

    A wrong value is noticed there. If a rank stops before dabke_shutdown, only the barrier there is pending.
    """
    adds = re.search(r"allreduce sum u?int\d+\[[1-9]\d*(,[1-9]\d*)*\] by ranks [0-9,]*2, ending 0", text)
    others = re.search(r"join of set|[1-9]\d* left over|barrier of all", text)
    return ": 3 ranks, dabkerun," in text.split("\n")[0] and adds and not others


SEED = next(seed for seed in range(1, 1000) if is_plain_sum(show(seed)))


def storm(*arguments, mistake=None, patience=60):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STORM_")}
    if mistake:
        environment.update(STORM_MISTAKE=mistake, STORM_PATIENCE=str(patience))
    return subprocess.run(
        [sys.executable, RUN, *arguments, "--build", BUILD],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


class StormCanFail(unittest.TestCase):
    def test_a_program_is_clean_without_a_mistake(self):
        done = storm(str(SEED), "1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("1 clean, 0 failed", done.stdout)

    def test_a_wrong_value_on_one_rank_is_found_and_told(self):
        done = storm(str(SEED), "1", mistake="value")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(
            done.stdout,
            rf"FAILED seed {SEED}: storm: seed {SEED}, rank \d+: call \d+ .*tensor '.*': "
            r"element 0 is -?\d+, not -?\d+",
        )
        self.assertRegex(done.stdout, rf"dabkerun'? -np \d+ .*storm_worker'? {SEED}\n")
        self.assertIn(f"failing seeds: {SEED}", done.stdout)

    def test_a_rank_that_stops_is_told_as_a_hang(self):
        for patience in (3, 12, 48):  # on a busy machine, the job may need more time to reach its end
            done = storm(str(SEED), "1", mistake="stop", patience=patience)
            hang = rf"HANG: nothing has begun or ended for {patience} s; 1 pending:\n.*the barrier before"
            if re.search(hang, done.stdout):
                break
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, hang)

    def test_a_job_that_runs_past_its_limit_is_stopped(self):
        done = storm(str(SEED), "1", "--limit", "2", mistake="stop", patience=60)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"hung: stopped after")

    def test_every_seed_has_a_plan_of_its_own(self):
        plans = {show(seed).split("\n", 1)[1] for seed in range(1, 51)}
        self.assertEqual(len(plans), 50)
        self.assertIn(show(1).split("\n", 1)[1], plans)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
