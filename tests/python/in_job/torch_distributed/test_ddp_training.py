"""Training over the backend, compared with the same training in one process on all ranks' data."""

import contextlib
import copy

import pytest
from ddp import dabke, dist, torch, world  # noqa: F401

nn = torch.nn
DDP = nn.parallel.DistributedDataParallel
STEPS = 4
NEWER = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 6)

pytestmark = pytest.mark.usefixtures("world")


class Net(nn.Module):
    """A network; with `optional`, one part of it is used only in every second step."""

    def __init__(self, optional=False):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
        self.extra = nn.Linear(8, 4) if optional else None

    def forward(self, x, step=0):
        y = self.body(x)
        return y + self.extra(x) if self.extra is not None and step % 2 else y


def make(**arguments):
    torch.manual_seed(1)
    return Net(**arguments)


def data(steps=STEPS):
    """Data as [step, rank, image, pixel], the same on all ranks."""
    return torch.randn(steps, dist.get_world_size(), 6, 8, generator=torch.Generator().manual_seed(2))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def loss(model, x, step=0):
    return model(x, step).pow(2).mean()


def trained_alone(model, steps=STEPS):
    """Trains in one process. Every rank's part of the batch has the same weight, as in an average of
    gradients."""
    optimizer = sgd(model)
    for step, batch in enumerate(data(steps)):
        optimizer.zero_grad()
        (sum(loss(model, part, step) for part in batch) / len(batch)).backward()
        optimizer.step()
    return model


def train(model, rank, steps=STEPS, optimizer=None):
    optimizer = optimizer or sgd(model)
    for step, batch in enumerate(data(steps)):
        optimizer.zero_grad()
        loss(model, batch[rank], step).backward()
        optimizer.step()


def assert_close(model, reference):
    wanted = dict(reference.named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), wanted[name].detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"bucket_cap_mb": 0.001},
        {"gradient_as_bucket_view": True},
        {"static_graph": True},
        {"find_unused_parameters": True},
    ],
    ids=str,
)
def test_ddp_learns_what_one_process_learns(arguments, job):
    optional = "find_unused_parameters" in arguments
    model = make(optional=optional)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += job.rank  # DDP starts from rank 0's parameters
    ddp = DDP(model, **arguments)
    train(ddp, job.rank)
    assert_close(ddp.module, trained_alone(make(optional=optional)))


def test_no_sync_leaves_gradients_to_the_next_step(job):
    ddp, reference, batches = DDP(make()), make(), data()
    for accumulated, reduced in (batches[:2], batches[2:]):
        ddp.zero_grad()
        with ddp.no_sync():
            loss(ddp, accumulated[job.rank]).backward()
        loss(ddp, reduced[job.rank]).backward()
        reference.zero_grad()
        for batch in (accumulated, reduced):
            (sum(loss(reference, part) for part in batch) / job.size).backward()
        for mine, theirs in zip(ddp.parameters(), reference.parameters()):
            torch.testing.assert_close(mine.grad, theirs.grad)


def test_ranks_of_uneven_inputs_join(job):
    from torch.distributed.algorithms.join import Join

    ddp, reference, batches = DDP(make()), make(), data(job.size + 1)
    optimizer, other = sgd(ddp), sgd(reference)
    with Join([ddp]):
        for step in range(job.rank + 2):
            optimizer.zero_grad()
            loss(ddp, batches[step, job.rank]).backward()
            optimizer.step()
    for step in range(job.size + 1):
        other.zero_grad()
        there = [rank for rank in range(job.size) if step < rank + 2]
        (sum(loss(reference, batches[step, rank]) for rank in there) / job.size).backward()
        other.step()
    assert_close(ddp.module, reference)


def test_sparse_gradients_of_an_embedding(job):
    torch.manual_seed(3)
    model = nn.Embedding(2 * job.size, 3, sparse=True)
    reference = copy.deepcopy(model)
    ddp = DDP(model)
    ddp(torch.tensor([job.rank, job.rank + 1])).pow(2).sum().backward()
    sum(reference(torch.tensor([rank, rank + 1])).pow(2).sum() for rank in range(job.size)).div(
        job.size
    ).backward()
    torch.testing.assert_close(model.weight.grad.to_dense(), reference.weight.grad.to_dense())


