"""Every call on tensors that are views: strided, channels_last, expanded, negative, conjugate, empty.

The results are NumPy's. Elements between those of a view are not touched.
"""

import numpy
import pytest
from ddp import dist, torch, world  # noqa: F401

pytestmark = pytest.mark.usefixtures("world")

GAP = 77
SHAPE, EMPTY = (2, 3, 2, 2), (2, 0, 2, 2)


def plain(shape):
    base = torch.full(shape, float(GAP))
    return base, base


def strided(shape):
    base = torch.full((*shape[:-1], 2 * shape[-1]), float(GAP))
    return base, base[..., ::2]


def transposed(shape):
    base = torch.full(shape[::-1], float(GAP))
    return base, base.permute(3, 2, 1, 0)


def channels_last(shape):
    base = torch.full(shape, float(GAP)).contiguous(memory_format=torch.channels_last)
    return base, base


def offset(shape):
    base = torch.full((int(numpy.prod(shape)) + 3,), float(GAP))
    return base, base[3:].view(shape)


def negative(shape):
    base = torch.full(shape, complex(GAP, GAP))
    return base, base.conj().imag


def conjugate(shape):
    base = torch.full(shape, complex(GAP, GAP))
    return base, base.conj()


def conjugate_strided(shape):
    base = torch.full((*shape[:-1], 2 * shape[-1]), complex(GAP, GAP))
    return base, base.conj()[..., ::2]


REAL = [plain, strided, transposed, channels_last, offset, negative]
COMPLEX = [conjugate, conjugate_strided]
FORMS = [*REAL, *COMPLEX]


def values(rank, shape, form, part=0):
    """Values of a rank, in NumPy: the same on all ranks."""
    random = numpy.random.default_rng([rank, part])
    numbers = random.integers(-4, 5, shape).astype(numpy.float32)
    if form in COMPLEX:
        numbers = (numbers + 1j * random.integers(-4, 5, shape)).astype(numpy.complex64)
    return numbers


class View:
    """A view of a form with values, and what the memory around it has been."""

    def __init__(self, form, numbers):
        self.base, self.tensor = form(numbers.shape)
        self.tensor.copy_(torch.from_numpy(numbers))
        self.numbers, self.before = numbers, self.base.clone()

    def check(self, expected):
        """The view has the expected values, and the memory around it is as before."""
        numpy.testing.assert_array_equal(self.tensor.resolve_conj().resolve_neg().numpy(), expected)
        self.tensor.copy_(torch.from_numpy(self.numbers))
        assert torch.equal(self.base, self.before)


class Case:
    """One form as the input and one as the output, on this rank of the job."""

    def __init__(self, job, source, target, shape):
        self.rank, self.size, self.source, self.target, self.shape = job.rank, job.size, source, target, shape
        self.group = dist.distributed_c10d._get_default_group()

    def of(self, rank, part=0):
        return values(rank, self.shape, self.source, part)

    def all(self):
        return [self.of(rank) for rank in range(self.size)]

    def input(self, numbers=None):
        return View(self.source, self.of(self.rank) if numbers is None else numbers)

    def output(self, shape=None):
        return View(self.target, values(99, self.shape if shape is None else shape, self.target))

    def parts(self, rank):
        return [self.of(rank, part) for part in range(self.size)]


def all_reduce(case):
    mine = case.input()
    case.group.allreduce([mine.tensor]).wait()
    mine.check(sum(case.all()))


def all_reduce_coalesced(case):
    mine = [case.input(), case.input()]
    case.group.allreduce_coalesced([each.tensor for each in mine]).wait()
    for each in mine:
        each.check(sum(case.all()))


def broadcast(case):
    mine = case.input()
    options = dist.BroadcastOptions()
    options.rootRank = case.size - 1
    case.group.broadcast([mine.tensor], options).wait()
    mine.check(case.of(case.size - 1))


def reduce(case):
    mine = case.input()
    options = dist.ReduceOptions()
    options.rootRank = case.size - 1
    case.group.reduce([mine.tensor], options).wait()
    mine.check(sum(case.all()) if case.rank == case.size - 1 else mine.numbers)


def all_gather(case):
    mine, got = case.input(), [case.output() for _ in range(case.size)]
    case.group.allgather([[each.tensor for each in got]], [mine.tensor]).wait()
    for rank, each in enumerate(got):
        each.check(case.of(rank))
    mine.check(mine.numbers)


def all_gather_into_tensor(case):
    mine, got = case.input(), case.output((case.size * case.shape[0], *case.shape[1:]))
    case.group._allgather_base(got.tensor, mine.tensor).wait()
    got.check(numpy.concatenate(case.all()))
    mine.check(mine.numbers)


def reduce_scatter(case):
    mine, got = [case.input(each) for each in case.parts(case.rank)], case.output()
    case.group.reduce_scatter([got.tensor], [[each.tensor for each in mine]]).wait()
    got.check(sum(case.of(rank, case.rank) for rank in range(case.size)))
    for each in mine:
        each.check(each.numbers)


def reduce_scatter_tensor(case):
    mine, got = case.input(numpy.concatenate(case.parts(case.rank))), case.output()
    case.group._reduce_scatter_base(got.tensor, mine.tensor).wait()
    got.check(sum(case.of(rank, case.rank) for rank in range(case.size)))
    mine.check(mine.numbers)


