"""Random elastic jobs (tests/elastic), and mistakes that their judge finds."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

RUN = pathlib.Path(__file__).resolve().parents[3] / "elastic" / "run"


@pytest.fixture(name="run")
def runner(tmp_path):
    """Runs seeds. Logs of seeds that fail stay in the test's folder."""
    return lambda *arguments: run_seeds({**os.environ, "TMPDIR": str(tmp_path)}, *arguments)


def run_seeds(environment, *arguments):
    """The limit is only for a hang."""
    return subprocess.run(  # noqa: PLW1510  the caller checks the status
        [sys.executable, str(RUN), *arguments, "--dabkerun", os.environ["DABKERUN"]],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


# Job 23 begins with one rank.
@pytest.mark.every_variant
@pytest.mark.parametrize(("seed", "count"), [(1, 6), (23, 1)])
def test_random_jobs_on_one_host(run, seed, count):
    done = run(str(seed), str(count))
    assert done.returncode == 0, done.stdout + done.stderr
    finished = re.search(r"(\d) jobs finished their training, (\d) ended early with a loss", done.stdout)
    assert sum(map(int, finished.groups())) == count, done.stdout
    assert int(finished[1]) >= count // 2, done.stdout


# In job 20036, a rank of another host dies while links are made.
@pytest.mark.every_variant
@pytest.mark.parametrize(("seed", "count"), [(1, 4), (20036, 1)])
def test_random_jobs_on_several_hosts(run, seed, count):
    done = run(str(seed), str(count), "--hosts", "4")
    if "NotPermitted" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_judge_finds_a_rank_whose_sum_is_rounded_otherwise(run):
    done = run("1", "1", "--mistake", "one-rounds")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"rank \d has other inexact_bits than rank", done.stdout), done.stdout


def test_the_judge_finds_a_rank_that_ignores_who_holds_the_state(run):
    done = run("11", "6", "--mistake", "ignore-roster")  # about every second job shows it
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^seed 1\d failed", done.stdout, re.MULTILINE), done.stdout
