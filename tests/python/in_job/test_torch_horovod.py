"""Demands of test suites and programs that were written for Horovod's API. Expected values are exact.

- rows that differ by rank
- GPU arguments on a machine without GPUs
- sparse gradients
- the state after `broadcast_optimizer_state` and `synchronize`
"""

import itertools
import warnings

import pytest

torch = pytest.importorskip("torch")
hvd = pytest.importorskip("dabke.torch")
nn = torch.nn

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, *FLOATS]
names = itertools.count()


def fresh():
    """A name that no earlier call has used, the same on all ranks."""
    return f"horovod.{next(names)}"


def exact(got, want):
    """Checks that the values are equal to the bit, in dtype and shape too."""
    want = torch.as_tensor(want, dtype=got.dtype) if not isinstance(want, torch.Tensor) else want
    assert got.dtype == want.dtype and got.shape == want.shape, (got, want)
    assert torch.equal(got, want), (got, want)


def rows_of(job, rank, columns=2, dtype=torch.float32):
    """(rank + 1) * size rows: each rank has another number of rows, which divides evenly."""
    count = (rank + 1) * job.size
    return (torch.arange(count).unsqueeze(1) % 8 + 16 * rank).expand(count, columns).to(dtype).contiguous()


# ---- join ----


def test_a_device_that_is_not_there_means_the_host_to_a_join(job):
    for device in (job.rank, hvd.local_rank(), 0, 7, -1):
        if job.rank > 0:
            assert hvd.allreduce(torch.ones(2), op=hvd.Sum, name=fresh()).tolist() == [job.size - 1] * 2
        else:
            next(names)
        last = hvd.join(device)
        assert 0 <= last < job.size


# ---- rows that differ by rank, forward and backward ----


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_moves_rows_moves_those_that_differ_by_rank(job, dtype):
    every = [rows_of(job, rank, dtype=dtype) for rank in range(job.size)]
    mine = every[job.rank]
    exact(hvd.allgather(mine, name=fresh()), torch.cat(every))
    for got in hvd.grouped_allgather([mine, mine[: job.rank]], name=fresh())[:1]:
        exact(got, torch.cat(every))
    even = torch.cat([each.chunk(job.size)[job.rank] for each in every])
    exact(hvd.alltoall(mine, name=fresh()), even)
    exact(hvd.synchronize(hvd.alltoall_async(mine, name=fresh())), even)
    # Rank r sends i of its rows to rank i, and the remaining rows to the last rank.
    splits = [[*range(job.size - 1), len(each) - sum(range(job.size - 1))] for each in every]
    got, received = hvd.alltoall(mine, splits=torch.tensor(splits[job.rank], dtype=torch.int32), name=fresh())
    exact(got, torch.cat([each.split(of_it)[job.rank] for each, of_it in zip(every, splits)]))
    exact(received, torch.tensor([of_it[job.rank] for of_it in splits], dtype=torch.int32))


