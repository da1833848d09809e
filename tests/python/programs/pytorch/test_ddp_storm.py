"""Random programs of torch.distributed (tests/python/storm), and mistakes that their judge finds."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")
pytest.importorskip("torch.distributed")
if not hasattr(torch.distributed, "send_object_list"):
    pytest.skip("the programs need PyTorch 2.5", allow_module_level=True)

RUN = pathlib.Path(__file__).resolve().parents[2] / "storm" / "run"
BLOCK = 50  # seeds with one number of ranks and one set of settings
SEEDS = 25  # of a block
# A block has one number of ranks, and one of four has TORCH_DISTRIBUTED_DEBUG=DETAIL: 12 days for all.
OF_TODAY = BLOCK * (int(os.environ.get("DABKE_TEST_DAY", "0")) % 1200)


def run(*arguments):
    """The limit is only for a hang."""
    return subprocess.run(  # noqa: PLW1510  the caller checks the status
        [sys.executable, str(RUN), *map(str, arguments), "--dabkerun", os.environ["DABKERUN"]],
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_random_programs():
    done = run(OF_TODAY, SEEDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SEEDS} of {SEEDS} seeds passed" in done.stdout, done.stdout


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch has no Gloo")
def test_the_expectations_hold_over_gloo():
    done = run(OF_TODAY, 3, "--gloo")
    assert done.returncode == 0, done.stdout + done.stderr


# The last rank makes the mistake at every call.
@pytest.mark.parametrize("mistake", ["value", "gap", "input"])
def test_the_judge_finds_wrong_memory(mistake):
    done = run(1, 1, "--mistake", mistake)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED seed 1:" in done.stdout, done.stdout
    where = "a gap between tensors" if mistake == "gap" else "element 0 of tensor"
    assert re.search(rf"rank 1: step \d+ .*differ, first.*{where}", done.stdout), done.stdout


def test_the_judge_finds_a_rank_that_leaves_out_a_call():
    done = run(1, 1, "--mistake", "skip", "--limit", 3)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"rank \d hangs in lane 0: .*step \d", done.stdout), done.stdout
