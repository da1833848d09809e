"""The collectives of dabke.jax under JAX's transformations: gradients, maps, loops, rematerialisation,
donated memory."""

import numpy
import pytest

jax = pytest.importorskip("jax")
hvd = pytest.importorskip("dabke.jax")
jnp = jax.numpy

TWO = pytest.mark.two_ranks
EAGER = pytest.param(lambda function: function, id="eager", marks=TWO)
WAYS = pytest.mark.parametrize("way", [pytest.param(jax.jit, id="jit"), EAGER])


def rows(job, rank=None):
    """This rank's rows, or those of another one."""
    rank = job.rank if rank is None else rank
    return jnp.arange(2.0 * job.size).reshape(job.size, 2) + rank


def weights(job, count, rank=None):
    """The factors of a rank's results, by which gradients differ by rank."""
    rank = job.rank if rank is None else rank
    return numpy.arange(1.0, count + 1).reshape(-1, 1) * numpy.ones((1, 2)) * (rank + 1)


def gradient_of(collective, job, way):
    def loss(x):
        y = collective(x)
        return (y * weights(job, y.shape[0])).sum()

    return way(jax.grad(loss))(rows(job))


@WAYS
def test_gradient_of_an_allreduce_is_the_same_allreduce(job, way):
    mean = sum(weights(job, job.size, rank) for rank in range(job.size)) / job.size
    numpy.testing.assert_allclose(gradient_of(hvd.allreduce, job, way), mean, rtol=1e-6)
    result = gradient_of(lambda x: hvd.allreduce(x, hvd.Sum, "s", 0, 0.5, 3.0), job, way)
    numpy.testing.assert_allclose(result, 1.5 * job.size * mean, rtol=1e-6)


@WAYS
def test_gradient_of_an_allgather_is_this_ranks_rows_of_the_average(job, way):
    n = job.size
    mean = sum(weights(job, n * n, rank) for rank in range(n)) / n
    expected = mean[n * job.rank : n * (job.rank + 1)]
    numpy.testing.assert_allclose(gradient_of(hvd.allgather, job, way), expected, rtol=1e-6)


@WAYS
def test_gradient_of_a_broadcast_is_the_average_on_its_root(job, way):
    mean = sum(weights(job, job.size, rank) for rank in range(job.size)) / job.size
    expected = mean if job.rank == 1 else numpy.zeros_like(mean)
    numpy.testing.assert_allclose(gradient_of(lambda x: hvd.broadcast(x, 1), job, way), expected, rtol=1e-6)


@WAYS
def test_gradient_of_an_alltoall_goes_back(job, way):
    expected = numpy.concatenate(
        [weights(job, job.size, rank)[job.rank : job.rank + 1] for rank in range(job.size)]
    )
    numpy.testing.assert_allclose(gradient_of(hvd.alltoall, job, way), expected, rtol=1e-6)


@WAYS
@pytest.mark.parametrize("more", [0, 1])
def test_gradient_of_a_reducescatter_is_gathered(job, way, more):
    n = job.size

    def loss(x):
        y = hvd.reducescatter(jnp.concatenate([x, x[:more]]), hvd.Sum)
        return (y * (job.rank + 1.0)).sum()

    result = way(jax.grad(loss))(rows(job))
    expected = numpy.repeat([[1.0 + rank] for rank in range(n)], 2, axis=1) * n
    if more:
        # There are n + 1 rows. Rank 0 has two, so row i is rank i - 1's; the last row is a copy of the first.
        expected = numpy.repeat([[1.0 + max(i - 1, 0)] for i in range(n)], 2, axis=1) * n
        expected[0] += n * n
    numpy.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.two_ranks
def test_gradients_agree_with_finite_differences(job):
    """The loss is the ranks' average, as the scales of the transposes are meant."""
    direction = numpy.random.default_rng([7, job.rank]).normal(size=(job.size, 2)).astype("float32")

    def loss(x):
        return (jnp.sin(hvd.allreduce(x, hvd.Average, "fd")) * (job.rank + 1.0)).sum()

    own = jax.jit(jax.grad(loss))(rows(job))
    slope = hvd.allreduce(jnp.vdot(own, direction), hvd.Sum) / job.size
    step = 1e-2
    difference = (
        jax.jit(loss)(rows(job) + step * direction) - jax.jit(loss)(rows(job) - step * direction)
    ) / (2 * step)
    numpy.testing.assert_allclose(slope, hvd.allreduce(difference, hvd.Average), rtol=2e-2, atol=2e-2)


@pytest.mark.two_ranks
@WAYS
def test_forward_mode_and_second_derivatives(job, way):
    def cube(x):
        return hvd.allreduce(x, hvd.Average, "cube") ** 3

    x = jnp.float32(job.rank + 1.0)
    mean = (job.size + 1) / 2
    value, tangent = way(lambda x: jax.jvp(cube, (x,), (jnp.float32(2.0),)))(x)
    numpy.testing.assert_allclose([value, tangent], [mean**3, 6 * mean**2], rtol=1e-5)
    numpy.testing.assert_allclose(way(jax.grad(jax.grad(cube)))(x), 6 * mean, rtol=1e-5)


