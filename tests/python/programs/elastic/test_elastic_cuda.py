"""A state on a CUDA device in an elastic job, over the doubles of tests/fake_cuda.

A PyTorch without CUDA has a device of the program's own instead (far_device.py). A lost rank breaks the
communicator of the device, and each epoch makes it anew.
"""

import os
import re
import sys

import dabke
import pytest
from far_device import CUDA, ON_ONE_DEVICE
from killed_rank_0 import BEGIN, FLAGS, weights_by_arithmetic
from running_job import RunningJob

if not dabke.backend_built("nccl") or "DABKE_TEST_DOUBLES" not in os.environ:
    pytest.skip("it needs a build with -Dcuda, and DABKE_TEST_DOUBLES", allow_module_level=True)

PROGRAM = (
    CUDA
    + BEGIN
    + """
hvd.init()
model = torch.nn.Linear(3, 1, bias=False)
torch.nn.init.zeros_(model.weight)
model.to("far")
optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, count=torch.zeros(2).to("far"), step=0)

@hvd.elastic.run
def train(state):
    for steps_here in range(10**6):
        if is_done(steps_here):
            return
        optimizer.zero_grad()
        loss = model(data_of(state.step).reshape(1, 3).to("far")).sum()
        die_once(state.step)
        loss.backward()
        optimizer.step()
        state.count += 1
        state.step += 1
        note(state.step)
        state.commit()

train(state)
moving = optimizer.state[model.weight]["momentum_buffer"]
print("end", hvd.rank(), hvd.size(), state.step, values(state.count), values(model.weight)[0], values(moving)[0],
      flush=True)
"""
)


def test_a_state_on_a_device_is_restored_and_sent_to_a_new_rank(program, tmp_path):
    folder = tmp_path / "steps"
    folder.mkdir()
    words = [*FLAGS, sys.executable, str(program(PROGRAM)), str(folder)]
    with RunningJob(words, ON_ONE_DEVICE) as job:
        output = job.finish()
    assert re.search(r"epoch 2: rank 0 \(host \S+\) was killed by SIGKILL", output), output
    ends = re.findall(r"end (\d) 3 (\d+) (.*)", output)
    assert sorted(rank for rank, *_ in ends) == ["0", "1", "2"], output
    assert len({(steps, values) for _, steps, values in ends}) == 1, output
    steps, numbers = int(ends[0][1]), [float(each) for each in re.findall(r"-?[\d.]+", ends[0][2])]
    wanted, sizes = weights_by_arithmetic(folder, steps, momentum=0.5)
    assert numbers[:2] == [steps, steps], output
    assert numbers[2:5] == pytest.approx(wanted, rel=1e-4), output
    assert sizes[2] > 0 and sizes[3] >= 40, sizes
