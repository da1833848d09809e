"""Training with dabke.jax: the ranks together get the weights that one process gets from all their batches as
one."""

import math

import numpy
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
hvd = pytest.importorskip("dabke.jax")
jnp = jax.numpy

ROWS = 12  # of a step's batch, on all ranks together


def parameters(seed=0):
    random = numpy.random.default_rng(seed)
    return {
        "dense": {"kernel": jnp.asarray(random.normal(size=(5, 4)), "float32"), "bias": jnp.zeros(4)},
        "out": {"kernel": jnp.asarray(random.normal(size=(4, 2)), "float32"), "bias": jnp.zeros(2)},
    }


def batch(step):
    random = numpy.random.default_rng([1, step])
    return random.normal(size=(ROWS, 5)).astype("float32"), random.normal(size=(ROWS, 2)).astype("float32")


def loss_of(params, x, y):
    hidden = jnp.tanh(x @ params["dense"]["kernel"] + params["dense"]["bias"])
    return ((hidden @ params["out"]["kernel"] + params["out"]["bias"] - y) ** 2).mean()


def shard(array, job):
    rows = ROWS // job.size
    return array[job.rank * rows : (job.rank + 1) * rows]


def trained(optimizer, gradient, cut, steps=6):
    params = parameters()
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, x, y):
        loss, gradients = gradient(params, x, y)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    losses = []
    for number in range(steps):
        x, y = batch(number)
        params, state, loss = step(params, state, cut(x), cut(y))
        losses.append(float(loss))
    return params, losses


def assert_same(ours, theirs):
    jax.tree_util.tree_map(
        lambda a, b: numpy.testing.assert_allclose(a, b, atol=1e-6, rtol=1e-6), ours, theirs
    )


def make_optimizer():
    return optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1, momentum=0.9))


def test_an_optimizer_gives_the_weights_of_the_joined_batch(job):
    alone, _ = trained(make_optimizer(), jax.value_and_grad(loss_of), lambda a: a)
    optimizer = hvd.DistributedOptimizer(make_optimizer())
    ours, _ = trained(optimizer, jax.value_and_grad(loss_of), lambda a: shard(a, job))
    assert_same(ours, alone)


@pytest.mark.two_ranks
def test_value_and_grad_gives_value_and_weights_of_the_joined_batch(job):
    alone, losses = trained(make_optimizer(), jax.value_and_grad(loss_of), lambda a: a)
    ours, our_losses = trained(make_optimizer(), hvd.value_and_grad(loss_of), lambda a: shard(a, job))
    assert_same(ours, alone)
    numpy.testing.assert_allclose(our_losses, losses, rtol=1e-5)


@pytest.mark.two_ranks
def test_value_and_grad_keeps_what_else_the_function_returns(job):
    function = hvd.value_and_grad(lambda x: (x * job.rank, {"rank": job.rank}), has_aux=True)
    for way in (jax.jit, lambda f: f):
        (value, aux), gradient = way(function)(jnp.float32(2))
        mean = sum(range(job.size)) / job.size
        assert float(value) == 2 * mean and float(gradient) == mean and int(aux["rank"]) == job.rank


@pytest.mark.two_ranks
@pytest.mark.parametrize("averaged", [False, True])
def test_gradients_of_several_passes_are_added_up(job, averaged):
    inner = optax.sgd(0.1)
    optimizer = hvd.DistributedOptimizer(
        inner, backward_passes_per_step=2, average_aggregated_gradients=averaged
    )
    params = jnp.zeros(3)
    state = optimizer.init(params)
    update = jax.jit(optimizer.update)
    steps = []
    for number in range(4):
        updates, state = update(jnp.full(3, float(job.rank + number)), state, params)
        steps.append(updates[0])
    ranks = sum(range(job.size)) / job.size
    divisor = 2 if averaged else 1
    expected = [0, -0.1 * (2 * ranks + 1) / divisor, 0, -0.1 * (2 * ranks + 5) / divisor]
    numpy.testing.assert_allclose(steps, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.two_ranks
def test_an_optimizer_takes_extra_arguments_and_refuses_nonsense(job):
    optimizer = hvd.DistributedOptimizer(optax.adam(0.1), op=hvd.Sum, prescale_factor=0.5)
    updates, _ = optimizer.update(jnp.ones(2), optimizer.init(jnp.ones(2)), jnp.ones(2), value=1.0)
    assert updates.shape == (2,)
    with pytest.raises(hvd.DabkeError, match="backward_passes_per_step is 0"):
        hvd.DistributedOptimizer(optax.adam(0.1), backward_passes_per_step=0)


def test_all_ranks_begin_with_the_roots_parameters(job):
    mine = parameters(seed=job.rank)
    state = optax.adam(0.1).init(mine)
    got = hvd.broadcast_parameters({"params": mine, "state": state}, root_rank=job.size - 1)
    wanted = parameters(seed=job.size - 1)
    assert_same(got["params"], wanted)
    assert jax.tree_util.tree_structure(got["state"]) == jax.tree_util.tree_structure(state)


@pytest.mark.two_ranks
def test_objects(job):
    assert hvd.broadcast_object({"epoch": 3, "rank": job.rank}, 0) == {"epoch": 3, "rank": 0}
    assert hvd.allgather_object(job.rank * "x") == [rank * "x" for rank in range(job.size)]


@pytest.mark.parametrize("way", [jax.jit, lambda function: function], ids=["jit", "eager"])
def test_averages_of_metrics(job, way):
    metrics = {"loss": jnp.float32(job.rank), "accuracy": jnp.float32(0.5)}
    result = way(lambda m: hvd.metric_average(m))(metrics)
    assert float(result["loss"]) == sum(range(job.size)) / job.size and float(result["accuracy"]) == 0.5
    weighted = way(lambda v, w: hvd.metric_average(v, "weighted", w))(jnp.float32(job.rank), job.rank)
    ranks = range(job.size)
    numpy.testing.assert_allclose(weighted, sum(r * r for r in ranks) / sum(ranks), rtol=1e-6)
    unread = way(lambda v, w: hvd.metric_average(v, "unread", w))(
        jnp.float32(math.nan if job.rank == 0 else 2.0), float(job.rank > 0)
    )
    assert float(unread) == 2.0
    assert math.isnan(float(way(lambda v: hvd.metric_average(v, "nobody", 0.0))(jnp.float32(1))))
    assert float(hvd.metric_average(job.rank * 2)) == 2 * sum(ranks) / job.size