@pytest.mark.two_ranks
@WAYS
def test_only_linear_reductions_have_a_gradient(job, way):
    with pytest.raises(hvd.DabkeError, match="only Average and Sum have a gradient, not MAX"):
        way(jax.grad(lambda x: hvd.allreduce(x, hvd.Max).sum()))(rows(job))
    with pytest.raises(hvd.DabkeError, match="not MIN"):
        way(jax.grad(lambda x: hvd.reducescatter(x, hvd.Min).sum()))(rows(job))


@pytest.mark.two_ranks
def test_a_tree_of_which_a_part_has_gradients(job):
    def loss(x, step):
        tree = hvd.allreduce({"x": x, "step": step, "constant": jnp.ones(2)}, hvd.Sum)
        return tree["x"].sum() * tree["step"]

    result = jax.jit(jax.grad(loss))(jnp.ones(2), jnp.int32(job.rank))
    numpy.testing.assert_allclose(result, job.size * float(sum(range(job.size))) * numpy.ones(2))


@WAYS
@pytest.mark.parametrize("axis", [pytest.param(0, marks=TWO), 1, pytest.param(2, marks=TWO)])
def test_vmap_over_each_axis(job, way, axis):
    n = job.size
    x = jnp.moveaxis(jnp.arange(6.0 * n).reshape(3, n, 2) + job.rank, 0, axis)
    unbatched = jnp.full((n, 2), float(job.rank))

    def program(x, y):
        both = hvd.allreduce({"x": x, "y": y}, hvd.Sum)
        return (
            both["x"],
            both["y"],
            hvd.allgather(x),
            hvd.broadcast(x, 0),
            hvd.alltoall(x),
            hvd.reducescatter(x),
        )

    mapped = way(jax.vmap(program, in_axes=(axis, None)))(x, unbatched)
    for i in range(3):
        alone = program(jnp.take(x, i, axis), unbatched)
        for one, expected in zip(mapped, alone):
            numpy.testing.assert_allclose(one[i], expected, rtol=1e-6)


@pytest.mark.two_ranks
def test_scan_while_and_cond(job):
    def turn(carry, x):
        total = hvd.allreduce(x, hvd.Sum, "turn")
        return carry + total, total

    inputs = jnp.arange(12.0) + job.rank
    expected = numpy.arange(12.0) * job.size + sum(range(job.size))
    for unroll in (1, 3):
        carry, totals = jax.jit(lambda x, unroll=unroll: jax.lax.scan(turn, 0.0, x, unroll=unroll))(inputs)
        numpy.testing.assert_allclose(totals, expected)
        numpy.testing.assert_allclose(carry, expected.sum())

    grown = jax.jit(
        lambda x: jax.lax.while_loop(lambda y: y < 100, lambda y: hvd.allreduce(y, hvd.Sum, "grow"), x)
    )(jnp.float32(1.0))
    assert float(grown) == next(job.size**k for k in range(20) if job.size**k >= 100)

    chosen = jax.jit(
        lambda x, first: jax.lax.cond(
            first, lambda x: hvd.allreduce(x, hvd.Sum, "c"), lambda x: hvd.allreduce(x, hvd.Max, "c"), x
        )
    )
    x = jnp.float32(job.rank)
    assert [float(chosen(x, True)), float(chosen(x, False))] == [sum(range(job.size)), job.size - 1]


@pytest.mark.two_ranks
def test_gradient_through_a_scan_and_rematerialisation(job):
    @jax.checkpoint
    def layer(x):
        return jnp.sin(hvd.allreduce(x, hvd.Average, "layer"))

    def loss(x):
        y, _ = jax.lax.scan(lambda carry, _: (layer(carry), None), x, None, length=3)
        return layer(layer(y)).sum()

    def plain(x):  # of one process: all ranks have the same input
        for _ in range(5):
            x = jnp.sin(x)
        return x.sum()

    x = jnp.linspace(0.1, 1.0, 4)
    numpy.testing.assert_allclose(jax.jit(jax.grad(loss))(x), jax.grad(plain)(x), rtol=1e-5)


@pytest.mark.two_ranks
def test_donated_memory(job):
    step = jax.jit(lambda tree: hvd.allreduce(tree, hvd.Average, "donated"), donate_argnums=0)
    tree = {"a": jnp.full(50_000, float(job.rank)), "b": jnp.full((3, 3), float(job.rank))}
    mean = sum(range(job.size)) / job.size
    for _ in range(10):
        tree = step(tree)
        assert float(tree["a"][49_999]) == mean and float(tree["b"][2, 2]) == mean


@pytest.mark.two_ranks
def test_an_operand_that_is_read_again_keeps_its_value(job):
    """The call works in place, so XLA has to copy what the program still reads."""
    program = jax.jit(lambda x: (hvd.allreduce(x * 2, hvd.Sum, "kept") + x * 2, x * 2))
    x = jnp.full(30_000, float(job.rank + 1))
    total, double = program(x)
    assert float(double[7]) == 2.0 * (job.rank + 1)
    assert float(total[7]) == job.size * (job.size + 1) + 2.0 * (job.rank + 1)
    assert float(x[7]) == job.rank + 1


@pytest.mark.two_ranks
def test_custom_rules_around_a_collective(job):
    @jax.custom_vjp
    def scaled(x):
        return hvd.allreduce(x, hvd.Sum, "custom")

    scaled.defvjp(lambda x: (scaled(x), None), lambda _, gradient: (7.0 * gradient,))
    assert jax.jit(jax.grad(lambda x: scaled(x) + scaled(2 * x)))(jnp.float32(1.0)) == 21.0
