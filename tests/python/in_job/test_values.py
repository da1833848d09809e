"""Every collective against NumPy, over dtypes, shapes and reduce operations."""

import array
import functools
import itertools

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dabke

ml_dtypes = pytest.importorskip("ml_dtypes")

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS]
SHAPES = [(), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4, 5), (100_003,)]


def reduced(inputs, op):
    """NumPy's result of `op` on the inputs, in their dtype."""
    dtype = inputs[0].dtype
    if dtype == bool:
        whole = any if op in (dabke.Sum, dabke.Max, dabke.BitwiseOr) else all
        if op == dabke.BitwiseXor:
            return functools.reduce(numpy.logical_xor, inputs)
        return functools.reduce(numpy.logical_or if whole is any else numpy.logical_and, inputs)
    ufunc = {
        dabke.Average: numpy.add,
        dabke.Sum: numpy.add,
        dabke.Min: numpy.minimum,
        dabke.Max: numpy.maximum,
        dabke.Product: numpy.multiply,
        dabke.BitwiseAnd: numpy.bitwise_and,
        dabke.BitwiseOr: numpy.bitwise_or,
        dabke.BitwiseXor: numpy.bitwise_xor,
    }[op]
    if op != dabke.Average:
        return functools.reduce(lambda a, b: ufunc(a, b).astype(dtype), inputs)
    if dtype.kind in "iu":
        return numpy.trunc(
            functools.reduce(ufunc, [each.astype("float64") for each in inputs]) / len(inputs)
        ).astype(dtype)
    return (functools.reduce(ufunc, [each.astype("float64") for each in inputs]) / len(inputs)).astype(dtype)


def check(result, wanted):
    assert result.dtype == wanted.dtype
    assert result.shape == wanted.shape
    if wanted.dtype.kind in "fV":
        numpy.testing.assert_allclose(
            result.astype("float64"),
            wanted.astype("float64"),
            rtol=1e-2 if wanted.dtype.itemsize == 2 else 1e-6,
        )
    else:
        numpy.testing.assert_array_equal(result, wanted)


ARITHMETIC = [dabke.Average, dabke.Sum, dabke.Min, dabke.Max, dabke.Product]
BITWISE = [dabke.BitwiseAnd, dabke.BitwiseOr, dabke.BitwiseXor]
CASES = [
    (dtype, op)
    for dtype, op in itertools.product(DTYPES, ARITHMETIC)
    if (dtype, op) != ("bool", dabke.Average)
]
CASES += [(dtype, op) for dtype, op in itertools.product(["bool", *INTEGERS], BITWISE)]
CASE_NAMES = [f"{dtype}-{op.name.lower()}" for dtype, op in CASES]


@pytest.mark.parametrize("dtype,op", CASES, ids=CASE_NAMES)
def test_allreduce_is_the_reduction_of_all_ranks(job, dtype, op):
    inputs = job.inputs((3, 5), dtype)
    before = inputs[job.rank].copy()
    check(dabke.allreduce(inputs[job.rank], op=op), reduced(inputs, op))
    numpy.testing.assert_array_equal(inputs[job.rank], before)


@pytest.mark.parametrize("dtype,op", CASES, ids=CASE_NAMES)
def test_allreduce_in_place_writes_its_input_and_gives_it_back(job, dtype, op):
    inputs = job.inputs((11,), dtype)
    wanted = reduced(inputs, op)
    mine = inputs[job.rank]
    assert dabke.allreduce_(mine, op=op) is mine
    check(mine, wanted)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_allreduce_takes_any_shape(job, shape):
    inputs = job.inputs(shape, "float32")
    check(dabke.allreduce(inputs[job.rank]), reduced(inputs, dabke.Average))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("in_place", [False, True], ids=["out", "in-place"])
def test_allreduce_writes_into_a_given_output(job, dtype, in_place):
    inputs = job.inputs((4, 3), dtype)
    wanted = reduced(inputs, dabke.Max)
    mine = inputs[job.rank]
    out = mine if in_place else numpy.empty_like(mine)
    assert dabke.allreduce(mine, op=dabke.Max, out=out) is out
    check(out, wanted)


def test_scales_multiply_before_and_after(job):
    inputs = job.inputs((9,), "float64")
    result = dabke.allreduce(inputs[job.rank], op=dabke.Sum, prescale_factor=0.5, postscale_factor=4.0)
    check(result, 2.0 * sum(inputs))


