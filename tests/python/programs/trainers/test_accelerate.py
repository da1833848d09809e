"""Accelerate's own scripts over the backend dabke, unchanged."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")

SCRIPTS = Path(accelerate.__file__).parent / "test_utils" / "scripts"
# On the CPU, PartialState() takes no part in a job unless the program has made PartialState(cpu=True) before.
START = """
import runpy, sys
import dabke.distributed
import torch, torch.distributed as dist
from accelerate import PartialState

dist.init_process_group("dabke")
print("size", PartialState(cpu=True).num_processes, "group", dist.group.WORLD.name(), flush=True)
"""
ENV = {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}


def check(done):
    assert done.code == 0, done.output
    for rank in (0, 1):
        lines = done.lines_of(rank)
        assert lines[0] == "size 2 group dabke" and lines[-1] == "done", done.output


@pytest.mark.every_variant
@pytest.mark.parametrize("script", ["test_ops.py", "test_sync.py", "test_script.py"])
def test_a_script_of_accelerate_passes(run, script):
    check(
        run(
            START + 'runpy.run_path(sys.argv[1], run_name="__main__")\nprint("done")\n',
            arguments=[SCRIPTS / script],
            env=ENV,
        )
    )


def test_the_comm_hooks_of_accelerate_give_the_gradients_of_ddp(run):
    # The script passes device_ids, which torch refuses on the CPU. Torch refuses bfloat16 hooks there too.
    check(
        run(
            START
            + """
from accelerate import DDPCommunicationHookType as Hook
from accelerate.test_utils.scripts.test_ddp_comm_hook import test_ddp_comm_hook

class OnCpu(torch.nn.parallel.DistributedDataParallel):
    def __init__(self, module, device_ids=None, output_device=None, **more):
        super().__init__(module, **more)

torch.nn.parallel.DistributedDataParallel = OnCpu
for hook, wrapper, options in [
    (Hook.NO, Hook.NO, {}),
    (Hook.FP16, Hook.NO, {}),
    (Hook.POWER_SGD, Hook.NO, {}),
    (Hook.POWER_SGD, Hook.FP16, {}),
    (Hook.POWER_SGD, Hook.NO, {"matrix_approximation_rank": 2}),
    (Hook.BATCHED_POWER_SGD, Hook.NO, {}),
    (Hook.BATCHED_POWER_SGD, Hook.FP16, {}),
]:
    test_ddp_comm_hook(hook, wrapper, options)
PartialState().destroy_process_group()
print("done")
""",
            env=ENV,
        )
    )
