"""torch.distributed's backend on tensors of a CUDA device, over the doubles of tests/fake_cuda.

A PyTorch without CUDA has a device of the program's own instead (far_device.py), and no futures of CUDA
devices. The test that a future makes streams wait is in tests/gpu/torch_job.py.
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
import torch.distributed as dist
from datetime import timedelta
from dabke.torch import device_streams

beside = open_stream(0)
torch.cuda.Stream = lambda device: SimpleNamespace(cuda_stream=beside)
torch.cuda.get_device_capability = lambda device: (8, 0)
begin_future = torch.futures.Future.__init__
torch.futures.Future.__init__ = lambda self, *, devices=None: begin_future(self)
dist.init_process_group("dabke")
rank = dist.get_rank()
mine = torch.tensor([1.0, 2.0, 3.0, 4.0]) * (rank + 1)
total = [3, 6, 9, 12]

def late_input():
    tensor = torch.zeros(4).to("far")
    return tensor, Late(tensor, mine)
"""
)


@pytest.fixture
def run_there(run):
    return lambda text, **more: run(
        BEGIN + text + '\ndist.destroy_process_group()\nprint("done")\n', env={**ON_ONE_DEVICE, **more}
    )


def check_done(done):
    assert done.code == 0, done.output
    assert done.lines_of(0) == done.lines_of(1) == ["done"], done.output


def test_every_collective_is_right_and_the_host_does_not_wait_for_its_data(run_there):
    check_done(
        run_there('''
def check(call, outputs, want):
    tensor, late = late_input()
    work = call(tensor)
    assert work.wait() and not any(each.poll() for each in work._handles)
    late.let()
    for output, values_wanted in zip(outputs if outputs is not None else [tensor], want):
        assert values(output) == values_wanted, (values(output), values_wanted)

def empty(*shape):
    return torch.zeros(*shape).to("far")

def halves(count):
    """Neighbours in memory, into which results come without a copy."""
    both = empty(2 * count)
    return [both[:count], both[count:]]

check(lambda x: dist.all_reduce(x, async_op=True), None, [total])
check(lambda x: dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True), None, [[1.5, 3, 4.5, 6]])
check(lambda x: dist.broadcast(x, 1, async_op=True), None, [[2, 4, 6, 8]])
tensor, late = late_input()
work = dist.reduce(tensor, 0, async_op=True)
assert work.wait()
late.let()
assert rank != 0 or values(tensor) == total
parts = halves(4)
check(lambda x: dist.all_gather(parts, x, async_op=True), parts, [[1, 2, 3, 4], [2, 4, 6, 8]])
whole = empty(8)
check(lambda x: dist.all_gather_into_tensor(whole, x, async_op=True), [whole], [[1, 2, 3, 4, 2, 4, 6, 8]])
half = empty(2)
check(lambda x: dist.reduce_scatter_tensor(half, x, async_op=True), [half], [total[:2] if rank == 0 else total[2:]])
other = empty(2)
check(lambda x: dist.reduce_scatter(other, [x[:2], x[2:]], async_op=True), [other], [total[:2] if rank == 0 else total[2:]])
swapped = empty(4)
check(lambda x: dist.all_to_all_single(swapped, x, async_op=True), [swapped], [[1, 2, 2, 4] if rank == 0 else [3, 4, 6, 8]])
got = halves(2)
check(lambda x: dist.all_to_all(got, [x[:2], x[2:]], async_op=True), got, [[1, 2], [2, 4]] if rank == 0 else [[3, 4], [6, 8]])
collected = halves(4)
check(lambda x: dist.gather(x, collected if rank == 0 else None, async_op=True), collected, [[1, 2, 3, 4], [2, 4, 6, 8]] if rank == 0 else [])
share = empty(2)
check(lambda x: dist.scatter(share, [x[:2], x[2:]] if rank == 0 else None, async_op=True), [share], [[1, 2]] if rank == 0 else [[3, 4]])
# With copies, which this device makes while the host waits.
parts = [empty(4), empty(4)]
dist.all_gather(parts, mine.to("far"))
assert [values(each) for each in parts] == [[1, 2, 3, 4], [2, 4, 6, 8]]
dist.barrier()
assert len(device_streams._unobserved) <= 2
''')
    )


def test_a_wait_with_a_limit_comes_back_when_the_data_is_there(run_there):
    check_done(
        run_there("""
tensor, late = late_input()
work = dist.all_reduce(tensor, async_op=True)
try:
    work.wait(timedelta(seconds=0.05))
    raise AssertionError("the data cannot be there")
except TimeoutError:
    pass
late.let()
assert work.wait(timedelta(seconds=300)) and work.is_completed() and work.is_success()
assert values(tensor) == total
""")
    )


def test_a_future_is_complete_once_the_device_has_the_operation(run_there):
    check_done(
        run_there("""
tensor, late = late_input()
work = dist.all_reduce(tensor, async_op=True)
told = threading.Event()
future = work.get_future().then(lambda done: (told.set(), done.value())[1])
assert told.wait(300) and not work.is_completed()
late.let()
assert values(future.wait()[0]) == total
""")
    )


def test_a_model_is_trained_as_on_the_host(run_there):
    check_done(
        run_there("""
def trained(device):
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)).to(device)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(4):
        data = torch.randn(5, 4).to(device)
        optimizer.zero_grad()
        parallel(data).square().mean().backward()
        optimizer.step()
    return torch.cat([each.detach().cpu().flatten() for each in model.parameters()])

there, here = trained("far"), trained("cpu")
assert torch.allclose(there, here, atol=1e-6), (there, here)
""")
    )


def test_what_fails_after_a_wait_is_raised_by_the_next_one_or_the_end(run_there):
    for last in ("dist.all_reduce(tensor)", "dist.destroy_process_group()"):
        done = run_there(
            """
tensor, late = late_input()
work = dist.all_reduce(tensor, async_op=True)
assert work.wait()
late.let()
try:
    LAST
    print("nothing was raised")
except dabke.HorovodInternalError:
    print("raised")
os._exit(0)
""".replace("LAST", last).replace("dabke.Horovod", "hvd.Horovod"),
            FAKE_CUDA_PLAN="ncclAllReduce * 1 async=6",
        )
        assert done.lines_of(0) == done.lines_of(1) == ["raised"], done.output
