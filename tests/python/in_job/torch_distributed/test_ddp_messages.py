"""Messages of torch.distributed: send and recv, their forms, and where they cannot match."""

import pytest
from ddp import dist, equal, torch, world  # noqa: F401

from dabke import errors

pytestmark = pytest.mark.usefixtures("world")

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
# PyTorch before 2.1 does not have it.
FLOAT8 = [getattr(torch, name) for name in ("float8_e4m3fn",) if hasattr(torch, name)]


def message(sender, receiver, shape=(3, 5), dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count) + 7 * sender + receiver).remainder(11).reshape(shape).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES + FLOAT8)
def test_a_ring_of_messages(dtype, job):
    right, left = (job.rank + 1) % job.size, (job.rank - 1) % job.size
    received = torch.zeros(3, 5).to(dtype)
    sent = dist.isend(message(job.rank, right, dtype=dtype), right)
    assert dist.recv(received, left) == left
    sent.wait()
    equal(
        received.float() if dtype in FLOAT8 else received,
        message(left, job.rank, dtype=dtype).float()
        if dtype in FLOAT8
        else message(left, job.rank, dtype=dtype),
    )


def test_messages_of_a_batch(job):
    others = [rank for rank in range(job.size) if rank != job.rank]
    received = {rank: torch.zeros(4) for rank in others}
    sends = [dist.P2POp(dist.isend, message(job.rank, rank, (4,)), rank) for rank in others]
    receives = [dist.P2POp(dist.irecv, received[rank], rank) for rank in others]
    for work in dist.batch_isend_irecv(receives + sends):
        work.wait()
    for rank in others:
        equal(received[rank], message(rank, job.rank, (4,)))


def test_each_tag_has_an_order_of_its_own(job):
    if job.rank == 0:
        works = [dist.isend(torch.tensor([10.0 * tag + i]), 1, tag=tag) for i in range(3) for tag in (0, 5)]
        for work in works:
            work.wait()
    elif job.rank == 1:
        seen = {tag: [torch.zeros(1) for _ in range(3)] for tag in (5, 0)}
        for tag, tensors in seen.items():
            for tensor in tensors:
                dist.recv(tensor, 0, tag=tag)
        assert {tag: [each.item() for each in tensors] for tag, tensors in seen.items()} == {
            5: [50.0, 51.0, 52.0],
            0: [0.0, 1.0, 2.0],
        }


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, ::2],
        lambda x: x.t(),
        lambda x: x[1:2].expand(3, 6),
        lambda x: x[:0],
        lambda x: torch.view_as_complex(torch.stack([x, x], -1)).conj().imag,
    ],
)
def test_a_strided_tensor_is_sent_and_received_in_its_place(view, job):
    base = message(0, 1, (4, 6))
    if job.rank == 0:
        dist.send(view(base), 1)
    elif job.rank == 1:
        wanted = view(base).resolve_neg().clone()
        rows, columns = wanted.shape
        whole = torch.full((8, 16), 77.0)
        into = whole[1 : 1 + rows, 1 : 1 + 2 * columns : 2]
        dist.recv(into, 0)
        equal(into, wanted)
        into.fill_(77.0)
        assert (whole == 77.0).all()  # nothing was written beside it


def test_messages_in_a_group_are_counted_apart(job):
    group = dist.new_group([job.size - 1, 0])
    if job.rank == 0:
        first = dist.isend(torch.tensor([1.0]), job.size - 1)
        dist.send(torch.tensor([2.0]), job.size - 1, group=group)
        first.wait()
    elif job.rank == job.size - 1:
        first, second = torch.zeros(1), torch.zeros(1)
        dist.recv(second, 0, group=group)
        dist.recv(first, 0)
        assert (first.item(), second.item()) == (1.0, 2.0)


@pytest.mark.skipif(not hasattr(dist, "send_object_list"), reason="before PyTorch 2.5")
def test_ranks_of_the_group_address_a_message(job):
    group = dist.new_group([job.size - 1, 0])
    if job.rank == 0:
        dist.send(torch.tensor([3.0]), group_dst=1, group=group)
    elif job.rank == job.size - 1:
        received = torch.zeros(1)
        dist.recv(received, group_src=0, group=group)
        assert received.item() == 3.0


@pytest.mark.skipif(not hasattr(dist, "send_object_list"), reason="before PyTorch 2.5")
def test_objects_are_sent(job):
    objects = [{"from": 0}, "text", None]
    if job.rank == 0:
        dist.send_object_list(objects, 1)
    elif job.rank == 1:
        received = [None, None, None]
        assert dist.recv_object_list(received, 0) == 0
        assert received == objects


def test_shapes_may_differ_but_not_numbers_and_dtypes(job):
    if job.rank == 0:
        dist.send(message(0, 1, (2, 3)), 1)
    elif job.rank == 1:
        received = torch.zeros(6)
        dist.recv(received, 0)
        equal(received, message(0, 1, (6,)))
    for wrong in (torch.zeros(5), torch.zeros(6, dtype=torch.int32)):
        if job.rank == 0:
            with pytest.raises(errors.MismatchError, match="0 to 1"):
                dist.send(message(0, 1, (6,)), 1)
        elif job.rank == 1:
            with pytest.raises(errors.MismatchError, match="0 to 1"):
                dist.recv(wrong, 0)


def test_a_message_is_received_from_any_rank(job):
    group = dist.new_group(list(reversed(range(job.size))))
    if job.rank == 0:
        senders = []
        for _ in range(2 * (job.size - 1)):
            received = torch.zeros(3)
            senders.append(dist.recv(received, group=group, tag=4))
            equal(received, torch.full((3,), float(senders[-1])))
        assert sorted(senders) == sorted([*range(1, job.size)] * 2)
    else:
        for _ in range(2):
            dist.send(torch.full((3,), float(job.rank)), 0, group=group, tag=4)


def test_a_receive_from_any_rank_knows_its_sender(job):
    if job.rank == 0:
        into = torch.zeros(2, 8)[:, ::2]
        work = dist.irecv(into)
        dist.barrier()
        work.wait()
        assert work._source_rank() == job.size - 1
        equal(into, torch.full((2, 4), 5.0))
    else:
        dist.barrier()
        if job.rank == job.size - 1:
            dist.send(torch.full((8,), 5.0), 0)


def test_a_message_that_nobody_receives_ends_by_its_limit(job):
    if job.rank == 0:
        work = dist.isend(torch.ones(1), 1, tag=9)
        with pytest.raises(TimeoutError, match="timeout"):
            work.wait(dist.distributed_c10d.timedelta(seconds=0.2))
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        if job.rank == 1:
            dist.recv(torch.zeros(1), 0, tag=9)


def test_what_cannot_be_sent_is_refused(job):
    with pytest.raises(ValueError):
        dist.send(torch.zeros(1), job.rank)
