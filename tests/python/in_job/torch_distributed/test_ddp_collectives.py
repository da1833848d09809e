"""The collectives of torch.distributed over Dabke, each against a reference, over dtypes and operations."""

import functools
import threading
from datetime import timedelta

import pytest
from ddp import dabke, dist, equal, inputs, torch, world  # noqa: F401

Op = dist.ReduceOp
NUMBERS = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
]
ANY = [*NUMBERS, torch.bool, torch.complex64]
REFERENCES = {
    "SUM": lambda parts: functools.reduce(torch.add, parts),
    "PRODUCT": lambda parts: functools.reduce(torch.mul, parts),
    "MIN": lambda parts: torch.stack(parts).min(0)[0],
    "MAX": lambda parts: torch.stack(parts).max(0)[0],
    "BAND": lambda parts: functools.reduce(torch.bitwise_and, parts),
    "BOR": lambda parts: functools.reduce(torch.bitwise_or, parts),
    "BXOR": lambda parts: functools.reduce(torch.bitwise_xor, parts),
}
CASES = [
    (op, dtype)
    for op in REFERENCES
    for dtype in NUMBERS
    if not op.startswith("B") or not dtype.is_floating_point
]

pytestmark = pytest.mark.usefixtures("world")


@pytest.mark.parametrize("op,dtype", CASES, ids=str)
def test_all_reduce(op, dtype, job):
    parts = inputs((4, 3), dtype)
    mine = parts[job.rank].clone()
    dist.all_reduce(mine, getattr(Op, op))
    equal(mine, REFERENCES[op](parts))


def test_all_reduce_takes_averages(job):
    parts = inputs((5,), torch.float64)
    mine = parts[job.rank].clone()
    dist.all_reduce(mine, Op.AVG)
    torch.testing.assert_close(mine, torch.stack(parts).mean(0))


def test_all_reduce_multiplies_before_the_sum(job):
    op = dist._make_nccl_premul_sum(0.5)
    if not hasattr(op, "factor"):
        pytest.skip("this torch does not tell the factor")
    mine = torch.full((3,), float(job.rank + 1))
    dist.all_reduce(mine, op)
    equal(mine, torch.full((3,), 0.5 * sum(range(1, job.size + 1))))


def test_a_zero_that_multiplies_keeps_its_sign_whichever_came_first(job):
    if not hasattr(dist._make_nccl_premul_sum(0.5), "factor"):
        pytest.skip("this torch does not tell the factor")
    for zero in (0.0, -0.0, 0.0):
        mine = torch.ones(3)
        dist.all_reduce(mine, dist._make_nccl_premul_sum(zero))
        assert torch.signbit(mine).tolist() == [str(zero) == "-0.0"] * 3


def test_all_reduce_of_complex_numbers_and_of_none(job):
    mine = torch.full((2,), complex(job.rank, 1), dtype=torch.complex64)
    dist.all_reduce(mine)
    equal(mine, torch.full((2,), complex(sum(range(job.size)), job.size), dtype=torch.complex64))
    dist.all_reduce(torch.empty(0))


def test_a_strided_tensor_is_reduced_in_its_place(job):
    whole = torch.zeros(4, 4)
    whole[:, ::2] = job.rank + 1
    dist.all_reduce(whole[:, ::2])
    assert whole[:, ::2].eq(sum(range(1, job.size + 1))).all() and whole[:, 1::2].eq(0).all()


def test_a_parameter_and_a_scalar_are_reduced(job):
    parameter = torch.nn.Parameter(torch.ones(3))
    dist.all_reduce(parameter)
    assert parameter.tolist() == [job.size] * 3
    scalar = torch.tensor(job.rank)
    dist.all_reduce(scalar, Op.MAX)
    assert scalar.item() == job.size - 1


def test_coalesced_all_reduce(job):
    tensors = [torch.full((n + 1,), float(job.rank)) for n in range(5)]
    options = dist.AllreduceCoalescedOptions()
    dist.distributed_c10d._get_default_group().allreduce_coalesced(tensors, options).wait()
    for n, each in enumerate(tensors):
        equal(each, torch.full((n + 1,), float(sum(range(job.size)))))


@pytest.mark.parametrize("root", [0, -1])
@pytest.mark.parametrize("dtype", ANY, ids=str)
def test_broadcast(dtype, root, job):
    root %= job.size
    parts = inputs((3, 2), dtype)
    mine = parts[job.rank].clone()
    dist.broadcast(mine, root)
    equal(mine, parts[root])


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_reduce_gives_the_root_alone_the_result(dtype, job):
    parts = inputs((6,), dtype)
    mine = parts[job.rank].clone()
    dist.reduce(mine, job.size - 1)
    equal(mine, REFERENCES["SUM"](parts) if job.rank == job.size - 1 else parts[job.rank])