def uneven_parts(job, tensor):
    """The parts of a reducescatter: the first ranks get one row more."""
    share, more = divmod(len(tensor), job.size)
    return tensor.split([share + (rank < more) for rank in range(job.size)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("more", [0, 1, -1])
def test_a_reducescatter_of_rows_that_do_not_divide(job, dtype, more):
    tensor = (torch.arange(2 * job.size + more) % 4).unsqueeze(1).repeat(1, 3).to(dtype)
    exact(hvd.reducescatter(tensor, op=hvd.Sum, name=fresh()), uneven_parts(job, tensor * job.size)[job.rank])
    for got in hvd.grouped_reducescatter([tensor, tensor], op=hvd.Sum, name=fresh()):
        exact(got, uneven_parts(job, tensor * job.size)[job.rank])
    got = hvd.reducescatter(tensor, op=hvd.Sum, name=fresh(), prescale_factor=2.0)
    exact(got, uneven_parts(job, tensor * 2 * job.size)[job.rank])


def leaf(rows, columns=2, dtype=torch.float64):
    return torch.ones(rows, columns, dtype=dtype, requires_grad=True)


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def dtype(request):
    return request.param


def backward(result, gradient):
    """Runs backward from the result, with the given gradient."""
    result.backward(gradient.to(result.dtype))


@pytest.mark.parametrize(
    "rows",
    [lambda job, rank: (rank + 1) * job.size, lambda job, rank: rank * job.size],
    ids=["more", "none on rank 0"],
)
def test_the_gradient_of_an_alltoall_goes_back_by_count(job, dtype, rows):
    x = leaf(rows(job, job.rank), dtype=dtype)
    got = hvd.alltoall(x, name=fresh())
    parts = [rows(job, rank) // job.size for rank in range(job.size)]
    assert len(got) == sum(parts)
    # Rows from rank r have the gradient (this rank + 1) * 8 + r.
    gradient = torch.cat(
        [torch.full((part, 2), (job.rank + 1) * 8.0 + rank) for rank, part in enumerate(parts)]
    )
    backward(got, gradient)
    want = torch.cat(
        [torch.full((parts[job.rank], 2), (rank + 1) * 8.0 + job.rank) for rank in range(job.size)]
    )
    exact(x.grad, want.to(dtype))


@pytest.mark.parametrize(
    "kind", [list, lambda splits: torch.tensor(splits, dtype=torch.int32)], ids=["list", "tensor"]
)
def test_the_gradient_of_an_alltoall_with_splits_goes_back_by_count(job, dtype, kind):
    def sent(rank):  # no rows to the rank itself
        return [0 if to == rank else rank + 2 * to + 1 for to in range(job.size)]

    x = leaf(sum(sent(job.rank)), dtype=dtype)
    got, received = hvd.alltoall(x, splits=kind(sent(job.rank)), name=fresh())
    assert (
        received.tolist() == [sent(rank)[job.rank] for rank in range(job.size)] and not received.requires_grad
    )
    backward(
        got,
        torch.cat(
            [torch.full((count, 2), 10.0 * job.rank + rank) for rank, count in enumerate(received.tolist())]
        ),
    )
    want = torch.cat(
        [torch.full((count, 2), 10.0 * rank + job.rank) for rank, count in enumerate(sent(job.rank))]
    )
    exact(x.grad, want.to(dtype))


def test_the_gradient_of_an_allgather_is_the_average_of_each_ranks_own_rows(job, dtype):
    rows = [rank * 2 for rank in range(job.size)]  # rank 0 has no rows
    first = sum(rows[: job.rank])
    whole = torch.arange(float(sum(rows))).unsqueeze(1).expand(-1, 2)
    want = whole[first : first + rows[job.rank]].to(dtype)
    x = leaf(rows[job.rank], dtype=dtype)
    # The average over the ranks is `whole`.
    backward(hvd.allgather(x, name=fresh()), whole * job.size * (1 if job.rank == 0 else 0))
    exact(x.grad, want)
    x, y, z = leaf(rows[job.rank], dtype=dtype), leaf(1, dtype=dtype), leaf(2, dtype=dtype)
    a, b, _ = hvd.grouped_allgather([x, y, z], name=fresh())
    torch.autograd.backward([a, b], [(whole * job.size * (job.rank == 0)).to(dtype), torch.full_like(b, 3.0)])
    exact(x.grad, want)
    exact(y.grad, torch.full_like(y, 3.0))
    exact(z.grad, torch.zeros_like(z))


@pytest.mark.parametrize("more", [1, -1])
@pytest.mark.parametrize("op,factor", [(hvd.Average, 1), (hvd.Sum, None)], ids=["average", "sum"])
def test_the_gradient_of_a_reducescatter_has_the_rows_that_do_not_divide(job, dtype, op, factor, more):
    rows = 2 * job.size + more
    factor = factor or job.size
    shares = [len(part) for part in uneven_parts(job, torch.ones(rows, 2))]
    want = torch.cat(
        [torch.full((share, 2), 4.0 * factor * (rank + 1)) for rank, share in enumerate(shares)]
    ).to(dtype)
    x = leaf(rows, dtype=dtype)
    got = hvd.reducescatter(x, op=op, name=fresh(), prescale_factor=2.0, postscale_factor=2.0)
    assert len(got) == shares[job.rank]
    backward(got, torch.full_like(got, job.rank + 1))
    exact(x.grad, want)
    x, y = leaf(rows, dtype=dtype), leaf(job.size, dtype=dtype)
    a, b = hvd.grouped_reducescatter([x, y], op=op, name=fresh(), prescale_factor=4.0)
    torch.autograd.backward([a, b], [torch.full_like(a, job.rank + 1), torch.zeros_like(b)])
    exact(x.grad, want)
    exact(y.grad, torch.zeros_like(y))


def test_the_gradients_of_allreduce_and_broadcast_are_exact(job, dtype):
    total = sum(range(1, job.size + 1))
    x, y = leaf(3, dtype=dtype), leaf(5, dtype=dtype)
    backward(
        hvd.allreduce(x, op=hvd.Sum, name=fresh(), prescale_factor=0.5), torch.full((3, 2), job.rank + 1.0)
    )
    exact(x.grad, torch.full_like(x, total / 2))
    a, b = hvd.grouped_allreduce([x, y], op=hvd.Sum, name=fresh(), postscale_factor=4.0)
    x.grad = None
    torch.autograd.backward([a, b], [torch.full_like(a, job.rank + 1), torch.full_like(b, 2)])
    exact(x.grad, torch.full_like(x, 4 * total))
    exact(y.grad, torch.full_like(y, 8 * job.size))
    for root in range(job.size):
        x.grad = None
        backward(hvd.broadcast(x, root, name=fresh()), torch.full((3, 2), 2.0 * job.size))
        exact(x.grad, torch.full_like(x, 2.0 * job.size if job.rank == root else 0))


def test_gradients_flow_in_process_sets_of_uneven_rows(job):
    others = hvd.add_process_set(list(range(1, job.size)))
    if others.included():
        at, size = others.rank(), others.size()
        x = leaf((at + 1) * size)
        got = hvd.alltoall(x, name=fresh(), process_set=others)
        backward(got, torch.full_like(got, at))
        exact(x.grad, torch.cat([torch.full((at + 1, 2), float(rank)) for rank in range(size)]).double())
    else:
        next(names)
    hvd.remove_process_set(others)


# ---- the optimizer ----


def linear(**arguments):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125, **arguments)
    return model, hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def warned(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [each for each in seen if issubclass(each.category, UserWarning)]


def test_a_step_behind_synchronize_warns_once_and_reduces_once(job):
    model, optimizer = linear()
    model(torch.full((2, 4), job.rank + 1.0)).sum().backward()
    assert not warned(optimizer.synchronize)
    gradient = model[1].bias.grad
    exact(gradient, torch.full_like(gradient, 2.0))
    gradient.fill_(float(job.rank))  # a second reduction would make it equal on all ranks
    before = model[1].bias.detach().clone()
    seen = warned(optimizer.step)
    assert (
        len(seen) == 1
        and "reduced only once" in str(seen[0].message)
        and "skip_synchronize()" in str(seen[0].message)
    )
    exact(model[1].bias.detach(), before - 0.125 * job.rank)
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        assert not warned(optimizer.step)
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    assert not warned(optimizer.step)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "SparseAdam"])
@pytest.mark.parametrize("distributed", [False, True])
def test_behind_a_broadcast_of_the_optimizer_gradients_are_zeros_where_they_are_needed(
    job, kind, distributed
):
    layers = (
        [nn.Embedding(5, 2, sparse=True), nn.Embedding(3, 2, sparse=True)]
        if kind == "SparseAdam"
        else [nn.Linear(3, 2), nn.Linear(2, 2)]
    )
    model = nn.Sequential(*layers)
    model[0].weight.requires_grad_(False)
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.5)
    if distributed:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    kept = torch.full_like(model[1].weight, 2.0) if kind == "SGD" and job.rank == 0 else None
    model[1].weight.grad = kept
    before = [each.detach().clone() for each in model.parameters()]
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for parameter, value in zip(model.parameters(), before):
        exact(parameter.detach(), value)
        if not parameter.requires_grad:
            assert parameter.grad is None
        elif kept is not None and parameter is model[1].weight:
            assert parameter.grad is kept
        else:
            exact(parameter.grad.to_dense(), torch.zeros_like(parameter))
    assert model[1].weight.grad.is_sparse == (kind == "SparseAdam")
    model[1].weight.grad = None
    loss = model[1](torch.tensor([0, 2])).sum() if kind == "SparseAdam" else model(torch.ones(1, 3)).sum()
    loss.backward()  # the sum with the zeros has their form
    optimizer.step()


