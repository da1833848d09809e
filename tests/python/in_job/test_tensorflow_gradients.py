"""Gradients through the collectives, against finite differences of the sum of all ranks' losses."""

import numpy
import pytest

import dabke

tf = pytest.importorskip("tensorflow")
hvd = pytest.importorskip("dabke.tensorflow")

ROWS = 6


def collectives(job):
    """(name, the collective, the factor of Horovod's gradient over that of the sum of all losses) of each."""
    mean, size = 1 / job.size, job.size
    return [
        ("average", lambda x: hvd.allreduce(x, name="a"), 1),
        ("sum", lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=2, postscale_factor=3, name="a"), 1),
        ("group", lambda x: tf.concat(hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum, name="a"), 0), 1),
        ("allgather", lambda x: hvd.allgather(x[: job.rank + 1], name="a"), mean),
        ("gathers", lambda x: tf.concat(hvd.grouped_allgather([x, x[:1]], name="a"), 0), mean),
        ("broadcast", lambda x: hvd.broadcast(x, 1, name="a"), mean),
        ("alltoall", lambda x: hvd.alltoall(x[: 2 * job.size], name="a"), 1),
        ("splits", lambda x: hvd.alltoall(x[: job.size], [1] * job.size, name="a")[0], 1),
        ("reducescatter", lambda x: hvd.reducescatter(x, op=hvd.Sum, name="a"), size),
        ("mean of blocks", lambda x: hvd.reducescatter(x, postscale_factor=3, name="a"), size),
    ]


def loss_of(job, collective, x):
    """A rank's loss, which differs by rank and is a cubic function of what the collective gives."""
    y = collective(x * x)
    weights = tf.cast(tf.reshape(tf.range(1, tf.size(y) + 1), tf.shape(y)), tf.float64)
    return tf.reduce_sum(y * weights) * (job.rank + 1)


def differences(job, collective, x):
    """The gradient of the sum of all losses for each rank's input: all ranks move one number of one rank at a
    time."""
    step, own = 1e-4, numpy.zeros(x.shape)
    for rank in range(job.size):
        for i in range(x.size):
            losses = []
            for sign in (1, -1):
                moved = x.copy()
                if rank == job.rank:
                    moved.flat[i] += sign * step
                loss = loss_of(job, collective, tf.constant(moved))
                losses.append(float(hvd.allreduce(loss, op=hvd.Sum, name="loss")))
            if rank == job.rank:
                own.flat[i] = (losses[0] - losses[1]) / (2 * step)
    return own


@pytest.mark.parametrize("number", range(10))
def test_a_gradient_is_that_of_finite_differences(job, number):
    _, collective, factor = collectives(job)[number]
    rows = max(ROWS, 2 * job.size)
    x = 1 + numpy.random.default_rng([7, job.rank]).random(rows)
    want = differences(job, collective, x) * factor
    variable = tf.Variable(x)
    with tf.GradientTape() as tape:
        loss = loss_of(job, collective, variable)
    numpy.testing.assert_allclose(tape.gradient(loss, variable), want, rtol=1e-5, atol=1e-6)


@pytest.mark.two_ranks
def test_gradients_are_the_same_in_graphs(job, way):
    for name, collective, _ in collectives(job):
        x = 1 + numpy.random.default_rng([7, job.rank]).random(max(ROWS, 2 * job.size))
        variable = tf.Variable(x)

        def gradient():
            with tf.GradientTape() as tape:
                loss = loss_of(job, collective, variable)
            return tape.gradient(loss, variable)

        numpy.testing.assert_allclose(way(gradient), gradient(), rtol=1e-12, err_msg=name)


@pytest.mark.two_ranks
def test_only_sums_and_averages_have_a_gradient(job):
    x = tf.Variable([1.0])
    with tf.GradientTape() as tape:
        y = hvd.allreduce(x, op=hvd.Max)
    with pytest.raises(dabke.errors.UnsupportedError, match="not MAX"):
        tape.gradient(y, x)
