"""Subgroups of torch.distributed, and the calls that a group refuses."""

import inspect
from datetime import timedelta

import pytest
from ddp import dabke, dist, equal, torch, world  # noqa: F401

pytestmark = pytest.mark.usefixtures("world")


def sum_in(group, value=1.0):
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


def test_the_world_group_is_the_world(world, job):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (job.rank, job.size, "dabke")
    assert world.process_set == 0 and sum_in(world) == job.size


def test_subgroups_in_any_order_of_their_calls(job):
    groups = [dist.new_group([rank, rank + 1]) for rank in range(job.size - 1)]
    mine = [(rank, group) for rank, group in enumerate(groups) if job.rank in (rank, rank + 1)]
    works = []
    for rank, group in mine if job.rank % 2 else reversed(mine):
        tensor = torch.tensor([float(job.rank)])
        works.append((2 * rank + 1, tensor, dist.all_reduce(tensor, group=group, async_op=True)))
    for wanted, tensor, work in works:
        work.wait()
        assert tensor.item() == wanted


def test_roots_and_parts_are_counted_in_the_group(job):
    ranks = list(range(1, job.size))
    group = dist.new_group(ranks)
    if job.rank == 0:
        return
    tensor = torch.tensor([float(job.rank)])
    dist.broadcast(tensor, job.size - 1, group=group)
    assert tensor.item() == job.size - 1
    parts = [torch.empty(1) for _ in ranks]
    dist.all_gather(parts, torch.tensor([float(job.rank)]), group=group)
    assert [each.item() for each in parts] == ranks


def test_groups_of_the_same_ranks_share_a_set_and_no_names(job):
    first, second = (dist.new_group([0, 1]) for _ in range(2))
    if job.rank > 1:
        return
    assert first.process_set == second.process_set and first._label() != second._label()
    one, two = torch.ones(1), torch.full((1,), 10.0)
    order = [(first, one), (second, two)]
    works = [
        dist.all_reduce(each, group=group, async_op=True) for group, each in order[:: 1 if job.rank else -1]
    ]
    [work.wait() for work in works]
    assert (one.item(), two.item()) == (2, 20)
    dist.destroy_process_group(first)
    assert sum_in(second) == 2


def test_barriers_of_two_groups_of_the_same_ranks_are_different_barriers(job):
    groups = [dist.new_group() for _ in range(2)]
    first, second = groups if job.rank == 0 else groups[::-1]
    work = first.barrier()
    dabke.barrier()  # all members are in one barrier, but not in the same
    assert not work.is_completed()
    dabke.barrier()
    second.barrier().wait()
    work.wait()


def test_a_group_of_all_and_a_group_of_one(job):
    everyone = dist.new_group()
    alone = dist.new_group([job.size - 1])
    assert sum_in(everyone) == job.size and everyone.process_set == 0
    assert job.rank < job.size - 1 or sum_in(alone) == 1


def test_a_group_beside_one_of_gloo(job):
    other = dist.new_group(backend="gloo")
    assert sum_in(other) == job.size
    tensor = torch.tensor([float(job.rank)])
    if job.rank == 0:
        dist.send(tensor, 1, group=other)
    elif job.rank == 1:
        dist.recv(tensor, 0, group=other)
        assert tensor.item() == 0


def descending(job):
    """A group of all ranks in descending order."""
    if "sort_ranks" not in inspect.signature(dist.new_group).parameters:
        pytest.skip("this version of torch sorts the ranks of a group")
    return dist.new_group(list(range(job.size))[::-1], sort_ranks=False)


def test_members_that_do_not_ascend(job):
    group = descending(job)
    members, me = list(range(job.size))[::-1], job.size - 1 - job.rank
    assert group.rank() == me and group.process_set == 0
    mine = torch.tensor([float(job.rank), 10.0 + job.rank])
    of_all = [torch.tensor([float(rank), 10.0 + rank]) for rank in members]

    gathered = [torch.zeros(2) for _ in members]
    dist.all_gather(gathered, mine, group=group)
    equal(torch.stack(gathered), torch.stack(of_all))
    whole = torch.zeros(2 * job.size, 2).t()[:, ::2]  # strided
    dist.all_gather_into_tensor(whole, mine, group=group)
    equal(whole.reshape(-1), torch.cat(of_all))

    # Element j of the block for member i, of the rank r: 100 r + 10 i + j.
    blocks = [
        torch.tensor([100.0 * job.rank + 10 * i, 100.0 * job.rank + 10 * i + 1]) for i in range(job.size)
    ]
    expected = torch.tensor([[100.0 * rank + 10 * me + j for j in (0, 1)] for rank in members])
    received = [torch.zeros(2) for _ in members]
    dist.all_to_all(received, blocks, group=group)
    equal(torch.stack(received), expected)
    together = torch.zeros(2 * job.size)
    dist.all_to_all_single(together, torch.cat(blocks), group=group)
    equal(together, expected.reshape(-1))

    part = torch.zeros(2)
    dist.reduce_scatter(part, blocks, group=group)
    equal(part, expected.sum(0))
    dist.reduce_scatter_tensor(part, torch.cat(blocks), group=group)
    equal(part, expected.sum(0))

    at_root = [torch.zeros(2) for _ in members] if me == 1 % job.size else None
    dist.gather(mine, at_root, group_dst=1, group=group)
    if at_root is not None:
        equal(torch.stack(at_root), torch.stack(of_all))
    dist.scatter(part, blocks if me == 0 else None, group_src=0, group=group)
    equal(part, torch.tensor([100.0 * members[0] + 10 * me + j for j in (0, 1)]))
    root = mine.clone()
    dist.broadcast(root, group_src=0, group=group)
    equal(root, of_all[0])


