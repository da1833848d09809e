"""The monitored barrier of a group, which names the members that do not come."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from ddp import dabke, dist, torch, world  # noqa: F401

pytestmark = pytest.mark.usefixtures("world")

LONG = timedelta(seconds=60)


def test_all_members_pass(world):
    for _ in range(3):
        world.monitored_barrier(LONG)
        world.monitored_barrier(LONG, wait_all_ranks=True)
        world.monitored_barrier()


def test_members_wait_for_a_late_one(world, job):
    """Each member waits for some milliseconds, often. Afterwards the store is as usable as before."""
    for _ in range(20):
        if job.rank == 0:
            time.sleep(0.002)
        world.monitored_barrier(LONG)
    store = world.get_group_store()
    key = f"after a monitored barrier/{job.rank}/{world._monitored._calls}"
    assert store.add(key, 1) == 1
    store.set(key, "a text")
    assert store.get(key) == b"a text"
    dabke.barrier()


def test_keys_of_earlier_barriers_are_deleted(world, job):
    for _ in range(3):
        world.monitored_barrier(LONG)
    call = world._monitored._calls
    dabke.barrier()
    store = world.get_group_store()
    if not hasattr(store, "check"):
        pytest.skip("the store of this version of torch has no check")
    for name in ("cause", "end"):
        assert not store.check([f"monitored_barrier/{call - 1}/{name}"])
    assert not store.check([f"monitored_barrier/{call}/{job.size - 1}"])
    dabke.barrier()


@pytest.mark.parametrize("wait_all_ranks", [False, True])
def test_the_error_names_the_missing_members(wait_all_ranks, job):
    group = dist.new_group()
    begin = time.monotonic()
    if job.rank == 0:
        which = ", ".join(map(str, range(1, job.size)))
        expected = f"Ranks {which} failed" if wait_all_ranks else "Rank 1 failed"
        with pytest.raises(RuntimeError, match=f"{expected} to pass monitoredBarrier in 200 ms"):
            group.monitored_barrier(timedelta(milliseconds=200), wait_all_ranks)
        assert 0.15 < time.monotonic() - begin < 30
    dabke.barrier()


def test_members_that_come_get_the_names_too(job):
    group = dist.new_group()
    if job.rank == 0:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass"):
            group.monitored_barrier(timedelta(milliseconds=200))
    elif job.rank > 1:
        expected = f"Rank {job.rank} successfully reached monitoredBarrier.*Rank 1 failed to pass"
        with pytest.raises(RuntimeError, match=expected):
            group.monitored_barrier(LONG)
    dabke.barrier()


def test_rank_0_that_does_not_come_ends_the_others_wait(job):
    group = dist.new_group()
    if job.rank == 1:
        with pytest.raises(RuntimeError, match="Rank 1 successfully reached.*rank 0 did not answer in time"):
            group.monitored_barrier(timedelta(milliseconds=200))
    dabke.barrier()


def test_no_time_at_all(job):
    group = dist.new_group()
    if job.rank == 0:
        with pytest.raises(RuntimeError, match="Rank 0 timed out in monitoredBarrier after 0 ms"):
            group.monitored_barrier(timedelta(0))
    dabke.barrier()


def test_collectives_run_beside_a_barrier_that_fails(job):
    group = dist.new_group()
    tensor = torch.ones(1)
    work = dist.all_reduce(tensor, group=group, async_op=True)
    if job.rank == 0:
        with pytest.raises(RuntimeError, match="failed to pass"):
            group.monitored_barrier(timedelta(milliseconds=50), wait_all_ranks=True)
    work.wait()
    assert tensor.item() == job.size
    dabke.barrier()


@pytest.mark.skipif(not hasattr(dist, "monitored_barrier"), reason="this torch has no monitored_barrier")
def test_the_function_of_torch_refuses_all_backends_but_gloo():
    with pytest.raises((ValueError, RuntimeError), match="only implemented for GLOO"):
        dist.monitored_barrier()


def test_barriers_of_groups_on_different_threads(job):
    """Each rank begins with another group, so that a thread that kept the store would stop all."""
    groups = [dist.new_group() for _ in range(2)]
    if job.rank % 2 == 1:
        groups.reverse()
    with ThreadPoolExecutor() as threads:
        waits = []
        for group in groups:
            waits.append(threads.submit(group.monitored_barrier, timedelta(seconds=10)))
            time.sleep(0.05)
        for wait in waits:
            wait.result()
