"""The example that compares numbers of ranks, with each example that it can run."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCALING = Path(__file__).resolve().parents[3] / "examples" / "scaling.py"
NUMBER = r" +[\d.]+"
ROW = re.compile(rf"{NUMBER * 6} % +([\d.]+) % \|{NUMBER * 4} (?:-|\d+ \([\d.]+ s\))")


def scaling(*arguments, env=None):
    command = [sys.executable, str(SCALING), "--dabkerun", os.environ["DABKERUN"], *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})}
    )


def rows_of(done):
    """Returns the table's rows, without its two heads."""
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines()[2:] if "|" in line]
    assert all(ROW.fullmatch(each) for each in rows), done.stdout
    return rows


def test_each_number_of_ranks_has_a_row_with_the_sums_of_its_profile():
    pytest.importorskip("torch")
    done = scaling("--example", "pytorch", "--np", "1", "2", "--epochs", "3", "--profiles", "--seed", "3")
    rows = rows_of(done)
    assert [each.split()[0] for each in rows] == ["1", "2"]
    assert rows[0].split()[2:6:2] == ["1.00", "1.00"], done.stdout
    profiles = re.split(r"\ndabke profile of rank 0 of (\d+): ", done.stdout)
    assert profiles[1::2] == ["1", "2"], done.stdout
    for row, profile in zip(rows, profiles[2::2]):
        batches = re.findall(r"^(?:all|broad|reduce)\w+ +\w+ +(\d+) ", profile, re.MULTILINE)
        assert sum(map(int, batches)) == int(row.split("|")[1].split()[0]) > 0, done.stdout


# The examples have tests of their own. In the full matrix, each runs under scaling.py.
EXAMPLES = ["pytorch_ddp"]
if os.environ.get("DABKE_TEST_MATRIX") == "full":
    EXAMPLES += ["jax", "keras", "tensorflow"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_runs_each_example(example):
    for module in {"jax": ["jax", "optax"], "pytorch_ddp": ["torch"]}.get(example, [example]):
        pytest.importorskip(module)
    env = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    if example == "keras":
        backends = ("torch", "jax", "tensorflow")
        env["KERAS_BACKEND"] = next(each for each in backends if importlib.util.find_spec(each))
    (row,) = rows_of(scaling("--example", example, "--np", "2", "--epochs", "2", env=env))
    assert float(ROW.fullmatch(row)[1]) > 50


def test_a_job_that_fails_ends_it_with_the_jobs_own_words(tmp_path):
    pytest.importorskip("torch")
    there = {"TMPDIR": str(tmp_path)}  # the folder of the failed job's dumps
    done = scaling("--example", "pytorch", "--np", "1", "--data", "no_such_file.csv", env=there)
    assert done.returncode == 1
    assert "No such file or directory: 'no_such_file.csv'" in done.stderr
    assert done.stderr.endswith("scaling.py: the job with -np 1 ended with status 1\n")
