"""The Work of a call: its time limit, its futures, its duration, and its range in PyTorch's profiler."""

import gc
import threading
from datetime import timedelta

import pytest
from ddp import dabke, dist, equal, torch, world  # noqa: F401
from torch.multiprocessing.reductions import StorageWeakRef

pytestmark = pytest.mark.usefixtures("world")

ranges_have_inputs = pytest.mark.skipif(
    not hasattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast"),
    reason="the ranges of this version of torch have no inputs",
)


def ranges(call, name):
    """The ranges of the profiler with this name, after the call."""
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        call()
    return [each for each in profile.function_events if each.name == f"dabke:{name}"]


@ranges_have_inputs
def test_a_range_has_the_shapes_of_the_inputs_and_is_asynchronous(job):
    parts = [torch.empty(2, 3) for _ in range(job.size)]
    whole = torch.empty(2 * job.size, 3)
    calls = {
        "all_reduce": (lambda: dist.all_reduce(torch.ones(4)), [[4]]),
        "broadcast": (lambda: dist.broadcast(torch.ones(4), 0), [[4]]),
        "all_gather": (lambda: dist.all_gather(parts, torch.ones(2, 3)), [[2, 3]]),
        "reduce_scatter": (lambda: dist.reduce_scatter(torch.ones(2, 3), parts), [[2, 3]] * job.size),
        "all_to_all": (lambda: dist.all_to_all(list(whole.chunk(job.size)), parts), [[2, 3]] * job.size),
    }
    for name, (call, shapes) in calls.items():
        (found,) = ranges(call, name)
        assert (found.is_async, found.count, found.input_shapes) == (True, 1, shapes), name


WAYS_TO_END = {
    "a blocking call": lambda tensor: dist.all_reduce(tensor),
    "wait": lambda tensor: dist.all_reduce(tensor, async_op=True).wait(),
    "future": lambda tensor: dist.all_reduce(tensor, async_op=True).get_future().wait(),
}


@pytest.mark.parametrize("way", WAYS_TO_END)
def test_a_range_ends_before_what_follows(way):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for name in ("first", "second"):
            WAYS_TO_END[way](torch.ones(4))
            with torch.profiler.record_function(name):
                pass
    found = {each.name: each.time_range for each in profile.events() if each.name in ("first", "second")}
    ranges = [each.time_range for each in profile.events() if each.name == "dabke:all_reduce"]
    assert len(ranges) == 2
    assert ranges[0].end <= found["first"].start <= ranges[1].start
    assert ranges[1].end <= found["second"].start


def test_a_profile_may_stop_while_calls_are_pending(job):
    for count in range(20):
        tensors = [torch.ones(4) for _ in range(4)]
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            works = [dist.all_reduce(each, async_op=True) for each in tensors]
            futures = [work.get_future() for work in works[count % 3 :]]
        ranges = [each for each in profile.events() if each.name == "dabke:all_reduce"]
        assert len(ranges) == 4
        for future in futures:
            future.wait()
        for work, tensor in zip(works, tensors):
            work.wait()
            equal(tensor, torch.full((4,), float(job.size)))


@ranges_have_inputs
def test_a_coalesced_call_has_one_range(job):
    tensors = [torch.ones(3), torch.ones(5)]
    (found,) = ranges(lambda: dist.all_reduce_coalesced(tensors), "all_reduce")
    assert found.input_shapes == [[3], [5]]
    lists = [[torch.empty(3), torch.empty(5)] for _ in range(job.size)]
    assert len(ranges(lambda: dist.all_gather_coalesced(lists, tensors), "all_gather")) == 1


@pytest.mark.parametrize("form", ["call", "group", "wait"])
def test_a_limit_ends_a_barrier(form, job, world):
    limit = timedelta(milliseconds=50)
    group = dist.new_group(timeout=limit) if form == "group" else world
    if job.rank == 0:
        with pytest.raises(TimeoutError, match=r" Timed out waiting 50ms for barrier") as caught:
            if form == "group":
                dist.barrier(group)
            elif form == "wait":
                work = dist.barrier(async_op=True)
                work.wait(limit)
            else:
                options = dist.BarrierOptions()
                options.timeout = limit
                work = world.barrier(options)
                work.wait()
        assert isinstance(caught.value, RuntimeError)
    dabke.barrier()
    if job.rank != 0:
        group.barrier().wait(timedelta(seconds=30))
    elif form != "group":
        work.wait(timedelta(seconds=30))
    dabke.barrier()