def test_bfloat16_goes_in_and_comes_out(job):
    mine = numpy.full(5, job.rank + 1, ml_dtypes.bfloat16)
    total = sum(range(1, job.size + 1))
    check(dabke.allreduce(mine, op=dabke.Sum), numpy.full(5, total, ml_dtypes.bfloat16))
    gathered = dabke.allgather(mine)
    assert gathered.dtype == ml_dtypes.bfloat16
    assert gathered.astype(int).tolist() == [rank + 1 for rank in range(job.size) for _ in range(5)]


@pytest.mark.parametrize("compression", list(dabke.Compression))
def test_compression_leaves_what_stays_in_a_host(job, compression):
    inputs = job.inputs((5,), "float32")
    check(dabke.allreduce(inputs[job.rank], compression=compression), reduced(inputs, dabke.Average))


@given(
    shapes=st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
    op=st.sampled_from(ARITHMETIC),
    dtype=st.sampled_from(INTEGERS + FLOATS),
    in_place=st.booleans(),
)
def test_a_group_is_reduced_tensor_by_tensor(shapes, seed, op, dtype, in_place):
    from conftest import Job

    job = Job()
    per_tensor = [job.inputs(tuple(shape), dtype, seed + i) for i, shape in enumerate(shapes)]
    wanted = [reduced(inputs, op) for inputs in per_tensor]
    mine = [inputs[job.rank] for inputs in per_tensor]
    results = dabke.grouped_allreduce_(mine, op=op) if in_place else dabke.grouped_allreduce(mine, op=op)
    for result, each in zip(results, wanted, strict=True):
        check(result, each)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("given_output", [False, True], ids=["new", "into"])
def test_allgather_puts_the_ranks_rows_one_behind_the_other(job, dtype, given_output):
    inputs = [job.input(rank, (rank + 1, 2), dtype) for rank in range(job.size)]
    wanted = numpy.concatenate(inputs)
    out = numpy.empty_like(wanted) if given_output else None
    result = dabke.allgather(inputs[job.rank], out=out)
    assert out is None or result is out
    check(result, wanted)


@given(rows=st.lists(st.integers(0, 5), min_size=8, max_size=8), columns=st.integers(0, 4))
def test_allgather_takes_any_rows_of_each_rank(rows, columns):
    from conftest import Job

    job = Job()
    inputs = [job.input(rank, (rows[rank], columns), "int32") for rank in range(job.size)]
    check(dabke.allgather(inputs[job.rank]), numpy.concatenate(inputs))


def test_a_group_is_gathered_tensor_by_tensor(job):
    per_tensor = [
        [job.input(rank, (rank + k, 3), "float64", k) for rank in range(job.size)] for k in range(4)
    ]
    results = dabke.grouped_allgather([inputs[job.rank] for inputs in per_tensor])
    for result, inputs in zip(results, per_tensor, strict=True):
        check(result, numpy.concatenate(inputs))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["new", "out", "in-place"])
def test_broadcast_is_the_roots_tensor_everywhere(job, dtype, form):
    for root in range(job.size):
        inputs = job.inputs((2, 3), dtype, seed=root)
        wanted = inputs[root].copy()
        mine = inputs[job.rank]
        if form == "in-place":
            assert dabke.broadcast_(mine, root) is mine
            check(mine, wanted)
        else:
            out = numpy.empty_like(mine) if form == "out" else None
            check(dabke.broadcast(mine, root, out=out), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_alltoall_without_splits_sends_equal_parts(job, dtype):
    inputs = job.inputs((2 * job.size, 3), dtype)
    wanted = numpy.concatenate([each[2 * job.rank : 2 * job.rank + 2] for each in inputs])
    check(dabke.alltoall(inputs[job.rank]), wanted)


@given(
    table=st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=4, max_size=4),
    into=st.booleans(),
)
def test_alltoall_sends_what_the_splits_say(table, into):
    from conftest import Job

    job = Job()
    splits = [row[: job.size] for row in table[: job.size]]
    inputs = [job.input(rank, (sum(splits[rank]), 2), "int64") for rank in range(job.size)]
    blocks = [
        numpy.split(inputs[rank], numpy.cumsum(splits[rank])[:-1])[job.rank] for rank in range(job.size)
    ]
    wanted = numpy.concatenate(blocks)
    out = numpy.empty_like(wanted) if into else None
    result, received = dabke.alltoall(inputs[job.rank], splits[job.rank], out=out)
    check(result, wanted)
    assert received == [len(block) for block in blocks]