def test_the_names_of_an_optimizers_parameters_can_be_read(job):
    model, optimizer = linear()
    assert optimizer._parameter_names == {parameter: name for name, parameter in model.named_parameters()}
    unnamed = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    assert list(unnamed._parameter_names) == list(model.parameters())
    assert len(set(unnamed._parameter_names.values())) == 4


def wide(sparse, kind, **arguments):
    """A table of which each rank uses one row, and only rank 0 uses row 7."""
    torch.manual_seed(2)
    table = nn.Embedding(8, 2, sparse=sparse)
    return table, getattr(torch.optim, kind)(table.parameters(), lr=0.5, **arguments)


def loss_of(table, ranks):
    return sum((table(torch.tensor([rank, 3, 3] + [7] * (rank == 0))) * (rank + 1)).sum() for rank in ranks)


# The form of gradient that the optimizer gets; where an optimizer takes both forms, the one that Horovod
# returns.
FORMS = [
    ("SparseAdam", {}, True),
    ("SGD", {}, True),
    ("SGD", {"momentum": 0.5}, True),
    ("Adagrad", {}, True),
    ("SGD", {"weight_decay": 0.25}, False),
    ("Adam", {}, False),
    ("AdamW", {}, False),
    ("RMSprop", {}, False),
]


@pytest.mark.parametrize("kind,arguments,is_sparse", FORMS, ids=str)
@pytest.mark.parametrize("groups", [None, 1])
def test_sparse_as_dense_gives_an_optimizer_what_it_takes(job, kind, arguments, is_sparse, groups):
    table, plain = wide(True, kind, **arguments)
    optimizer = hvd.DistributedOptimizer(
        plain, table.named_parameters(), sparse_as_dense=True, groups=groups, op=hvd.Sum
    )
    alone, reference = wide(is_sparse, kind, **arguments)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(table, [job.rank]).backward()
        optimizer.step()
        assert table.weight.grad.is_sparse == is_sparse
        reference.zero_grad()
        loss_of(alone, range(job.size)).backward()
        reference.step()
        exact(table.weight.grad.to_dense(), alone.weight.grad.to_dense())
    assert torch.allclose(table.weight, alone.weight, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("as_dense", [False, True])
def test_an_optimizer_that_takes_sparse_gradients_alone_gets_them_on_ranks_that_do_not_use_the_table(
    job, as_dense
):
    table, plain = wide(True, "SparseAdam")
    optimizer = hvd.DistributedOptimizer(
        plain, table.named_parameters(), sparse_as_dense=as_dense, op=hvd.Sum
    )
    alone, reference = wide(True, "SparseAdam")
    for user in (0, job.size - 1):
        optimizer.zero_grad()
        if job.rank == user:
            loss_of(table, [user]).backward()
        optimizer.step()
        reference.zero_grad()
        loss_of(alone, [user]).backward()
        reference.step()
    assert table.weight.grad.is_sparse and torch.allclose(table.weight, alone.weight, rtol=1e-6, atol=1e-6)


# ---- factors of floats ----


FACTORS = [(0.1, 1.0), (1.0, 2.34), (1 / 3, 3.0), (0.7, 1 / 7)]


@pytest.mark.parametrize("before, after", FACTORS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_factor_is_rounded_to_the_dtype_and_multiplies_once_with_one_rounding(job, dtype, before, after):
    computed = torch.float64 if dtype == torch.float64 else torch.float32

    def times(tensor, factor):
        return (tensor.to(computed) * torch.tensor(factor, dtype=computed)).to(dtype)

    mine = (torch.arange(1, 1002) * 1.37).to(dtype)
    added = (times(mine, before).to(computed) * (job.size if job.size < 4 else 1)).to(dtype)
    # Three equal numbers add up with one rounding. With more ranks, only one rank's numbers are not zero.
    if job.size > 3 and job.rank > 0:
        mine = torch.zeros_like(mine)
    want = times(added, after)
    factors = {"prescale_factor": before, "postscale_factor": after}
    exact(hvd.allreduce(mine, op=hvd.Sum, name=fresh(), **factors), want)
    exact(hvd.synchronize(hvd.allreduce_async(mine, op=hvd.Sum, name=fresh(), **factors)), want)
    exact(hvd.allreduce_(mine.clone(), op=hvd.Sum, name=fresh(), **factors), want)
    for got in hvd.grouped_allreduce([mine, mine], op=hvd.Sum, name=fresh(), **factors):
        exact(got, want)
    exact(hvd.reducescatter(mine, op=hvd.Sum, name=fresh(), **factors), uneven_parts(job, want)[job.rank])
    for got in hvd.grouped_reducescatter([mine, mine], op=hvd.Sum, name=fresh(), **factors):
        exact(got, uneven_parts(job, want)[job.rank])


def test_what_torch_is_told_of_subnormal_numbers_changes_no_result(job):
    least = torch.full((5,), 2.0**-140)
    want = (least.numpy() * job.size).astype("float32").tobytes()
    torch.set_flush_denormal(job.rank == 0)
    try:
        got = hvd.allreduce(least, op=hvd.Sum, name=fresh())
        handle = hvd.allreduce_async(least, op=hvd.Sum, name=fresh())
        while not hvd.poll(handle):
            pass
        polled = hvd.synchronize(handle)
    finally:
        torch.set_flush_denormal(False)
    assert got.numpy().tobytes() == want == polled.numpy().tobytes()


# ---- the rest of the API ----


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Min, hvd.Max, hvd.Product])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_allreduce_is_exact_in_each_of_its_forms(job, dtype, op):
    def of(rank):
        return (torch.arange(17) % 2 + (rank % 2) + (0 if op != hvd.Product else 1)).to(dtype)

    stack = torch.stack([of(rank).to(torch.float64) for rank in range(job.size)])
    want = {
        hvd.Sum: stack.sum(0),
        hvd.Min: stack.min(0).values,
        hvd.Max: stack.max(0).values,
        hvd.Product: stack.prod(0),
    }[op].to(dtype)
    exact(hvd.allreduce(of(job.rank), op=op, name=fresh()), want)
    exact(hvd.synchronize(hvd.allreduce_async(of(job.rank), op=op, name=fresh())), want)
    mine = of(job.rank)
    assert hvd.allreduce_(mine, op=op, name=fresh()) is mine
    exact(mine, want)
    mine = of(job.rank)
    assert hvd.synchronize(hvd.allreduce_async_(mine, op=op, name=fresh())) is mine
    exact(mine, want)
    for form in (
        hvd.grouped_allreduce,
        hvd.grouped_allreduce_,
        lambda *a, **k: hvd.synchronize(hvd.grouped_allreduce_async(*a, **k)),
        lambda *a, **k: hvd.synchronize(hvd.grouped_allreduce_async_(*a, **k)),
    ):
        for got in form([of(job.rank), of(job.rank)], op=op, name=fresh()):
            exact(got, want)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool], ids=str)
