"""A rank that joins an elastic job later, and calls that need the other ranks."""

import re
import sys

import pytest
from running_job import RunningJob

FLAGS = ("-np", "2", "--min-np", "1", "--max-np", "2", "--blacklist-cooldown-range", "0.1", "0.1")
PROGRAM = """
    import os, pathlib, signal, sys, time
    import dabke, numpy

    pair = dabke.ProcessSet([0, 1])
    dabke.init(process_sets=[pair])
    is_late = min(dabke.current_epoch().former_ranks) < 0 <= max(dabke.current_epoch().former_ranks)
    refused = pathlib.Path(sys.argv[1])
    try:
        {call}
    except ValueError as error:
        print("refused:", error, flush=True)
        refused.touch()
        raise
    state = dabke.elastic.ObjectState(step=0)

    @dabke.elastic.run
    def train(state):
        while not (dabke.current_epoch().number > 1 and dabke.size() == {wanted} and {end}):
            time.sleep(0.01)
            if (dabke.current_epoch().number, dabke.rank(), state.step) == (1, 1, 10):
                os.kill(os.getpid(), signal.SIGKILL)
            dabke.barrier()
            state.step += 1
            state.commit()
        {last}

    train(state)
    print("done", dabke.rank(), dabke.size(), flush=True)
"""


def run_job(program, tmp_path, call, wanted, end, last="return"):
    text = PROGRAM.format(call=call, wanted=wanted, end=end, last=last)
    with RunningJob([*FLAGS, sys.executable, str(program(text)), str(tmp_path / "refused")]) as job:
        return job.finish()


@pytest.mark.parametrize(
    "call",
    [
        "dabke.add_process_set([0])",
        "dabke.add_process_set([0, 1], among_members=True) if is_late else None",
        "import dabke.distributed, torch.distributed as dist; dist.init_process_group('dabke')",
    ],
    ids=["add_process_set", "among_members", "init_process_group"],
)
def test_a_call_that_the_late_rank_makes_alone_is_an_error_there(call, program, tmp_path):
    if "torch" in call:
        pytest.importorskip("torch.distributed")
    output = run_job(program, tmp_path, call, 1, "refused.exists()")
    refusal = r"refused: \w+: rank 1 has joined the job in epoch \d, and the other ranks are in elastic.run"
    assert re.search(refusal, output), output
    assert "<stdout>:done 0 1" in output, output


def test_a_late_rank_has_the_sets_of_init_and_adds_sets_in_training(program, tmp_path):
    last = (
        "one = dabke.add_process_set([1]); "
        "total = dabke.allreduce(numpy.ones(1), op=dabke.Sum, process_set=pair)[0]; "
        "print('sets', one.ranks, one.size(), total, flush=True)"
    )
    output = run_job(program, tmp_path, "pass", 2, "True", last)
    assert output.count("sets [1] 1 2.0") == 2, output
    for rank in 0, 1:
        assert f"[{rank}]<stdout>:done {rank} 2" in output, output