def test_communication_hooks(job):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    for hook, state in (
        (default_hooks.allreduce_hook, dist.group.WORLD),
        (default_hooks.fp16_compress_hook, dist.group.WORLD),
        (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(dist.group.WORLD, start_powerSGD_iter=2)),
    ):
        ddp = DDP(nn.Linear(3, 2))
        ddp.register_comm_hook(state, hook)
        for _ in range(2):
            ddp.zero_grad()
            ddp(torch.full((2, 3), float(job.rank))).sum().backward()
        torch.testing.assert_close(ddp.module.weight.grad, torch.full((2, 3), job.size - 1.0))


def test_buffers_are_rank_0s(job):
    torch.manual_seed(job.rank)
    ddp = DDP(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)))
    for _ in range(3):
        ddp(torch.randn(6, 8)).sum().backward()
    ddp(torch.zeros(6, 8))  # the same on all ranks, after the broadcast of the buffers
    means = [torch.empty(4) for _ in range(job.size)]
    dist.all_gather(means, ddp.module[1].running_mean)
    assert all(torch.equal(each, means[0]) for each in means)


def test_a_sampler_gives_every_image_once(job):
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dataset = TensorDataset(torch.arange(10 * job.size))
    loader = DataLoader(dataset, batch_size=3, sampler=DistributedSampler(dataset))
    mine = torch.cat([batch for (batch,) in loader])
    everyones = [torch.empty_like(mine) for _ in range(job.size)]
    dist.all_gather(everyones, mine)
    assert sorted(torch.cat(everyones).tolist()) == list(range(10 * job.size))


def test_an_optimizer_whose_state_is_divided(job):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    ddp = DDP(make())
    train(
        ddp,
        job.rank,
        optimizer=ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9),
    )
    assert_close(ddp.module, trained_alone(make()))


@pytest.mark.skipif(not NEWER, reason="this torch has no FSDP on the CPU")
def test_fsdp(job):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy

    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        model = FSDP(make(), device_id=torch.device("cpu"), sharding_strategy=strategy, use_orig_params=True)
        train(model, job.rank)
        reference = trained_alone(make())
        with FSDP.summon_full_params(model):
            for mine, theirs in zip(model.parameters(), reference.parameters()):
                torch.testing.assert_close(mine.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not NEWER, reason="this torch has no FSDP2")
def test_fsdp2(job):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = make()
    mesh = init_device_mesh("cpu", (job.size,))
    fully_shard(model.body[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, job.rank)
    for mine, theirs in zip(model.parameters(), trained_alone(make()).parameters()):
        torch.testing.assert_close(mine.full_tensor(), theirs.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not NEWER, reason="this torch has no FSDP2")
def test_tensor_parallelism_within_fsdp2(job):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    parts = 2 if job.size % 2 == 0 else 1  # of each matrix; its 32 rows have no three equal ones
    replicas = job.size // parts
    mesh = init_device_mesh("cpu", (replicas, parts), mesh_dim_names=("data", "model"))
    model = make()
    parallelize_module(model.body, mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    train(model, mesh["data"].get_local_rank())
    alone = make()
    optimizer = sgd(alone)
    for batch in data()[:, :replicas]:
        optimizer.zero_grad()
        (sum(loss(alone, part) for part in batch) / replicas).backward()
        optimizer.step()
    for mine, theirs in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(mine.full_tensor(), theirs.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not NEWER, reason="this torch has no DTensor")
def test_dtensor_and_functional_collectives(job):
    from torch.distributed import _functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (job.size,))
    whole = torch.arange(24.0 * job.size).view(-1, 4)
    by_rows = distribute_tensor(whole, mesh, [Shard(0)])
    for placement in (Shard(1), Replicate()):
        torch.testing.assert_close(by_rows.redistribute(mesh, [placement]).full_tensor(), whole)
    torch.testing.assert_close(by_rows.sum().full_tensor(), whole.sum())
    reduced = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
    torch.testing.assert_close(reduced + 0, torch.full((3,), float(job.size)))
    with contextlib.suppress(AttributeError):
        got = functional.reduce_scatter_tensor(torch.ones(job.size), "sum", 0, dist.group.WORLD)
        torch.testing.assert_close(got + 0, torch.full((1,), float(job.size)))
