"""The collectives of dabke.jax against NumPy: jitted and not, over dtypes, reduce operations, process sets
and pytrees."""

import contextlib

import numpy
import pytest

jax = pytest.importorskip("jax")
hvd = pytest.importorskip("dabke.jax")
jnp = jax.numpy

DTYPES = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32"]
WIDE_DTYPES = ["int64", "uint64", "float64"]
OF_MANY_RANKS = {"bool", "int32", "bfloat16", "float32", "float64"}
DTYPE = pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(each, marks=[] if each in OF_MANY_RANKS else pytest.mark.two_ranks)
        for each in DTYPES + WIDE_DTYPES
    ],
)
BOTH_WAYS = pytest.mark.parametrize("way", [jax.jit, lambda function: function], ids=["jit", "eager"])
EAGER = pytest.param(lambda function: function, id="eager", marks=pytest.mark.two_ranks)
WAYS = pytest.mark.parametrize("way", [pytest.param(jax.jit, id="jit"), EAGER])


def wide(is_on):
    """Dtypes of 64 bits, switched on or left off."""
    if not is_on:
        return contextlib.nullcontext()
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


def parts(job, shape, dtype, seed=0):
    """The inputs of all ranks, and this rank's as an array of JAX."""
    inputs = job.inputs(shape, "float32" if dtype == "bfloat16" else dtype, seed)
    return inputs, jnp.asarray(inputs[job.rank]).astype(dtype)


def equal(result, expected, dtype):
    assert result.dtype == jnp.dtype(dtype)
    numpy.testing.assert_array_equal(numpy.asarray(result).astype(expected.dtype), expected)


@WAYS
@DTYPE
def test_every_collective_gives_what_numpy_gives(job, dtype, way):
    with wide(dtype in WIDE_DTYPES):
        n = job.size
        inputs, mine = parts(job, (2 * n, 3), dtype)
        stacked = numpy.stack(inputs)
        total = stacked.any(0) if dtype == "bool" else stacked.sum(0, dtype=stacked.dtype)

        def program(x):
            return {
                "sum": hvd.allreduce(x, hvd.Sum),
                "max": hvd.allreduce(x, hvd.Max, "max"),
                "gathered": hvd.allgather(x),
                "sent": hvd.broadcast(x, n - 1),
                "exchanged": hvd.alltoall(x),
                "scattered": hvd.reducescatter(x, hvd.Sum),
            }

        results = way(program)(mine)
        rows = slice(2 * job.rank, 2 * job.rank + 2)
        equal(results["sum"], total, dtype)
        equal(results["max"], stacked.max(0), dtype)
        equal(results["gathered"], numpy.concatenate(inputs), dtype)
        equal(results["sent"], inputs[n - 1], dtype)
        equal(results["exchanged"], numpy.concatenate([each[rows] for each in inputs]), dtype)
        equal(results["scattered"], total[rows], dtype)


