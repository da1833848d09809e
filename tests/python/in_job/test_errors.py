"""Errors are exceptions with the runtime's text, never crashes."""

import numpy
import pytest

import dabke
from dabke import errors

CALLS = [dabke.allreduce, dabke.allgather, dabke.broadcast, dabke.alltoall, dabke.reducescatter]
CALL_NAMES = [call.__name__ for call in CALLS]


@pytest.mark.parametrize("call", CALLS, ids=CALL_NAMES)
@pytest.mark.parametrize("dtype", ["complex64", "U3", "datetime64[s]", [("a", "f4")]], ids=str)
def test_a_dtype_that_is_not_supported_is_refused(call, dtype):
    with pytest.raises(ValueError, match="not supported|cannot be read here"):
        call(numpy.zeros(4, dtype))


@pytest.mark.parametrize("call", CALLS, ids=CALL_NAMES)
@pytest.mark.parametrize(
    "thing", [None, "text", 3.5, [1.0, 2.0], object()], ids=lambda thing: type(thing).__name__
)
def test_what_is_no_array_is_refused(call, thing):
    with pytest.raises(ValueError, match="expected an array, got "):
        call(thing)


def test_a_read_only_output_is_refused():
    frozen = numpy.ones(3)
    frozen.flags.writeable = False
    for refused in (
        lambda: dabke.allreduce_(frozen),
        lambda: dabke.allreduce(numpy.ones(3), out=frozen),
        lambda: dabke.broadcast_(frozen),
        lambda: dabke.grouped_allreduce_([frozen]),
    ):
        with pytest.raises(ValueError, match="read-only"):
            refused()
    assert dabke.allreduce(frozen).tolist() == [1, 1, 1]


def test_an_output_of_another_shape_or_dtype_is_refused():
    for out in (numpy.ones(4), numpy.ones(3, "float32")):
        with pytest.raises(ValueError):
            dabke.allreduce(numpy.ones(3), out=out)


def test_a_device_without_a_backend_is_refused():
    tensor = dabke._core.Tensor(64, (3,), dabke._core.dtypes()["float32"], device_type=2)
    with pytest.raises(dabke.DabkeError, match="(?i)cuda"):
        dabke._core.allreduce("on a device", tensor, None, dabke._core.Options())


@pytest.mark.parametrize("given", [{"stream": 1}, {"ready_event": 64}], ids=str)
def test_a_tensor_of_the_host_has_no_stream(given):
    with pytest.raises(ValueError, match="allreduce 'x'.*on the host"):
        dabke._core.allreduce("x", numpy.ones(3), None, dabke._core.Options(**given))


@pytest.mark.parametrize("arguments", [{"op": 99}, {"process_set": 99}, {"compression": 9}], ids=str)
def test_an_option_that_makes_no_sense_is_refused(arguments):
    with pytest.raises((ValueError, dabke.DabkeError)):
        dabke.allreduce(numpy.ones(3), **arguments)


def test_a_root_that_is_not_there_is_refused(job):
    with pytest.raises(ValueError):
        dabke.broadcast(numpy.ones(3), root_rank=job.size)


def test_splits_that_do_not_add_up_are_refused(job):
    with pytest.raises(ValueError):
        dabke.alltoall(numpy.ones(3), splits=[5] * job.size)


def test_ranks_that_disagree_get_the_same_text(job):
    with pytest.raises(errors.MismatchError, match=r"Mismatched shape for 'disagree'.*\[3\].*\[4\]"):
        dabke.allreduce(numpy.ones(3 + job.rank % 2), "disagree")
    with pytest.raises(errors.MismatchError, match="(?i)mismatched"):
        dabke.allreduce(numpy.ones(3, "float32" if job.rank else "float64"), "disagree about the dtype")


def test_a_failed_handle_tells_its_status_and_message(job):
    handle = dabke.allreduce_async(numpy.ones(3 + job.rank % 2), "fails")
    with pytest.raises(errors.MismatchError) as raised:
        dabke.synchronize(handle)
    assert handle.poll()
    assert handle.status == errors.MismatchError.status == raised.value.status
    assert handle.message == str(raised.value)
    with pytest.raises(errors.MismatchError):
        handle.output(0)


def test_an_output_before_the_end_is_refused(job):
    handle = dabke.allgather_async(numpy.ones(1), "not yet") if job.rank == 0 else None
    dabke.allreduce(numpy.ones(1), "meanwhile")
    if handle is not None:
        for early in (lambda: handle.output(0), handle.received_splits):
            with pytest.raises(ValueError, match="pending"):
                early()
    dabke.allreduce(numpy.ones(1), "meanwhile again")
    handle = handle or dabke.allgather_async(numpy.ones(1), "not yet")
    handle.wait()
    with pytest.raises(ValueError):
        handle.output(7)


def test_a_second_init_is_refused():
    with pytest.raises(errors.AlreadyInitializedError):
        dabke.init()


def test_the_classes_are_those_that_programs_catch():
    assert issubclass(dabke.DabkeError, RuntimeError)
    for recoverable in ("PeerLost", "Aborted", "ShutDown", "Stalled", "Transport", "TimedOut"):
        assert issubclass(getattr(errors, f"{recoverable}Error"), dabke.HorovodInternalError)
    for wrong in ("InvalidArgument", "DuplicateName", "NotInitialized", "UnknownProcessSet", "Unsupported"):
        assert issubclass(getattr(errors, f"{wrong}Error"), ValueError)
    assert not issubclass(errors.MismatchError, dabke.HorovodInternalError)


def test_every_status_of_the_c_api_has_a_class():
    for status in range(1, 100):
        if dabke._core.status_name(status) != "unknown":
            assert errors.from_status(status, "text").status == status, dabke._core.status_name(status)
