"""The program that tests/gpu runs on a CUDA machine with PyTorch, here on the host. It checks the program,
not a GPU."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
JOB = Path(__file__).resolve().parents[3] / "gpu" / "torch_job.py"


@pytest.mark.parametrize("part, groups", (("tensors", 3), ("ddp", 4)))
def test_the_checks_of_a_cuda_machine_pass_on_the_host(run, part, groups):
    done = run(f"""
import runpy, sys
sys.argv = ['torch_job.py', {part!r}, '--cpu']
runpy.run_path({str(JOB)!r}, run_name='__main__')
""")
    assert done.code == 0, done.output
    assert f"{groups} groups of checks passed" in done.output, done.output
    assert part == "tensors" or "times, paired" in done.output, done.output
