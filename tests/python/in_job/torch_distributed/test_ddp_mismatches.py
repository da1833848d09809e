"""Ranks that make different calls of a group get an error with all these calls, instead of waiting."""

import threading

import pytest
from ddp import dist, equal, torch, world  # noqa: F401

from dabke import errors

pytestmark = pytest.mark.usefixtures("world")


def gather_of_4(group):
    outputs = [torch.zeros(4) for _ in range(group.size())]
    dist.all_gather(outputs, torch.ones(4), group=group)


def scatter_of_64k(group):
    """A scatter from rank 0 that consists of messages."""
    dist.scatter(torch.zeros(1 << 14), [torch.ones(1 << 14)] * group.size(), 0, group=group)


CALLS = {
    "collective": (
        lambda group: dist.all_reduce(torch.ones(4), group=group),
        gather_of_4,
        r"allreduce \(sum\) of float32 \[4\].*allgather of float32 \[4\]",
    ),
    "shape": (
        lambda group: dist.all_reduce(torch.ones(4), group=group),
        lambda group: dist.all_reduce(torch.ones(2, 2), group=group),
        r"float32/4/0' .*float32/2x2/0'",
    ),
    "dtype": (
        lambda group: dist.broadcast(torch.ones(4), 0, group=group),
        lambda group: dist.broadcast(torch.ones(4).int(), 0, group=group),
        r"of float32 \[4\].*of int32 \[4\]",
    ),
    "operation": (
        lambda group: dist.all_reduce(torch.ones(4), dist.ReduceOp.MAX, group=group),
        lambda group: dist.all_reduce(torch.ones(4), dist.ReduceOp.MIN, group=group),
        r"allreduce \(max\).*allreduce \(min\)",
    ),
    "root": (
        lambda group: dist.broadcast(torch.ones(4), 0, group=group),
        lambda group: dist.broadcast(torch.ones(4), 1, group=group),
        r"broadcast from rank 0 .*broadcast from rank 1 ",
    ),
    "messages": (
        lambda group: scatter_of_64k(group),
        lambda group: dist.all_reduce(torch.ones(4), group=group),
        r"/scatter\.0/.*/allreduce\.sum/",
    ),
    "barrier": (
        lambda group: dist.barrier(group=group),
        lambda group: dist.all_reduce(torch.ones(4), group=group),
        r"/barrier/.*/allreduce\.sum/",
    ),
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_that_differs_between_ranks(kind, job):
    of_rank_0, of_others, text = CALLS[kind]
    group = dist.new_group()
    dist.barrier(group)
    with pytest.raises(errors.MismatchError, match=f"^Mismatched calls: rank 0 .*{text}") as raised:
        (of_rank_0 if job.rank == 0 else of_others)(group)
    # Each side has its place in the program.
    assert str(raised.value).count("test_ddp_mismatches.py:") == 2
    dist.destroy_process_group(group)


def test_the_one_rank_that_differs_is_named(job):
    if job.size < 3:
        pytest.skip("needs three ranks")
    group = dist.new_group()
    with pytest.raises(errors.MismatchError, match=r"; rank 1 on \S+ waits in '\S+/barrier/.* at "):
        if job.rank == 1:
            dist.barrier(group)
        else:
            dist.all_reduce(torch.ones(4), group=group)
    dist.destroy_process_group(group)


@pytest.mark.parametrize("waits", ["root", "member"])
def test_a_gather_that_consists_of_messages_is_compared(waits, job):
    if job.size < 3:
        pytest.skip("needs three ranks")
    group = dist.new_group()
    value = torch.full((1 << 14,), float(job.rank))
    other = 0 if waits == "member" else job.size - 1
    outputs = [torch.empty(1 << 14) for _ in range(job.size)] if job.rank == 0 else None
    if job.rank == other or waits == "member" or job.rank == 0:
        with pytest.raises(errors.MismatchError, match=r"'c10d/\S+/gather\.0/.* at ") as raised:
            if job.rank == other:
                dist.all_reduce(value, group=group)
            else:
                dist.gather(value, outputs, 0, group=group)
        assert "allreduce.sum/float32/16384/0' (allreduce (sum) of float32 [16384]) at " in str(raised.value)
        assert "in test_the_one_rank" not in str(raised.value)  # the places are those of this mismatch
    else:
        dist.gather(value, outputs, 0, group=group)  # the root has received it
    dist.destroy_process_group(group)


def test_calls_of_different_groups_are_compared_apart(job):
    first, second = dist.new_group(), dist.new_group()
    value = torch.full((3,), job.rank + 1.0)
    results = [value.clone(), value.clone()]

    def sum_in(group, result):
        dist.all_reduce(result, group=group)

    groups = [(first, results[0]), (second, results[1])]
    if job.rank == 0:
        groups.reverse()  # each thread waits for a while for the other ranks' later thread
    threads = []
    for group, result in groups:
        threads.append(threading.Thread(target=sum_in, args=(group, result)))
        threads[-1].start()
        threads[0].join(0.6)
    for thread in threads:
        thread.join()
    for result in results:
        equal(result, torch.full((3,), job.size * (job.size + 1) / 2))
    for group in (first, second):
        dist.destroy_process_group(group)
