"""Random programs, by their seeds, jitted whole and in parts, against NumPy's answer for all ranks."""

import functools

import numpy
import pytest

jax = pytest.importorskip("jax")
hvd = pytest.importorskip("dabke.jax")
jnp = jax.numpy

CALLS = 8


def plan_of(seed, size):
    """A list of (kind, operand, other operand, argument): each call makes one more value of shape [2 * size,
    3]."""
    random = numpy.random.default_rng(seed)
    kinds = ["sum", "max", "average", "gather", "send", "exchange", "scatter", "inner", "loop", "add", "add"]
    plan = []
    for made in range(CALLS):
        plan.append(
            (
                random.choice(kinds),
                random.integers(0, made + 2),
                random.integers(0, made + 2),
                int(random.integers(0, size)),
            )
        )
    return plan


def run_numpy(plan, inputs):
    """The values of all ranks: a list of arrays [ranks, rows, 3]."""
    size = inputs[0].shape[0]
    values = list(inputs)
    for kind, a, b, number in plan:
        x, y = values[a], values[b]
        total = numpy.broadcast_to(x.sum(0), x.shape)
        if kind in ("sum", "inner"):
            new = total % 17
        elif kind == "max":
            new = numpy.broadcast_to(x.max(0), x.shape)
        elif kind == "average":
            new = numpy.broadcast_to(numpy.floor(x.sum(0) / size), x.shape)
        elif kind == "gather":
            new = numpy.broadcast_to(numpy.concatenate([each[:2] for each in x]), x.shape)
        elif kind == "send":
            new = numpy.broadcast_to(x[number], x.shape)
        elif kind == "exchange":
            new = numpy.stack(
                [numpy.concatenate([each[2 * r : 2 * r + 2] for each in x]) for r in range(size)]
            )
        elif kind == "scatter":
            new = numpy.stack([numpy.tile(x.sum(0)[2 * r : 2 * r + 2] % 13, (size, 1)) for r in range(size)])
        elif kind == "loop":
            new = x
            for _ in range(3):
                new = numpy.broadcast_to(new.sum(0) % 11, x.shape) + y % 5
        else:
            new = (x + y) % 19
        values.append(new)
    return values


@functools.partial(jax.jit, static_argnames="name")
def inner(x, name=None):
    return hvd.allreduce(x, hvd.Sum, name) % 17


def run_jax(plan, inputs, size):
    values = list(inputs)
    for kind, a, b, number in plan:
        x, y = values[a], values[b]
        if kind == "sum":
            new = hvd.allreduce(x, hvd.Sum) % 17
        elif kind == "inner":
            new = inner(x)
        elif kind == "max":
            new = hvd.allreduce(x, hvd.Max)
        elif kind == "average":
            new = jnp.floor(hvd.allreduce(x))
        elif kind == "gather":
            new = hvd.allgather({"rows": x[:2]})["rows"]
        elif kind == "send":
            new = hvd.broadcast(x, number)
        elif kind == "exchange":
            new = hvd.alltoall(x)
        elif kind == "scatter":
            new = jnp.tile(hvd.reducescatter(x, hvd.Sum) % 13, (size, 1))
        elif kind == "loop":
            new = jax.lax.fori_loop(0, 3, lambda _, z, y=y: hvd.allreduce(z, hvd.Sum) % 11 + y % 5, x)
        else:
            new = (x + y) % 19
        values.append(new)
    return values


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.two_ranks) for seed in range(4, 10))]
)
def test_a_random_program(job, seed):
    plan = plan_of(seed, job.size)
    shape = (2 * job.size, 3)
    inputs = [numpy.stack(job.inputs(shape, "float32", 100 * seed + i)) + 5 for i in range(2)]
    expected = run_numpy(plan, inputs)
    program = jax.jit(lambda *arrays: run_jax(plan, arrays, job.size))
    for _ in range(3):
        results = program(*(jnp.asarray(each[job.rank]) for each in inputs))
        for result, wanted in zip(results, expected):
            numpy.testing.assert_array_equal(result, wanted[job.rank])
