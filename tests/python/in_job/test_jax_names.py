"""The names of calls in programs of JAX: what ranks trace in another order, and what one program calls twice,
meet rightly."""

import dabke
import numpy
import pytest

jax = pytest.importorskip("jax")
hvd = pytest.importorskip("dabke.jax")
jnp = jax.numpy


def names_in(function, *arguments):
    """The names of the calls in the lowered program, in its order."""
    text = jax.jit(function).lower(*arguments).as_text()
    return [part.split('"')[0] for part in text.split('names = "')[1:]]


@pytest.mark.two_ranks
def test_an_inner_function_called_twice_on_different_data(job):
    inner = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, "inner"))

    @jax.jit
    def outer(a, b):
        return inner(a), inner(b)

    inner(jnp.zeros(3))  # traced already
    total = numpy.arange(3.0) * job.size
    ranks = sum(range(job.size))
    first, second = numpy.arange(3, dtype="float32"), numpy.ones(3, "float32")
    for turn in range(1000):
        a, b = outer(first + job.rank + turn, -10.0 * job.rank - turn * second)
        numpy.testing.assert_array_equal(a, total + ranks + turn * job.size)
        numpy.testing.assert_array_equal(b, numpy.full(3, -10.0 * ranks - turn * job.size))


@pytest.mark.two_ranks
def test_each_place_of_a_call_has_a_number(job):
    inner = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, "i"))
    body = jax.checkpoint(lambda x: jnp.sin(hvd.allreduce(x, hvd.Sum, "r")))

    def turn(carry, x):
        return carry + inner(x), None

    def program(x):
        y = inner(inner(x)) + hvd.allreduce(x) + hvd.allreduce(x)
        y = y + body(x) + body(y)
        y, _ = jax.lax.scan(turn, y, jnp.stack([x, x]))
        z, _ = jax.lax.scan(turn, y, jnp.stack([y, y]))
        return z

    found = names_in(program, jnp.ones(2))
    assert len(set(found)) == len(found)
    assert sorted(found) == sorted(
        [f"allreduce.i#{n}" for n in range(4)]
        + [f"allreduce.noname#{n}" for n in range(2)]
        + [f"allreduce.r#{n}" for n in range(2)]
    )
    unrolled = names_in(lambda x: jax.lax.scan(turn, x, jnp.stack([x, x, x, x]), unroll=4), jnp.ones(2))
    assert len(set(unrolled)) == len(unrolled) == 4


@pytest.mark.two_ranks
def test_names_are_paths_of_the_pytree(job):
    tree = {"layers": [{"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}], "scale": jnp.float32(1)}
    assert names_in(lambda t: hvd.allreduce(t, name="g"), tree) == [
        "allreduce.g.layers.0.bias#0\\0Aallreduce.g.layers.0.kernel#0\\0Aallreduce.g.scale#0"
    ]
    same = {"a": {"b": jnp.ones(1)}, "a.b": jnp.zeros(1)}
    result = jax.jit(lambda t: hvd.allreduce(t, hvd.Sum))(same)
    assert float(result["a"]["b"][0]) == job.size and float(result["a.b"][0]) == 0


@pytest.mark.two_ranks
def test_ranks_trace_in_another_order(job):
    functions = {
        f"f{i}": jax.jit(lambda x, i=i: hvd.allreduce(x + i, hvd.Sum) * hvd.allreduce(x * i, hvd.Sum))
        for i in range(4)
    }
    order = sorted(functions, reverse=job.rank % 2 == 1)
    for name in order:
        functions[name].lower(jnp.float32(1)).compile()  # traced and compiled, not run
    for i, function in enumerate(functions.values()):
        assert float(function(jnp.float32(1))) == job.size * (1 + i) * job.size * i


@pytest.mark.two_ranks
def test_a_thousand_arrays_in_a_pytree(job):
    tree = [jnp.full((i % 7,), float(job.rank + i), "float32" if i % 3 else "int32") for i in range(1000)]
    results = jax.jit(lambda t: hvd.allreduce(t, hvd.Sum, "many"))(tree)
    for i, result in enumerate(results):
        assert result.tolist() == [sum(range(job.size)) + i * job.size] * (i % 7)


@pytest.mark.two_ranks
def test_programs_run_in_the_order_of_their_calls(job):
    """Programs are dispatched before their inputs are there, and on each rank another input is late."""
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 60, lambda _, y: jnp.tanh(y @ y), x))
    program = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, "program"))
    matrix = jnp.full((200, 200), 0.01)
    for turn in range(10):
        late = slow(matrix + turn) * 0
        first, second = (late, matrix * 0) if (job.rank + turn) % 2 else (matrix * 0, late)
        a, b = program(first + turn), program(second - turn)
        assert float(a[0, 0]) == turn * job.size and float(b[0, 0]) == -turn * job.size


@pytest.mark.two_ranks
def test_eager_calls_and_programs_have_different_names(job):
    """Both are in flight at once: the program was dispatched, and the call outside of it does not wait for
    it."""
    program = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, "both"))
    for turn in range(20):
        inside = program(jnp.full(20_000, float(turn)))
        outside = hvd.allreduce(jnp.full(20_000, -float(turn)), hvd.Sum, "both")
        assert float(inside[5]) == turn * job.size and float(outside[5]) == -turn * job.size


def test_ranks_whose_programs_weigh_the_results_otherwise(job):
    """Programs that differ by rank run their calls in the same order all the same."""
    before = dabke.statistics()["tensors_completed"]
    inner = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum))

    @jax.jit
    def program(x):
        results = [hvd.allreduce(x + 0, hvd.Sum), inner(x + 1), hvd.allreduce(x + 2, hvd.Sum), inner(x + 3)]
        order = results[job.rank :] + results[: job.rank]
        return sum((10.0 * (i == 0)) * each + each * 0 for i, each in enumerate(order))

    for size in (1, 5000):
        result = hvd.synchronize(program(jnp.zeros(size)))
        assert float(result[size - 1]) == 10 * job.size * job.rank
    assert dabke.statistics()["tensors_completed"] - before == 8
