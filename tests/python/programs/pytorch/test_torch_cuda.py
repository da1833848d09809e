"""PyTorch's tensors on a CUDA device, over the doubles of tests/fake_cuda: its stream waits for results, its
host does not.

A PyTorch without CUDA has a device of the program's own instead (far_device.py). The tests with a real device
are in tests/gpu/torch_job.py.
"""

import os

import dabke
import pytest
from far_device import CUDA, ON_ONE_DEVICE

if not dabke.backend_built("nccl") or "DABKE_TEST_DOUBLES" not in os.environ:
    pytest.skip("it needs a build with -Dcuda, and DABKE_TEST_DOUBLES", allow_module_level=True)

BEGIN = (
    CUDA
    + """
hvd.init()
rank = hvd.rank()
"""
)
MODEL = '''
parameter = torch.nn.Parameter(torch.zeros(3).to("far"))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))

def begin_step():
    """The gradient is written late."""
    parameter.grad = torch.zeros(3).to("far")
    return Late(parameter.grad, torch.tensor([1.0, 2.0, 3.0]) * (rank + 1))

def step(late):
    optimizer.synchronize()
    late.let()
    with optimizer.skip_synchronize():
        optimizer.step()
'''


@pytest.fixture
def run_there(run):
    return lambda text, **more: run(BEGIN + text, env={**ON_ONE_DEVICE, **more})


def test_what_synchronize_gives_is_there_for_the_stream_and_the_host_has_not_waited(run_there):
    done = run_there("""
mine = torch.tensor([1.0, 2.0, 3.0]) * (rank + 1)
def late_input():
    tensor = torch.zeros(3).to("far")
    return tensor, Late(tensor, mine)

def check(call, want):
    tensor, late = late_input()
    result = call(tensor)
    late.let()
    assert values(result) == want, (values(result), want)

total = [3, 6, 9]
check(lambda x: hvd.allreduce(x, op=hvd.Sum, name="a"), total)
check(lambda x: hvd.synchronize(hvd.allreduce_async_(x, op=hvd.Sum, name="b")), total)
check(lambda x: hvd.allreduce_(x, op=hvd.Max, name="c"), [2, 4, 6])
check(lambda x: hvd.broadcast(x, 1, name="d"), [2, 4, 6])
check(lambda x: hvd.broadcast_(x, 1, name="e"), [2, 4, 6])
check(lambda x: hvd.allgather(x, name="f"), [1, 2, 3, 2, 4, 6])
check(lambda x: hvd.alltoall(x[:2], name="g"), [1, 2] if rank == 0 else [2, 4])
beside = torch.ones(2).to("far")
check(lambda x: hvd.grouped_allreduce([x, beside], op=hvd.Sum, name="h")[0], total)
check(lambda x: hvd.reducescatter(x, op=hvd.Sum, name="i"), [3, 6] if rank == 0 else [9])
received, splits = hvd.alltoall(mine.to("far"), splits=[3, 0], name="j")
assert values(received) == ([1, 2, 3, 2, 4, 6] if rank == 0 else []) and values(splits) == ([3, 3] if rank == 0 else [0, 0])
learned = mine.to("far").requires_grad_()
(hvd.allreduce(learned, op=hvd.Sum, name="k") * 2).sum().backward()
assert values(learned.grad) == [4, 4, 4]
assert [values(hvd.allreduce(mine.to("far"), name="again"))[0] for _ in range(20)] == [1.5] * 20  # a name is free again
tensor, late = late_input()
handle = hvd.allreduce_async(tensor, name="l")
hvd.synchronize(handle)
check_waits_on_the_host_are_none(late, handle)
hvd.shutdown()
print("done")
""")
    assert done.code == 0, done.output
    assert done.lines_of(0) == ["done"], done.output


def test_an_optimizer_steps_behind_its_gradients_and_keeps_no_handles(run_there):
    done = run_there(
        MODEL
        + """
from dabke.torch import device_streams
for number in range(1, 6):
    step(begin_step())
    assert values(parameter.detach()) == [-1.5 * number, -3 * number, -4.5 * number], values(parameter.detach())
    assert len(optimizer._reducer._unobserved) <= 1 and len(device_streams._unobserved) <= 2
optimizer.state_dict()
assert len(optimizer._reducer._unobserved) == 0
hvd.shutdown()
assert len(device_streams._unobserved) == 0
print("done")
"""
    )
    assert done.code == 0, done.output
    assert done.lines_of(0) == ["done"], done.output


def test_a_model_that_lies_there_learns_what_it_learns_on_the_host(run_there):
    done = run_there("""
def trained(device, passes=1, **arguments):
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + rank), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), backward_passes_per_step=passes, **arguments)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    data = torch.randn(5, 4).to(device)
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(passes):
            model(data).square().mean().backward()
        optimizer.step()
    return torch.cat([each.detach().cpu().flatten() for each in model.parameters()])

for arguments in ({}, {"groups": 1}, {"compression": hvd.Compression.fp16}, {"passes": 2}, {"op": hvd.Sum}):
    there, here = trained("far", **arguments), trained("cpu", **arguments)
    everyones = hvd.allgather(there.unsqueeze(0))
    print(torch.allclose(there, here, atol=1e-6), torch.equal(everyones[0], everyones[1]))
""")
    assert done.code == 0, done.output
    assert done.lines_of(0) == ["True True"] * 5, done.output


FAILS = (
    MODEL
    + """
step(begin_step())
late = begin_step()
optimizer.synchronize()  # nothing has failed yet
late.let()               # now it does
with optimizer.skip_synchronize():
    optimizer.step()
weights = values(parameter.detach())
"""
)


@pytest.mark.parametrize(
    "where, call",
    [
        ("the next step", 'parameter.grad = torch.ones(3).to("far"); optimizer.step()'),
        ("a checkpoint", "optimizer.state_dict()"),
        ("the end", "hvd.shutdown()"),
    ],
)
def test_what_fails_behind_the_host_s_back_is_raised_by(run_there, where, call):
    done = run_there(
        FAILS
        + f"""
try:
    {call}
    print("nothing was raised")
except hvd.HorovodInternalError as error:
    print(type(error).__name__, values(parameter.detach()) == weights)
hvd.shutdown()  # and it is not told twice
""",
        FAKE_CUDA_PLAN="ncclAllReduce * 2 async=6",
    )
    assert done.code == 0, done.output
    for rank in range(2):
        assert [line.split()[1] for line in done.lines_of(rank)] == ["True"], done.output


def test_what_fails_last_of_all_is_printed_at_the_exit(run_there):
    done = run_there(FAILS, FAKE_CUDA_PLAN="ncclAllReduce * 2 async=6")
    # One traceback per rank.
    assert done.output.count("in _print_last_failure") == 2 and "dabke.errors." in done.output, done.output