def test_views_that_stand_for_the_negative_of_their_memory(job):
    numbers = torch.tensor([1 + 2j])
    negative = numbers.conj().imag
    assert negative.is_neg() and negative.is_contiguous()
    got = [torch.empty(1) for _ in range(job.size)]
    dist.all_gather(got, negative)
    assert [each.item() for each in got] == [-2] * job.size
    dist.all_reduce(negative)
    assert negative.item() == -2 * job.size and numbers.imag.item() == 2 * job.size


def test_conjugate_views_count_as_what_they_show(job):
    """PyTorch itself refuses them in the other collectives."""

    def of(rank):
        return torch.tensor([complex(rank, 1), complex(2, rank)]).conj()

    parts = [of(rank).resolve_conj() for rank in range(job.size)]
    mine = of(job.rank)
    assert mine.is_conj()
    dist.reduce(mine, 0)
    equal(mine.resolve_conj(), sum(parts) if job.rank == 0 else parts[job.rank])
    gathered = [torch.zeros(2, dtype=mine.dtype).conj() for _ in parts] if job.rank == 0 else None
    dist.gather(of(job.rank), gathered)
    if gathered is not None:
        equal(torch.stack(gathered).resolve_conj(), torch.stack(parts))
    blocks = [of(job.rank) for _ in parts]
    kept = torch.zeros(2, dtype=mine.dtype).conj()
    dist.reduce_scatter(kept, blocks)
    equal(kept.resolve_conj(), sum(parts))
    together = torch.cat([each.conj() for each in blocks]).conj()
    (getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base)(kept, together)
    equal(kept.resolve_conj(), sum(parts))


@pytest.mark.parametrize("dtype", ANY, ids=str)
def test_all_gather(dtype, job):
    parts = inputs((2, 3), dtype)
    apart = [torch.empty(2, 3, dtype=dtype) for _ in range(job.size)]
    dist.all_gather(apart, parts[job.rank])
    together = list(torch.empty(job.size, 2, 3, dtype=dtype).unbind(0))
    dist.all_gather(together, parts[job.rank])
    strided = [torch.empty(3, 2, dtype=dtype).t() for _ in range(job.size)]
    dist.all_gather(strided, parts[job.rank])
    for got in (apart, together, strided):
        for each, wanted in zip(got, parts):
            equal(each.contiguous(), wanted)


def test_all_gather_of_sizes_that_differ(job):
    got = [torch.empty(rank + 1) for rank in range(job.size)]
    dist.all_gather(got, torch.full((job.rank + 1,), float(job.rank)))
    assert [each.tolist() for each in got] == [[float(rank)] * (rank + 1) for rank in range(job.size)]


@pytest.mark.parametrize("dtype", ANY, ids=str)
def test_all_gather_into_one_tensor(dtype, job):
    parts = inputs((2, 3), dtype)
    gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
    got = torch.empty(2 * job.size, 3, dtype=dtype)
    gather(got, parts[job.rank])
    equal(got, torch.cat(parts))
    # The input is a part of the output, as FSDP calls it.
    got = torch.zeros(2 * job.size, 3, dtype=dtype)
    mine = got[2 * job.rank : 2 * job.rank + 2]
    mine.copy_(parts[job.rank])
    gather(got, mine)
    equal(got, torch.cat(parts))


@pytest.mark.parametrize("op", ["SUM", "MAX"])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_reduce_scatter(dtype, op, job):
    parts = inputs((job.size, 2, 3), dtype)
    wanted = REFERENCES[op](parts)[job.rank]
    got = torch.empty(2, 3, dtype=dtype)
    dist.reduce_scatter(got, [each.clone() for each in parts[job.rank]], getattr(Op, op))
    equal(got, wanted)
    scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
    got = torch.empty(2, 3, dtype=dtype)
    scatter(got, parts[job.rank].view(-1, 3), getattr(Op, op))
    equal(got, wanted)


def test_reduce_scatter_of_sizes_that_differ(job):
    got = torch.empty(job.rank + 1)
    dist.reduce_scatter(got, [torch.full((n + 1,), float(n)) for n in range(job.size)])
    equal(got, torch.full((job.rank + 1,), float(job.rank * job.size)))


@pytest.mark.parametrize("dtype", ANY, ids=str)
def test_gather_and_scatter(dtype, job):
    parts = inputs((2, 3), dtype)
    root = job.size - 1
    got = [torch.empty(2, 3, dtype=dtype) for _ in range(job.size)] if job.rank == root else None
    dist.gather(parts[job.rank], got, root)
    for each, wanted in zip(got or [], parts):
        equal(each, wanted)
    mine = torch.empty(2, 3, dtype=dtype)
    dist.scatter(mine, parts if job.rank == root else None, root)
    equal(mine, parts[job.rank])