def all_to_all(case):
    mine = [case.input(each) for each in case.parts(case.rank)]
    got = [case.output() for _ in range(case.size)]
    case.group.alltoall([each.tensor for each in got], [each.tensor for each in mine]).wait()
    for rank, each in enumerate(got):
        each.check(case.of(rank, case.rank))


def all_to_all_single(case):
    mine = case.input(numpy.concatenate(case.parts(case.rank)))
    got = case.output((case.size * case.shape[0], *case.shape[1:]))
    case.group.alltoall_base(got.tensor, mine.tensor, [], []).wait()
    got.check(numpy.concatenate([case.of(rank, case.rank) for rank in range(case.size)]))
    mine.check(mine.numbers)


def all_to_all_single_of_unequal_rows(case):
    """Rank r sends j + 1 blocks to rank j."""
    rows = [(each + 1) * case.shape[0] for each in range(case.size)]
    whole = (sum(rows), *case.shape[1:])
    mine = case.input(values(case.rank, whole, case.source))
    received = [rows[case.rank]] * case.size
    got = case.output((sum(received), *case.shape[1:]))
    case.group.alltoall_base(got.tensor, mine.tensor, received, rows).wait()
    begin = sum(rows[: case.rank])
    sent = [values(rank, whole, case.source)[begin : begin + rows[case.rank]] for rank in range(case.size)]
    got.check(numpy.concatenate(sent))


def gather(case):
    root = case.size - 1
    mine, got = case.input(), [case.output() for _ in range(case.size if case.rank == root else 0)]
    options = dist.GatherOptions()
    options.rootRank = root
    case.group.gather([[each.tensor for each in got]] if got else [], [mine.tensor], options).wait()
    for rank, each in enumerate(got):
        each.check(case.of(rank))
    mine.check(mine.numbers)


def scatter(case):
    root = case.size - 1
    mine = [case.input(each) for each in case.parts(root)] if case.rank == root else []
    got = case.output()
    options = dist.ScatterOptions()
    options.rootRank = root
    case.group.scatter([got.tensor], [[each.tensor for each in mine]] if mine else [], options).wait()
    got.check(case.of(root, case.rank))
    for each in mine:
        each.check(each.numbers)


def send_and_recv(case):
    mine, got = case.input(), case.output()
    after, before = (case.rank + 1) % case.size, (case.rank - 1) % case.size
    works = [case.group.recv([got.tensor], before, 0), case.group.send([mine.tensor], after, 0)]
    for work in works:
        work.wait()
    got.check(case.of(before))


IN_PLACE = [all_reduce, all_reduce_coalesced, broadcast, reduce]
FROM_INPUT = [
    all_gather,
    all_gather_into_tensor,
    reduce_scatter,
    reduce_scatter_tensor,
    all_to_all,
    all_to_all_single,
    all_to_all_single_of_unequal_rows,
    gather,
    scatter,
    send_and_recv,
]


def name_of(value):
    return value.__name__ if callable(value) else None


@pytest.mark.parametrize("form", FORMS, ids=name_of)
@pytest.mark.parametrize("call", IN_PLACE, ids=name_of)
def test_in_place(call, form, job):
    for shape in (SHAPE, EMPTY):
        call(Case(job, form, form, shape))


@pytest.mark.parametrize("target", FORMS, ids=name_of)
@pytest.mark.parametrize("call", FROM_INPUT, ids=name_of)
def test_from_an_input(call, target, job):
    for source in COMPLEX if target in COMPLEX else REAL:
        for shape in (SHAPE, EMPTY):
            call(Case(job, source, target, shape))


def test_results_of_conjugate_inputs_in_plain_memory(job):
    mine = conjugate(SHAPE)[1].copy_(torch.from_numpy(values(job.rank, SHAPE, conjugate)))
    got = [torch.empty(SHAPE, dtype=torch.complex64) for _ in range(job.size)]
    dist.distributed_c10d._get_default_group().allgather([got], [mine]).wait()
    for rank, each in enumerate(got):
        numpy.testing.assert_array_equal(each.numpy(), values(rank, SHAPE, conjugate))


def expanded(job):
    return torch.full((2, 1), float(job.rank)).expand(2, 3)


def test_an_expanded_input(job):
    got = [torch.empty(2, 3) for _ in range(job.size)]
    dist.all_gather(got, expanded(job))
    assert [each.tolist() for each in got] == [[[float(rank)] * 3] * 2 for rank in range(job.size)]
    part = torch.empty(2, 3)
    dist.reduce_scatter(part, [expanded(job)] * job.size)
    assert part.eq(sum(range(job.size))).all()
    # Only the root's tensor is a result.
    total = torch.full((2, 3), 0.0) if job.rank == 0 else expanded(job)
    dist.reduce(total, 0)
    assert total.eq(sum(range(job.size)) if job.rank == 0 else job.rank).all()


def test_an_expanded_result_is_refused_before_anything_is_sent(job):
    group = dist.distributed_c10d._get_default_group()
    output = torch.zeros(1, 1).expand(2, 3)
    for call in (
        lambda: group.allreduce([output]),
        lambda: group.allgather([[output] * job.size], [torch.ones(2, 3)]),
        lambda: group.recv([output], (job.rank + 1) % job.size, 0),
    ):
        with pytest.raises(ValueError, match="share memory"):
            call()
