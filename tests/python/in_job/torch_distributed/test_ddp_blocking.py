"""Torch's blocking calls: the thread that waits does the work, and no other thread is woken for it."""

import inspect

import pytest
from ddp import dabke, dist, equal, torch, world  # noqa: F401

import dabke.torch.distributed.flight_recorder as flight_recorder
from dabke import _core

pytestmark = pytest.mark.usefixtures("world")

options_know_async = pytest.mark.skipif(
    not hasattr(dist.BroadcastOptions(), "asyncOp"),
    reason="the options of this version of torch do not say whether the call is asynchronous",
)
isend_is_called = pytest.mark.skipif(
    "isend" not in dist.send.__wrapped__.__code__.co_names if hasattr(dist.send, "__wrapped__") else True,
    reason="send of this version of torch calls the group itself",
)


@pytest.fixture
def waits(monkeypatch):
    """The functions of the compiled part that were called, with their argument `wait_follows`."""
    seen = []

    def spied(name, function):
        def call(*arguments):
            seen.append((name, arguments[-1] is True))
            return function(*arguments)

        return call

    for name in ("allreduce", "broadcast", "allgather", "alltoall", "send", "recv"):
        monkeypatch.setattr(_core, name, spied(name, getattr(_core, name)))
    return seen


def calls_of(job):
    """Calls that take a value for async_op, with the function of the compiled part that they use."""
    one, whole = torch.ones(4), torch.empty(4 * job.size)
    parts = [torch.empty(4) for _ in range(job.size)]
    return {
        "allreduce": lambda flag: dist.all_reduce(one, async_op=flag),
        "broadcast": lambda flag: dist.broadcast(one, 0, async_op=flag),
        "allgather": lambda flag: dist.all_gather(parts, one, async_op=flag),
        "alltoall": lambda flag: dist.all_to_all_single(whole, torch.ones_like(whole), async_op=flag),
    }


@options_know_async
@pytest.mark.parametrize("name", ["allreduce", "broadcast", "allgather", "alltoall"])
def test_a_blocking_collective_is_left_to_its_waiter(name, job, waits):
    call = calls_of(job)[name]
    call(False)
    call(True).wait()
    assert waits == [(name, True), (name, False)]


@options_know_async
def test_calls_that_are_coalesced_are_not(job, waits):
    if not hasattr(dist.distributed_c10d, "_coalescing_manager"):
        pytest.skip("this version of torch coalesces nothing")
    values = [torch.full((3,), float(job.rank + n)) for n in range(3)]
    with dist._coalescing_manager(async_ops=False):
        for each in values:
            dist.all_reduce(each)
    assert not any(waited for _, waited in waits)
    ranks = sum(range(job.size))
    for n, each in enumerate(values):
        equal(each, torch.full((3,), float(ranks + n * job.size)))


def exchange(job, send, recv, value):
    """Sends a tensor from rank 0 to rank 1, and back. Returns what this rank has received."""
    got = torch.empty_like(value)
    if job.rank == 0:
        send(value, 1)
        recv(got, 1)
    elif job.rank == 1:
        recv(got, 0)
        send(value, 0)
    return got


@isend_is_called
def test_a_blocking_message_is_left_to_its_waiter(job, waits):
    exchange(job, dist.send, dist.recv, torch.ones(3))
    exchange(job, lambda *to: dist.isend(*to).wait(), lambda *of: dist.irecv(*of).wait(), torch.ones(3))
    if job.rank < 2:
        assert [waited for _, waited in waits] == [True, True, False, False]
    dabke.barrier()


TENSORS = {
    "of one dimension": lambda rank: torch.arange(5.0) + rank,
    "of no dimension": lambda rank: torch.tensor(3.0 + rank),
    "of two dimensions": lambda rank: torch.arange(6).reshape(2, 3) + rank,
    "of no element": lambda rank: torch.empty(0, 3),
    "with a gradient": lambda rank: torch.arange(4.0).requires_grad_(rank < 0),
    "a parameter": lambda rank: torch.nn.Parameter(torch.arange(4.0) + rank, requires_grad=False),
    "of pairs of bytes": lambda rank: torch.arange(3, dtype=torch.float16) + rank,
    "that is complex": lambda rank: torch.tensor([1 + 2j, 3 - 1j]) * (rank + 1),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_messages_have_the_right_data(kind, job):
    value = TENSORS[kind](job.rank)
    got = exchange(job, dist.send, dist.recv, value)
    if job.rank < 2:
        equal(got.detach(), TENSORS[kind](1 - job.rank).detach())
    dabke.barrier()


@pytest.mark.skipif(
    "sort_ranks" not in inspect.signature(dist.new_group).parameters,
    reason="this version of torch sorts the ranks of each group",
)
def test_a_message_of_a_group_with_another_order_goes_to_its_member(job):
    group = dist.new_group([1, 0], sort_ranks=False)
    got = torch.empty(2)
    if job.rank == 0:
        dist.send(torch.tensor([1.0, 2.0]), group_dst=0, group=group, tag=3)  # rank 1 of the world
        dist.recv(got, group_src=0, group=group, tag=4)
        equal(got, torch.tensor([2.0, 4.0]))
    elif job.rank == 1:
        dist.recv(got, 0, group=group, tag=3)
        equal(got, torch.tensor([1.0, 2.0]))
        dist.send(got * 2, 0, group=group, tag=4)
    if job.rank < 2:
        dist.destroy_process_group(group)
    dabke.barrier()


@isend_is_called
def test_the_recorder_has_blocking_messages(job):
    exchange(job, dist.send, dist.recv, torch.ones(2, 3))
    if job.rank < 2:
        calls = flight_recorder._records()[-2:]
        sent = next(each for each in calls if each.title == "send")
        received = next(each for each in calls if each.title == "recv")
        assert (sent.inputs, sent.message, sent.handles) == ((torch.Size([2, 3]),), (1 - job.rank, 0), None)
        assert (received.outputs, received.sender) == ((torch.Size([2, 3]),), 1 - job.rank)
        for each in calls:
            assert each.code.co_name == "exchange" and each.completed_ns >= each.created_ns
    dabke.barrier()


def test_the_error_of_a_blocking_message_comes_from_the_call(job):
    with pytest.raises(dabke.errors.InvalidArgumentError, match="the peer is rank"):
        dist.distributed_c10d._get_default_group().send([torch.ones(1)], job.rank)
    if job.rank < 2:
        value = torch.ones(2 + job.rank)
        with pytest.raises(dabke.errors.MismatchError):
            dist.send(value, 1) if job.rank == 0 else dist.recv(value, 0)
    dabke.barrier()