def test_gather_and_scatter_of_a_part_of_the_list(job):
    root, wanted = job.size - 1, torch.arange(2.0 * job.size).view(job.size, 2)
    parts = list((wanted.clone() if job.rank == root else torch.zeros(job.size, 2)).unbind())
    mine = parts[root] if job.rank == root else torch.zeros(2)
    dist.scatter(mine, parts if job.rank == root else None, root)
    equal(mine, wanted[job.rank])
    if job.rank == root:
        equal(torch.stack(parts), wanted)
        for each in parts[:-1]:
            each.zero_()
    dist.gather(mine, parts if job.rank == root else None, root)
    if job.rank == root:
        equal(torch.stack(parts), wanted)


@pytest.mark.parametrize("dtype", ANY, ids=str)
def test_all_to_all_single(dtype, job):
    parts = inputs((job.size, 2), dtype)
    got = torch.empty(job.size, 2, dtype=dtype)
    dist.all_to_all_single(got, parts[job.rank])
    equal(got, torch.stack([each[job.rank] for each in parts]))
    sent = [rank + 1 for rank in range(job.size)]
    wanted = [job.rank + 1] * job.size
    rows = inputs((sum(sent), 2), dtype, seed=1)
    got = torch.empty(sum(wanted), 2, dtype=dtype)
    dist.all_to_all_single(got, rows[job.rank], wanted, sent)
    equal(got, torch.cat([each.split(sent)[job.rank] for each in rows]))


def test_all_to_all(job):
    sent = [torch.full((rank + 1,), 10.0 * job.rank + rank) for rank in range(job.size)]
    got = [torch.empty(job.rank + 1) for _ in range(job.size)]
    dist.all_to_all(got, sent)
    for source, each in enumerate(got):
        equal(each, torch.full((job.rank + 1,), 10.0 * source + job.rank))


def test_objects(job):
    everyones = [None] * job.size
    dist.all_gather_object(everyones, {"rank": job.rank, "text": "x" * job.rank})
    assert [each["rank"] for each in everyones] == list(range(job.size))
    things = [f"of {job.rank}", job.rank]
    dist.broadcast_object_list(things, src=1)
    assert things == ["of 1", 1]
    gathered = [None] * job.size if job.rank == 0 else None
    dist.gather_object(job.rank, gathered, dst=0)
    assert gathered in (None, list(range(job.size)))


def test_every_other_element_of_a_tensor_is_sent_as_such(job):
    """The view has one stride for all elements, and the elements between them must not be sent."""
    rows = 2 * job.size

    def every_other(rank):
        whole = torch.full((rows, 2), -1000.0)
        whole[:, 0] = torch.arange(rows) + 100.0 * rank
        return whole[:, 0]

    mine, parts = every_other(job.rank), [every_other(rank).clone() for rank in range(job.size)]
    assert mine.stride() == (2,)
    out = torch.empty(rows * job.size)
    dist.all_gather(list(out.view(job.size, rows)), mine)
    equal(out, torch.cat(parts))
    (getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base)(out, mine)
    equal(out, torch.cat(parts))
    gathered = [torch.empty(rows) for _ in parts] if job.rank == 0 else None
    dist.gather(mine, gathered)
    if gathered is not None:
        equal(torch.cat(gathered), torch.cat(parts))
    own = slice(2 * job.rank, 2 * job.rank + 2)
    exchanged = torch.empty(rows)
    dist.all_to_all_single(exchanged, mine)
    equal(exchanged, torch.cat([part[own] for part in parts]))
    kept = torch.empty(2)
    (getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base)(kept, mine)
    equal(kept, sum(parts)[own])


def test_sparse_all_reduce(job):
    mine = torch.sparse_coo_tensor([[job.rank, job.size]], torch.ones(2, 3), (job.size + 1, 3))
    dist.all_reduce(mine)
    wanted = torch.ones(job.size + 1, 3)
    wanted[job.size] = job.size
    equal(mine.to_dense(), wanted)


