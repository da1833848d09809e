"""Messages of NumPy's arrays between two ranks."""

import numpy
import pytest

import dabke
from dabke import errors


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bool", "float16"])
def test_a_ring_of_messages(dtype, job):
    right, left = (job.rank + 1) % job.size, (job.rank - 1) % job.size
    sent = dabke.send_async((numpy.arange(12).reshape(3, 4) + job.rank).astype(dtype), right)
    received = numpy.zeros((3, 4), dtype)
    assert dabke.recv(received, left) == left
    sent.wait()
    numpy.testing.assert_array_equal(received, (numpy.arange(12).reshape(3, 4) + left).astype(dtype))


def test_names_and_tags_are_kept_apart(job):
    if job.rank == 0:
        for name, tag, value in (("a", 0, 1.0), ("b", 0, 2.0), ("a", 7, 3.0)):
            dabke.send_async(numpy.array([value]), 1, name, tag=tag)
    elif job.rank == 1:
        got = [numpy.zeros(1) for _ in range(3)]
        dabke.recv(got[0], 0, "a", tag=7)
        dabke.recv(got[1], 0, "b")
        dabke.recv(got[2], 0, "a")
        assert [each[0] for each in got] == [3.0, 2.0, 1.0]
    dabke.barrier()


def test_a_message_from_any_rank(job):
    if job.rank == 0:
        senders = []
        for _ in range(job.size - 1):
            received = numpy.zeros(2, "int32")
            handle = dabke.recv_async(received, tag=3)
            handle.wait()
            assert received.tolist() == [handle.sender()] * 2
            senders.append(handle.sender())
        assert sorted(senders) == list(range(1, job.size))
    else:
        # Every other element: what is sent is compact.
        dabke.send(numpy.full(4, job.rank, "int32")[::2], 0, tag=3)


def test_a_message_within_a_process_set(job):
    if job.size < 3:
        pytest.skip("needs three ranks")
    pair = dabke.add_process_set([0, 2])
    if job.rank == 2:
        first = dabke.send_async(numpy.array([5.0]), 0)
        dabke.send(numpy.array([6.0]), 0, process_set=pair)
        first.wait()
    elif job.rank == 0:
        got = numpy.zeros(1)
        assert (dabke.recv(got, process_set=pair), got[0]) == (2, 6.0)
        assert (dabke.recv(got), got[0]) == (2, 5.0)
    dabke.barrier()
    dabke.remove_process_set(pair)


def test_what_cannot_match_is_an_error(job):
    with pytest.raises(errors.InvalidArgumentError, match="this rank"):
        dabke.send(numpy.ones(1), job.rank)
    with pytest.raises(errors.InvalidArgumentError, match="is not in process set"):
        dabke.recv(numpy.ones(1), job.size)
    read_only = numpy.ones(1)
    read_only.flags.writeable = False
    with pytest.raises(errors.InvalidArgumentError):
        dabke.recv(read_only, (job.rank + 1) % job.size)
    if job.rank == 0:
        with pytest.raises(errors.MismatchError, match="shape"):
            dabke.send(numpy.ones(3), 1)
    elif job.rank == 1:
        with pytest.raises(errors.MismatchError, match="shape"):
            dabke.recv(numpy.ones(4), 0)