def test_unequal_parts_of_members_that_do_not_ascend(job):
    group = descending(job)
    members, me = list(range(job.size))[::-1], job.size - 1 - job.rank
    # The member at i gets i + 1 rows of every member, which are the sender's rank.
    sent = torch.full((sum(range(1, job.size + 1)), 2), float(job.rank))
    received = torch.zeros((me + 1) * job.size, 2)
    dist.all_to_all_single(received, sent, [me + 1] * job.size, list(range(1, job.size + 1)), group=group)
    equal(received[:, 0], torch.tensor([float(rank) for rank in members for _ in range(me + 1)]))
    parts = [torch.full((i + 1,), float(i)) for i in range(job.size)]
    part = torch.zeros(me + 1)
    dist.reduce_scatter(part, parts, group=group)
    equal(part, torch.full((me + 1,), float(me * job.size)))


def test_a_group_that_is_split(world, job):
    everyone = list(range(job.size))
    for ranks in ([0], everyone[::-1], everyone[1:]):
        part = world.split_group(ranks, group_desc="part")
        assert (part is None) == (job.rank not in ranks)
        if part is not None:
            assert (part.rank(), part.size(), part.group_desc) == (ranks.index(job.rank), len(ranks), "part")
            gathered = [torch.empty(1) for _ in ranks]
            part.allgather([gathered], [torch.tensor([float(job.rank)])]).wait()
            assert [each.item() for each in gathered] == ranks
            part.monitored_barrier(timedelta(seconds=60))
            half = part.split_group([0], group_name=f"half of {ranks}")
            if half is not None:
                assert half.group_name == f"half of {ranks}" and half.size() == 1
                half.barrier().wait()


def test_what_torch_reads_from_a_backend(world):
    backend = world._get_backend(torch.device("cpu"))
    assert backend.supports_coalescing and not backend.supports_splitting
    assert not backend.supports_tensor_alloc(torch.device("cpu"))
    if hasattr(getattr(torch._C._distributed_c10d, "Backend", None), "Options"):
        assert backend.options.backend == "dabke"


def test_every_method_of_the_installed_class_is_there(world):
    theirs = {name for name in vars(dist.ProcessGroup) if callable(getattr(dist.ProcessGroup, name))}
    kept = {
        "BackendType",
        "Options",
        "boxed",
        "unbox",
        "_id",
        "_backend_id",
        "_register_backend",
        "_set_default_backend",
        "_has_hooks",
        "_register_on_completion_hook",
        "_wait_for_pending_works",
        "_enable_collectives_timing",
        "get_group_store",
        "_pybind11_conduit_v1_",
    }
    missing = {name for name in theirs if not name.startswith("__")} - kept
    missing -= {
        name for base in type(world).__mro__ if base.__module__.startswith("dabke") for name in vars(base)
    }
    assert missing == set()


def test_shapes_that_cannot_be_are_refused_by_the_call(job):
    few = [torch.empty(2) for _ in range(job.size - 1)]
    with pytest.raises(ValueError):
        dist.all_gather(few, torch.ones(2))
    with pytest.raises(ValueError, match="but needs 2"):
        dist.all_gather([torch.empty(3) for _ in range(job.size)], torch.ones(2))
    with pytest.raises((ValueError, RuntimeError)):
        dist.all_to_all_single(torch.empty(job.size + 1), torch.ones(job.size + 1))
    with pytest.raises((ValueError, RuntimeError)):
        dist.all_to_all_single(torch.empty(job.size), torch.ones(job.size), [1] * job.size, [2] * job.size)


def test_operations_that_a_dtype_has_not_are_refused():
    with pytest.raises((ValueError, RuntimeError)):
        dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND)
    with pytest.raises((ValueError, RuntimeError)):
        dist.all_reduce(torch.ones(2, dtype=torch.complex64), dist.ReduceOp.MAX)


def test_a_tensor_of_another_device_is_refused():
    with pytest.raises(ValueError, match="no backend for that device"):
        dist.all_reduce(torch.ones(2, device="meta"))


def test_a_limit_ends_a_wait(world, job):
    tensor = torch.ones(1)
    if job.rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        with pytest.raises(TimeoutError, match="still pending"):
            work.wait(timedelta(milliseconds=20))
        assert not work.is_completed()
    dabke.barrier()
    if job.rank != 0:
        dist.all_reduce(tensor)
    else:
        work.wait()
    assert tensor.item() == job.size