def test_sparse_integers_keep_all_their_digits(job):
    own = 2**53 + 1 + 2 * job.rank

    def reduced(value, dtype, op):
        mine = torch.sparse_coo_tensor(
            [[job.rank, job.size]], torch.tensor([value, value], dtype=dtype), (job.size + 1,)
        )
        dist.all_reduce(mine, op)
        return mine.to_dense().tolist()

    total = sum(2**53 + 1 + 2 * rank for rank in range(job.size))
    assert reduced(own, torch.int64, dist.ReduceOp.SUM) == [
        2**53 + 1 + 2 * rank for rank in range(job.size)
    ] + [total]
    assert reduced(own, torch.int64, dist.ReduceOp.AVG)[-1] == total // job.size
    assert reduced(100, torch.int8, dist.ReduceOp.AVG)[-1] == 100  # the sum does not fit into int8
    assert reduced(-7, torch.int32, dist.ReduceOp.AVG) == [-(7 // job.size)] * job.size + [-7]
    assert reduced(True, torch.bool, dist.ReduceOp.SUM) == [True] * (job.size + 1)


def test_sparse_complex_numbers(job):
    mine = torch.sparse_coo_tensor(
        [[job.rank, job.size]], torch.tensor([1j, complex(job.rank, 2)]), (job.size + 1,)
    )
    dist.group.WORLD.allreduce([mine]).wait()  # dist.all_reduce passes a copy of the tensor
    wanted = [1j] * job.size + [complex(sum(range(job.size)), 2 * job.size)]
    equal(mine.to_dense(), torch.tensor(wanted))


def test_all_to_all_where_a_member_has_no_rows_of_complex_numbers(job):
    """Rank 0 sends no rows and gets none, but calls the same collective."""
    sent = [0 if 0 in (job.rank, other) else 1 for other in range(job.size)]
    mine = torch.full((sum(sent),), complex(job.rank, 1))
    out = torch.zeros(sum(sent), dtype=torch.complex64)
    limit = timedelta(seconds=60)
    assert dist.group.WORLD.all_to_all_single(out, mine, sent, sent).wait(limit)
    equal(
        out,
        torch.tensor([complex(other, 1) for other in range(1, job.size)][: sum(sent)], dtype=torch.complex64),
    )


def test_one_complex_number_of_a_strided_tensor_is_gathered(job):
    mine = torch.full((1, 2), complex(job.rank, 1))[:, 0]
    assert mine.stride() == (2,)
    parts = [torch.empty(1, dtype=mine.dtype) for _ in range(job.size)] if job.rank == 0 else None
    dist.gather(mine, parts)
    if parts is not None:
        equal(torch.cat(parts), torch.tensor([complex(rank, 1) for rank in range(job.size)]))


def test_calls_under_way(job):
    tensors = [torch.full((1000,), float(job.rank)) for _ in range(100)]
    works = [dist.all_reduce(each, async_op=True) for each in tensors]
    barrier = dist.barrier(async_op=True)
    del works[::2]  # a program need not keep them
    for work in works:
        assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    barrier.wait()
    for each in tensors:
        assert each.eq(sum(range(job.size))).all()


def test_futures(job):
    futures = [dist.all_reduce(torch.full((n,), 1.0), async_op=True).get_future() for n in range(1, 50)]
    doubled = futures[0].then(lambda future: future.value()[0] * 2)
    for n, future in enumerate(futures, 1):
        future.wait()
        equal(future.value()[0], torch.full((n,), float(job.size)))
    equal(doubled.wait(), torch.full((1,), 2.0 * job.size))


def test_every_wait_of_a_call_ends_after_its_data_is_in_place(job):
    whole = torch.full((4, 2), float(job.rank))
    work = dist.all_reduce(whole[:, 0], async_op=True)
    finish, has_begun, may_end, seen = work._finish, threading.Event(), threading.Event(), []

    def slow_finish():
        has_begun.set()
        may_end.wait(60)
        finish()

    def wait():
        work.wait()
        seen.append(whole[:, 0].clone())

    work._finish = slow_finish
    threads = [threading.Thread(target=wait) for _ in range(2)]
    threads[0].start()
    assert has_begun.wait(60)
    threads[1].start()
    threads[1].join(0.2)  # a wait that does not wait for the data ends at once
    may_end.set()
    for each in threads:
        each.join()
    for each in seen:
        equal(each, torch.full((4,), float(sum(range(job.size)))))


def test_coalescing_manager(job):
    if not hasattr(dist, "_coalescing_manager"):
        pytest.skip("not in this torch")
    tensors = [torch.ones(n + 1) for n in range(3)]
    with dist._coalescing_manager():
        for each in tensors:
            dist.all_reduce(each)
    assert all(each.eq(job.size).all() for each in tensors)
    got = [torch.empty(job.size * (n + 1)) for n in range(3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for n, each in enumerate(got):
            dist.all_gather_into_tensor(each, torch.full((n + 1,), float(job.rank)))
    manager.wait()
    for n, each in enumerate(got):
        assert each.view(job.size, -1).eq(torch.arange(float(job.size)).view(-1, 1)).all()


def test_monitored_barrier_of_the_group(world):
    world.monitored_barrier()