def test_a_message_that_does_not_come_holds_up_no_other_future(job):
    if job.rank > 1:
        return
    first, second, third = (torch.zeros(1) for _ in range(3))
    if job.rank == 0:
        works = [dist.irecv(each, 1, tag=tag) for tag, each in enumerate((first, second))]
        futures = [work.get_future() for work in works]
        futures[1].wait()  # before the message of tag 0, which follows the answer to this one
        assert second.item() == 2 and not works[0].is_completed()
        dist.send(third, 1, tag=2)
        assert futures[0].wait()[0].item() == 1
    else:
        dist.send(second + 2, 0, tag=1)
        dist.recv(third, 0, tag=2)
        dist.send(first + 1, 0, tag=0)


def test_a_pending_message_holds_up_no_collective_in_a_profile(job):
    received, tensor = torch.zeros(1), torch.ones(1)
    with torch.autograd.profiler.profile():
        work = dist.irecv(received, 1) if job.rank == 0 else None
        dist.all_reduce(tensor, async_op=True).get_future().wait()
        if job.rank == 0:
            assert not work.is_completed()
            dist.send(tensor, 1)
            work.wait()
        elif job.rank == 1:
            dist.recv(received, 0)
            dist.send(received, 0)
    assert tensor.item() == job.size and (job.rank > 1 or received.item() == job.size)


def test_a_work_measures_its_duration_if_the_group_is_timed():
    group = dist.new_group()
    tensor = torch.ones(1)
    work = dist.all_reduce(tensor, group=group, async_op=True)
    work.wait()
    with pytest.raises(ValueError, match="_enable_collectives_timing"):
        work._get_duration()
    group._enable_collectives_timing()
    work = dist.all_reduce(tensor, group=group, async_op=True)
    work.get_future().wait()
    assert 0 < work._get_duration() < 60_000


@pytest.mark.skipif(
    not hasattr(torch._C._distributed_c10d, "WorkResult"), reason="this torch has no WorkResult"
)
def test_the_future_of_the_result_is_a_number():
    work = dist.all_reduce(torch.ones(1), async_op=True)
    assert work.get_future_result().wait() == int(torch._C._distributed_c10d.WorkResult.SUCCESS)


def test_every_method_of_torchs_work_is_there():
    theirs = {name for name in vars(dist.Work) if callable(getattr(dist.Work, name)) and name[:2] != "__"}
    work = dist.barrier(async_op=True)
    work.wait()
    ours = {name for base in type(work).__mro__ if base.__module__.startswith("dabke") for name in vars(base)}
    # Torch's own serve every work, or are about other languages.
    assert theirs - ours <= {"_get_op_type", "boxed", "unbox", "_pybind11_conduit_v1_"}


def test_a_wait_returns_only_when_another_thread_has_put_the_result_in_place(world):
    begun, may_end = threading.Event(), threading.Event()

    def finish():
        begun.set()
        may_end.wait(60)

    work = dist.barrier(async_op=True)
    work._finish = finish
    waits = [threading.Thread(target=work.wait) for _ in range(2)]
    waits[0].start()
    assert begun.wait(60)
    waits[1].start()
    waits[1].join(0.2)
    is_early = not waits[1].is_alive()
    may_end.set()
    for each in waits:
        each.join()
    assert not is_early


@pytest.mark.skipif(not hasattr(torch.Tensor, "untyped_storage"), reason="before PyTorch 2.0")
def test_memory_of_calls_that_have_ended_is_let_go():
    seen = []
    for _ in range(12):
        tensor = torch.ones(7)
        dist.all_reduce(tensor)
        seen.append(StorageWeakRef(tensor.untyped_storage()))
        del tensor
    gc.collect()
    assert sum(not each.expired() for each in seen) <= 3  # the last ones, until the next call