@pytest.mark.parametrize("op", ARITHMETIC, ids=lambda op: op.name.lower())
@pytest.mark.parametrize("rows", [0, 1, 5, 8])
def test_reducescatter_keeps_this_ranks_rows(job, op, rows):
    inputs = job.inputs((rows, 2), "float64")
    wanted = numpy.array_split(reduced(inputs, op), job.size)[job.rank]
    check(dabke.reducescatter(inputs[job.rank], op=op), wanted)
    out = numpy.empty_like(wanted)
    assert dabke.reducescatter(inputs[job.rank], op=op, out=out) is out
    check(out, wanted)


def test_a_group_is_reduced_and_scattered_tensor_by_tensor(job):
    per_tensor = [job.inputs((k + 2, 3), "float32", k) for k in range(4)]
    mine = [inputs[job.rank] for inputs in per_tensor]
    wanted = [numpy.array_split(reduced(inputs, dabke.Sum), job.size)[job.rank] for inputs in per_tensor]
    for result, each in zip(dabke.grouped_reducescatter(mine, op=dabke.Sum), wanted, strict=True):
        check(result, each)
    outputs = [numpy.empty_like(each) for each in wanted]
    dabke.grouped_reducescatter(mine, op=dabke.Sum, out=outputs)
    for result, each in zip(outputs, wanted, strict=True):
        check(result, each)


def test_ranks_may_submit_in_any_order(job):
    names = [f"any order {i}" for i in range(20)]
    order = list(range(20))[:: 1 if job.rank % 2 == 0 else -1]
    handles = {i: dabke.allreduce_async(numpy.full(3, float(i)), names[i], dabke.Sum) for i in order}
    for i in range(20):
        check(dabke.synchronize(handles[i]), numpy.full(3, float(i * job.size)))


def test_a_joined_rank_takes_part_with_nothing(job):
    if job.rank == 0:
        last = dabke.join()
    else:
        result = dabke.allreduce(numpy.full(2, float(job.rank)), "beside a joined rank", dabke.Average)
        check(result, numpy.full(2, sum(range(job.size)) / (job.size - 1)))
        last = dabke.join()
    assert last in range(1, job.size)


def test_arrays_of_the_standard_library_are_reduced(job):
    mine = array.array("d", [1.0, 2.0])
    dabke.allreduce_(mine, op=dabke.Sum)
    assert mine.tolist() == [job.size, 2.0 * job.size]
    assert dabke.allreduce(mine, op=dabke.Max).tolist() == mine.tolist()


def test_what_speaks_dlpack_is_reduced(job):
    class OnlyDLPack:
        def __init__(self, values):
            self.values = values

        def __dlpack__(self, **keywords):
            return self.values.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

    mine = OnlyDLPack(numpy.arange(4, dtype="float32"))
    check(dabke.allreduce(mine, op=dabke.Sum), job.size * numpy.arange(4, dtype="float32"))
    dabke.allreduce_(mine, op=dabke.Sum)
    check(mine.values, job.size * numpy.arange(4, dtype="float32"))


def test_a_tensor_that_stands_for_the_negative_of_its_memory_is_refused(job):
    torch = pytest.importorskip("torch")
    negative = torch.tensor([1 + 2j]).conj().imag
    assert negative.is_neg() and negative.is_contiguous()
    with pytest.raises(ValueError, match="resolve_neg"):
        dabke.allreduce(negative, "negative")
    assert dabke.allreduce(negative.resolve_neg(), "negative").item() == -2


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16", numpy.float64])
def test_arrays_in_shared_memory_are_reduced_in_place(job, dtype):
    mine = dabke.alloc((100, 3), dtype)
    mine[...] = 1
    dabke.allreduce_(mine, "in shared memory", dabke.Max)
    assert mine.shape == (100, 3)
    assert (mine == 1).all()


def test_barrier_holds_everyone_until_the_last_has_come(job):
    handle = None if job.rank == 0 else dabke.barrier_async()
    dabke.allreduce(numpy.ones(1), "before the barrier")
    assert handle is None or not dabke.poll(handle)
    dabke.allreduce(numpy.ones(1), "still before the barrier")
    if handle is None:
        dabke.barrier()
    else:
        handle.wait()
