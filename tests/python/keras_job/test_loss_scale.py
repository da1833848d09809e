"""Loss scales, in both nestings with a distributed optimizer."""

import keras
import numpy
import pytest
from models import close, fit, model, start_weights

import dabke.keras as hvd

optimizers = keras.optimizers


def around_ours(passes=1, **arguments):
    inner = hvd.DistributedOptimizer(optimizers.SGD(1.0), backward_passes_per_step=passes)
    return optimizers.LossScaleOptimizer(inner, **arguments)


def inside_ours(passes=1, **arguments):
    outer = optimizers.LossScaleOptimizer(optimizers.SGD(1.0), **arguments)
    return hvd.DistributedOptimizer(outer, backward_passes_per_step=passes)


NESTINGS = {"around ours": around_ours, "inside ours": inside_ours}


@pytest.fixture(params=NESTINGS)
def nested(request):
    return NESTINGS[request.param]


def scaled(job, value):
    return [keras.ops.convert_to_tensor(numpy.full(each.shape, value, "float32")) for each in start_weights()]


def step(optimizer, made, gradients):
    """One step in the way in which `fit` makes it on this backend."""
    if keras.backend.backend() != "jax":
        return optimizer.apply(gradients, made.trainable_variables)
    variables = [*made.trainable_variables, *optimizer.variables]
    new, state = optimizer.stateless_apply(
        [each.value for each in optimizer.variables],
        gradients,
        [each.value for each in made.trainable_variables],
    )
    for variable, value in zip(variables, [*new, *state]):
        variable.assign(value)


def scale_of(optimizer):
    return float(keras.ops.convert_to_numpy(optimizer.dynamic_scale))


def test_all_ranks_skip_a_step_in_which_one_has_an_infinity(job, nested):
    optimizer, made = nested(initial_scale=8.0), model()
    optimizer.build(made.trainable_variables)
    step(optimizer, made, scaled(job, numpy.inf if job.rank == job.size - 1 else 8.0))
    close(made.get_weights(), start_weights())
    assert scale_of(optimizer) == 4.0
    step(optimizer, made, scaled(job, 4.0 * (job.rank + 1)))
    close(made.get_weights(), [each - (job.size + 1) / 2 for each in start_weights()])
    assert scale_of(optimizer) == 4.0
    assert int(keras.ops.convert_to_numpy(optimizer.inner_optimizer.iterations)) == 1


def test_an_infinity_in_one_pass_skips_the_whole_step(job, nested):
    optimizer, made = nested(passes=2, initial_scale=8.0), model()
    optimizer.build(made.trainable_variables)
    step(optimizer, made, scaled(job, numpy.inf if job.rank == 0 else 8.0))
    step(optimizer, made, scaled(job, 8.0))
    close(made.get_weights(), start_weights())
    assert scale_of(optimizer) == 4.0
    for _ in range(2):
        step(optimizer, made, scaled(job, 4.0 * (job.rank + 1)))
    close(made.get_weights(), [each - (job.size + 1) for each in start_weights()])


def test_fit_skips_together_too(job, nested):
    x, y = job.data(16 * job.size)
    mine, targets = job.own(x, y)
    mine = mine.copy()
    if job.rank == job.size - 1:
        mine[5] = numpy.inf  # in the second batch
    made = model(nested(initial_scale=8.0, dynamic_growth_steps=100))
    fit(made, mine, targets, 4, epochs=1)
    assert scale_of(made.optimizer) == 4.0
    assert int(keras.ops.convert_to_numpy(made.optimizer.inner_optimizer.iterations)) == 3
    assert all(numpy.isfinite(each).all() and job.is_equal(each) for each in made.get_weights())


def test_mixed_float16_wraps_ours_and_trains_as_one_process(job):
    x, y = job.data(16 * job.size)
    keras.config.set_dtype_policy("mixed_float16")
    try:
        wrapped = model(hvd.DistributedOptimizer(optimizers.SGD(0.05)))
        small = model(around_ours(initial_scale=64.0))
        alone = model(optimizers.LossScaleOptimizer(optimizers.SGD(1.0), initial_scale=64.0))
    finally:
        keras.config.set_dtype_policy("float32")
    assert isinstance(wrapped.optimizer, optimizers.LossScaleOptimizer)
    for each in (wrapped, small):
        fit(each, *job.own(x, y), 4)
        assert all(job.is_equal(weight) for weight in each.get_weights())
    assert wrapped.evaluate(x, y, verbose=0) < model("sgd").evaluate(x, y, verbose=0)
    fit(alone, x, y, 4 * job.size)
    close(small.get_weights(), alone.get_weights(), 0.02)


def test_a_loss_scale_of_others_stays_as_it_is(job):
    hvd.DistributedOptimizer(optimizers.SGD(1.0))
    plain = optimizers.LossScaleOptimizer(optimizers.SGD(1.0))
    assert type(plain) is optimizers.LossScaleOptimizer
