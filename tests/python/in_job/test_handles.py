"""Handles, and the lifetime of memory: memory lives until no operation needs it, and no longer."""

import gc
import threading
import weakref

import numpy
import pytest

import dabke
from dabke import _core


def wait_for_abandoned():
    """Waits, on all ranks together, until no rank has a pending operation whose handle was dropped."""
    while dabke.allreduce(numpy.array([_core.abandoned_operations()]), "abandoned", dabke.Max)[0] > 0:
        pass


def test_a_handle_completes_when_all_ranks_have_submitted(job):
    handle = dabke.allreduce_async(numpy.ones(3), "late") if job.rank == 0 else None
    dabke.allreduce(numpy.ones(1), "between")
    if handle is not None:
        assert not dabke.poll(handle)
        assert not dabke.wait(handle, timeout=0.01)
        with pytest.raises(TimeoutError):
            dabke.synchronize(handle, timeout=0.01)
        # The tensor is not on a device, and never will be.
        assert not dabke.wait_stream(handle, 0, timeout=0.01)
    dabke.allreduce(numpy.ones(1), "after")
    result = dabke.synchronize(handle or dabke.allreduce_async(numpy.ones(3), "late"))
    assert result.tolist() == [1, 1, 1]
    assert handle is None or (handle.poll() and handle.status == 0 and handle.message == "")
    assert handle is None or dabke.wait_stream(handle, 0)


def test_synchronize_gives_the_same_again(job):
    handle = dabke.allgather_async(numpy.array([job.rank]), "again")
    assert dabke.synchronize(handle).tolist() == dabke.synchronize(handle).tolist() == list(range(job.size))


def test_an_output_outlives_its_handle_without_a_copy(job):
    handle = dabke.allgather_async(numpy.array([float(job.rank)]), "outlives")
    first, second = dabke.synchronize(handle), dabke.synchronize(handle)
    first[0] = 17
    assert second[0] == 17
    del handle
    gc.collect()
    assert second.tolist()[1:] == list(range(1, job.size))


@pytest.mark.parametrize("versioned", [False, True])
def test_an_output_is_given_as_dlpack(job, versioned):
    handle = dabke.allgather_async(numpy.array([float(job.rank)]), "as dlpack")
    handle.wait()
    output = handle.output(0)
    capsule = output.__dlpack__(max_version=(1, 0) if versioned else None)
    assert ("dltensor_versioned" if versioned else "dltensor") in repr(capsule)
    del capsule
    result = numpy.from_dlpack(output)
    del handle, output
    assert result.tolist() == list(range(job.size))


def test_the_array_of_a_dropped_handle_lives_until_the_operation_is_done(job):
    array = numpy.ones(1000)
    alive = weakref.ref(array)
    if job.rank == 0:
        dabke.allreduce_async_(array, "dropped")
        del array
        gc.collect()
        assert alive() is not None
        assert _core.abandoned_operations() == 1
    dabke.allreduce(numpy.ones(1), "all have seen it")
    if job.rank != 0:
        dabke.allreduce_(array, "dropped")
        del array
    wait_for_abandoned()
    assert alive() is None


def test_ten_thousand_dropped_handles_leave_nothing(job):
    for i in range(10_000):
        dabke.allreduce_async(numpy.full(100, float(i)), f"dropped {i % 100}")
        if i % 500 == 499:
            wait_for_abandoned()


def test_ten_thousand_arrays_dropped_while_pending_are_summed_all_the_same(job):
    results = []
    for i in range(10_000):
        results.append(
            dabke.allreduce_async_(numpy.full(50, float(job.rank)), f"pending {i % 100}", dabke.Sum)
        )
        if len(results) == 100:
            wanted = [float(sum(range(job.size)))] * 50
            assert all(dabke.synchronize(each).tolist() == wanted for each in results)
            results.clear()
            gc.collect(0)


def test_shared_memory_is_freed_with_its_last_array(job):
    for i in range(300):
        array = dabke.alloc(1 << 20, "float32")
        dabke.allreduce_async_(array[: 1 << 10], f"shared {i % 10}")
    wait_for_abandoned()


def test_threads_submit_and_wait_at_the_same_time(job):
    failures = []

    def work(number):
        try:
            for i in range(100):
                result = dabke.allreduce(numpy.full(8, float(number)), f"thread {number}", dabke.Sum)
                assert result.tolist() == [float(number * job.size)] * 8, i
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_waiting_does_not_hold_the_interpreter(job):
    handle = dabke.barrier_async() if job.rank == 0 else None
    seen = threading.Event()
    if handle is not None:
        waiter = threading.Thread(target=lambda: (handle.wait(), seen.set()))
        waiter.start()
    dabke.allreduce(numpy.ones(1), "while the other thread waits")
    if handle is None:
        dabke.barrier()
    else:
        waiter.join()
        assert seen.is_set()


def test_options_live_as_long_as_a_submit_needs_them(job):
    for i in range(1000):
        rows = [1] * job.size
        handle = _core.alltoall("options", numpy.arange(job.size), None, _core.Options(splits=rows), None)
        handle.wait()
        assert handle.received_splits() == rows


def test_memory_described_by_hand_is_reduced(job):
    array = numpy.full(6, 2.0, "float32")
    tensor = _core.Tensor(array.ctypes.data, (2, 3), _core.dtypes()["float32"], owner=array)
    assert (tensor.shape, tensor.dtype, tensor.pointer) == ((2, 3), "float32", array.ctypes.data)
    alive = weakref.ref(array)
    values = memoryview(array)
    del array
    handle = _core.allreduce("by hand", tensor, None, _core.Options(op=int(dabke.Sum)))
    handle.wait()
    assert values.tolist() == [2.0 * job.size] * 6
    del values, tensor, handle
    gc.collect()
    assert alive() is None
