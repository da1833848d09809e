"""Jobs of Python under faults: some of the faults of the campaign (docs/reliability.md)."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_survivors_of_faults_know_who_is_to_blame_and_have_no_wrong_result():
    if not (ROOT / "build/tests/storm/storm_worker").exists():
        pytest.skip("it takes the hand that strikes from the configuration default, which has not been built")
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "tests/fault/run",
            "--only",
            "python",
            "--seeds",
            "1:1001",
            "--for",
            "15",
            "--build",
            ROOT / "build",
            "--python",
            pathlib.Path(os.environ["DABKERUN"]).parents[1],
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