@WAYS
@pytest.mark.parametrize("op", ["Average", "Min", "Product", "BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_reduce_operations(job, op, way):
    bitwise = op.startswith("Bitwise")
    inputs, mine = parts(job, (5,), "int32" if bitwise else "float32", seed=3)
    reduce = {
        "Average": lambda a: a.mean(0),
        "Min": lambda a: a.min(0),
        "Product": lambda a: a.prod(0),
        "BitwiseAnd": numpy.bitwise_and.reduce,
        "BitwiseOr": numpy.bitwise_or.reduce,
        "BitwiseXor": numpy.bitwise_xor.reduce,
    }[op]
    result = way(lambda x: hvd.allreduce(x, getattr(hvd, op)))(mine)
    numpy.testing.assert_allclose(result, reduce(numpy.stack(inputs)), rtol=1e-6)


@pytest.mark.two_ranks
@WAYS
def test_factors_multiply_before_and_after(job, way):
    result = way(lambda x: hvd.allreduce(x, hvd.Sum, None, 0, 0.5, 4.0))(jnp.ones(3))
    numpy.testing.assert_array_equal(result, numpy.full(3, 2.0 * job.size))


@pytest.mark.two_ranks
@WAYS
def test_a_pytree_of_mixed_dtypes_keeps_its_form(job, way):
    tree = {
        "a": [jnp.full((2, 2), job.rank, "int32"), jnp.float32(job.rank)],
        "b": (jnp.full(3, job.rank, "bfloat16"), None),
        "empty": jnp.zeros((0, 4)),
    }
    results = way(lambda t: hvd.allreduce(t, hvd.Sum))(tree)
    assert jax.tree_util.tree_structure(results) == jax.tree_util.tree_structure(tree)
    total = sum(range(job.size))
    assert results["a"][0].tolist() == [[total] * 2] * 2 and results["a"][0].dtype == jnp.int32
    assert float(results["a"][1]) == total and results["a"][1].shape == ()
    assert results["b"][0].dtype == jnp.bfloat16 and results["b"][0].astype("float32").tolist() == [total] * 3
    assert results["empty"].shape == (0, 4)
    assert way(lambda t: hvd.allreduce(t))({}) == {}


@WAYS
def test_trees_of_the_other_collectives(job, way):
    tree = {"x": jnp.full((job.size, 2), job.rank), "y": jnp.arange(job.size, dtype="float16")}
    gathered = way(hvd.allgather)(tree)
    assert gathered["x"][:, 0].tolist() == [rank for rank in range(job.size) for _ in range(job.size)]
    assert gathered["y"].shape == (job.size**2,)
    sent = way(lambda t: hvd.broadcast(t, 0))(tree)
    assert sent["x"].tolist() == [[0, 0]] * job.size
    assert way(hvd.alltoall)(tree)["x"][:, 1].tolist() == list(range(job.size))
    scattered = way(lambda t: hvd.reducescatter(t, hvd.Sum))(tree)
    assert scattered["x"].tolist() == [[sum(range(job.size))] * 2]
    assert scattered["y"].tolist() == [job.rank * job.size]


@WAYS
def test_uneven_rows_of_a_reducescatter(job, way):
    d = 2 * job.size + 1
    result = way(lambda x: hvd.reducescatter(x, hvd.Sum))(jnp.arange(float(d)))
    first = 2 * job.rank + min(job.rank, 1)
    count = 3 if job.rank == 0 else 2
    assert result.tolist() == [job.size * float(row) for row in range(first, first + count)]


def test_uneven_rows_outside_of_programs(job):
    gathered = hvd.allgather(jnp.full((job.rank + 1, 2), job.rank))
    assert gathered[:, 0].tolist() == [rank for rank in range(job.size) for _ in range(rank + 1)]
    rows = jnp.full((sum(range(job.size)), 1), job.rank)
    result, received = hvd.alltoall(rows, splits=list(range(job.size)))
    assert received == [job.rank] * job.size
    assert result[:, 0].tolist() == [rank for rank in range(job.size) for _ in range(job.rank)]


@BOTH_WAYS
def test_process_sets(job, way):
    members = list(range(1, job.size))  # all but rank 0
    subset = hvd.add_process_set(members)
    try:
        if job.rank in members:
            x = jnp.full((len(members), 2), float(job.rank))
            program = way(lambda x: (hvd.allreduce(x, hvd.Sum, "s", subset), hvd.allgather(x, "g", subset)))
            total, gathered = program(x)
            assert total.tolist() == [[sum(members)] * 2] * len(members)
            assert gathered[:, 0].tolist() == [rank for rank in members for _ in members]
            assert way(lambda x: hvd.broadcast(x, 1, "b", subset))(x).tolist() == [[1, 1]] * len(members)
            mean = sum(members) / len(members)
            assert way(lambda x: hvd.reducescatter(x, hvd.Average, "r", subset))(x).tolist() == [[mean] * 2]
        else:
            with pytest.raises(hvd.DabkeError, match="not in process set"):
                way(lambda x: hvd.reducescatter(x, hvd.Average, "r", subset))(jnp.ones((2, 2)))
    finally:
        hvd.remove_process_set(subset)


@pytest.mark.two_ranks
def test_numbers_and_numpy_become_arrays_of_jax(job):
    result = hvd.allreduce({"loss": 1.5, "count": 2, "array": numpy.ones(2)}, hvd.Sum)
    assert all(isinstance(each, jax.Array) for each in jax.tree_util.tree_leaves(result))
    assert float(result["loss"]) == 1.5 * job.size and int(result["count"]) == 2 * job.size
    assert result["array"].dtype == jnp.float32


@pytest.mark.two_ranks
def test_large_and_small_arrays_in_one_program(job):
    """Small calls that are alone wait by themselves; these are not alone, and one is large."""
    program = jax.jit(lambda a, b: (hvd.allreduce(a, hvd.Sum, "large"), hvd.allreduce(b, hvd.Sum, "small")))
    for step in range(20):
        large, small = program(jnp.full(100_000, float(step)), jnp.float32(step + 1))
        assert float(large[99_999]) == step * job.size and float(small) == (step + 1) * job.size
