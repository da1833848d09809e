"""PyTorch's kinds of parallelism over the backend: tensors, pipelines, sharded state, checkpoints.

Each result is compared with the same computation in one process.
"""

import copy
import tempfile

import pytest
from ddp import dist, torch, world  # noqa: F401

pytestmark = [
    pytest.mark.usefixtures("world"),
    pytest.mark.skipif(
        tuple(int(each) for each in torch.__version__.split(".")[:2]) < (2, 6),
        reason="this version of torch lacks some of these",
    ),
]
close = torch.testing.assert_close


def cpu_mesh(job):
    return dist.device_mesh.init_device_mesh("cpu", (job.size,))


def layers(count, width=6):
    torch.manual_seed(7)
    return [torch.nn.Linear(width, width) for _ in range(count)]


def test_inference_mode(job):
    with torch.inference_mode():
        tensor = torch.ones(4, 4)
        dist.all_reduce(tensor[:, ::2])
        assert tensor[0].tolist() == [job.size, 1] * 2
        parts = [torch.empty(2) for _ in range(job.size)]
        dist.all_gather(parts, torch.full((2,), float(job.rank)))
        assert [each[0].item() for each in parts] == list(range(job.size))


def test_gradients_of_torch_func_are_reduced(job):
    gradient = torch.func.grad(lambda x: (x * (job.rank + 1)).pow(2).sum())(torch.ones(3))
    dist.all_reduce(gradient)
    close(gradient, torch.full((3,), 2.0 * sum((rank + 1) ** 2 for rank in range(job.size))))


def test_functional_collectives(job, world):
    from torch.distributed import _functional_collectives as functional

    mine = torch.arange(4.0) + job.rank
    of_all = torch.cat([torch.arange(4.0) + rank for rank in range(job.size)])
    total = sum(torch.arange(4.0) + rank for rank in range(job.size))
    close(functional.all_reduce(mine, "sum", world) + 0, total)
    gathered = functional.all_gather_tensor(mine, 0, world) + 0
    close(gathered, of_all)
    close(functional.reduce_scatter_tensor(gathered, "sum", 0, world) + 0, job.size * mine)
    close(functional.broadcast(mine, job.size - 1, world) + 0, torch.arange(4.0) + job.size - 1)
    sent = functional.all_to_all_single(torch.full((job.size,), float(job.rank)), None, None, world)
    close(sent + 0, torch.arange(float(job.size)))
    for each in functional.all_reduce_coalesced([mine, 2 * mine], "sum", world):
        close((each + 0) / (each + 0)[-1], total / total[-1])
    for each in functional.all_gather_into_tensor_coalesced([mine, mine], world):
        close(each + 0, of_all)


def test_gradients_through_collectives(job):
    functions = pytest.importorskip("torch.distributed.nn.functional")

    def gradient(call, shape=(3,)):
        x = torch.ones(shape, requires_grad=True)
        call(x).sum().backward()
        return x.grad

    close(gradient(lambda x: torch.stack(functions.all_gather(x))), torch.full((3,), float(job.size)))
    close(gradient(lambda x: functions.all_reduce(x * 2)), torch.full((3,), 2.0 * job.size))
    close(
        gradient(lambda x: functions.reduce_scatter(torch.empty(3), [x * (job.rank + 1)] * job.size)),
        torch.full((3,), float(job.size * (job.rank + 1))),
    )
    shape = (2 * job.size,)
    close(
        gradient(lambda x: functions.all_to_all_single(torch.empty(shape), x * 1), shape), torch.ones(shape)
    )


def test_tensor_parallel_layers(job):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    width = 4 * job.size
    model = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 4))
    alone, inputs = copy.deepcopy(model), torch.randn(3, 4)
    parallelize_module(model, cpu_mesh(job), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    outputs, expected = model(inputs), alone(inputs)
    close(outputs, expected, rtol=1e-5, atol=1e-6)
    outputs.sum().backward()
    expected.sum().backward()
    close(model[0].weight.grad.full_tensor(), alone[0].weight.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble"]
)
def test_pipelines(name, job):
    pipelining = pytest.importorskip("torch.distributed.pipelining")
    per_rank = 2 if "Interleaved" in name else 1
    count = per_rank * job.size
    mine, alone = layers(count), layers(count)
    inputs, targets = torch.randn(8, 6), torch.randn(8, 6)

    def loss(outputs, targets):
        return (outputs - targets).pow(2).mean()

    numbers = range(job.rank, count, job.size)
    stages = [
        pipelining.PipelineStage(mine[number], number, count, torch.device("cpu")) for number in numbers
    ]
    schedule = getattr(pipelining, name, None) or getattr(pipelining.schedules, name)
    losses = []
    pipeline = schedule(stages if per_rank > 1 else stages[0], 4, loss_fn=loss)
    pipeline.step(
        *([inputs] if job.rank == 0 else []),
        **({"target": targets, "losses": losses} if job.rank == job.size - 1 else {}),
    )
    for part, target in zip(inputs.chunk(4), targets.chunk(4)):
        (loss(torch.nn.Sequential(*alone)(part), target) / 4).backward()
    for number in numbers:
        close(mine[number].weight.grad, alone[number].weight.grad, rtol=1e-4, atol=1e-5)
    assert len(losses) == (4 if job.rank == job.size - 1 else 0)


def test_a_checkpoint_is_saved_while_training_goes_on(job):
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    folder = [tempfile.mkdtemp() if job.rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 20))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = {name: each.clone() for name, each in model.module.state_dict().items()}
    group = dist.new_group()
    saving = checkpoint.async_save(
        {"model": model.module.state_dict()}, checkpoint_id=folder[0], process_group=group
    )
    steps, is_saved = 0, torch.zeros(1)
    while steps < 10 or not is_saved.item():
        model(torch.randn(4, 20)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        is_saved.fill_(float(saving.done()))
        dist.all_reduce(is_saved, dist.ReduceOp.MIN)
        steps += 1
    saving.result()
    state = {"model": {name: torch.zeros_like(each) for name, each in before.items()}}
    checkpoint.load(state, checkpoint_id=folder[0])
    for name, each in before.items():
        assert torch.equal(state["model"][name], each)
        assert not torch.equal(model.module.state_dict()[name], each)


def test_an_optimizer_that_steps_within_the_backward_pass(job):
    from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = torch.nn.Sequential(*layers(3))
    alone = copy.deepcopy(model)
    ddp = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    zero = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.SGD, lr=0.01, overlap_with_ddp=True)
    ddp.register_comm_hook(None, hook_with_zero_step(allreduce_hook, ddp, zero))
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.01)
    inputs = torch.randn(job.size, 6)
    for step in range(5):
        ddp.zero_grad(set_to_none=False)
        ddp(inputs[job.rank : job.rank + 1]).pow(2).mean().backward()
        if step >= 2:  # the first two passes only count the buckets
            alone(inputs).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    for mine, theirs in zip(model.parameters(), alone.parameters()):
        close(mine.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)


def test_groups_of_a_mesh(job):
    mesh = dist.device_mesh.init_device_mesh("cpu", (job.size, 1), mesh_dim_names=("replicas", "shards"))
    for name, size in (("replicas", job.size), ("shards", 1)):
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=mesh.get_group(name))
        assert tensor.item() == size
    mine, groups = dist.new_subgroups(1)
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=mine)
    assert tensor.item() == 1 and len(groups) == job.size