def test_every_broadcast_is_exact_in_each_of_its_forms(job, dtype):
    def of(rank):
        return (torch.arange(6).view(2, 3) % (rank + 2)).to(dtype)

    for root in range(job.size):
        exact(hvd.broadcast(of(job.rank), root, name=fresh()), of(root))
        exact(hvd.synchronize(hvd.broadcast_async(of(job.rank), root_rank=root, name=fresh())), of(root))
        for form in (hvd.broadcast_, lambda *a, **k: hvd.synchronize(hvd.broadcast_async_(*a, **k))):
            mine = of(job.rank)
            assert form(mine, root, name=fresh()) is mine
            exact(mine, of(root))


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
@pytest.mark.parametrize("dtype", FLOATS[2:], ids=str)
def test_a_sparse_allreduce_adds_rows_that_some_ranks_have(job, dtype, op):
    # Rank r has r + 2 elements, of which two are in row 0.
    indices = torch.tensor([[*range(job.rank + 1), 0]])
    mine = torch.sparse_coo_tensor(
        indices, torch.ones(job.rank + 2, 3, dtype=dtype) * job.size, (job.size, 3)
    )
    got = hvd.sparse_allreduce_async(mine, fresh(), op=op)()
    counts = [job.size - row + (job.size if row == 0 else 0) for row in range(job.size)]
    want = torch.tensor(counts, dtype=dtype).unsqueeze(1).expand(-1, 3) * (job.size if op == hvd.Sum else 1)
    exact(got.to_dense(), want.contiguous())


def test_a_model_with_frozen_parameters_starts_and_trains_alike(job):
    model, optimizer = linear(momentum=0.5)
    with torch.no_grad():
        for each in model.parameters():
            each.add_(job.rank)
    hvd.broadcast_parameters(model.state_dict(), root_rank=job.size - 1)
    hvd.broadcast_optimizer_state(optimizer, root_rank=job.size - 1)
    want, _ = linear()
    for mine, theirs in zip(model.parameters(), want.parameters()):
        exact(mine.detach(), theirs.detach() + (job.size - 1))
    frozen = model[0].bias.detach().clone()
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.full((1, 4), job.rank + 1.0)).sum().backward()
        optimizer.step()
    exact(model[0].bias.detach(), frozen)
    assert model[0].bias.grad is None
    for each in model.parameters():
        for other in hvd.allgather(each.detach().unsqueeze(0), name=fresh()):
            exact(other, each.detach())
