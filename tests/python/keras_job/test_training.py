"""Training by all ranks gives the same weights as one process that trains on their batches as one batch."""

import keras
import numpy
import pytest
from models import batches_of, close, fit, model, start_weights, trained_by_numpy

import dabke.keras as hvd

BATCH = 4
optimizers = keras.optimizers

OPTIMIZERS = {
    "sgd": lambda: optimizers.SGD(0.05),
    "momentum": lambda: optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: optimizers.Adam(0.01),
    "adamw": lambda: optimizers.AdamW(0.01, weight_decay=0.01),
    "global_clipnorm": lambda: optimizers.SGD(0.05, global_clipnorm=0.3),
    "clipnorm": lambda: optimizers.SGD(0.05, clipnorm=0.1),
    "ema": lambda: optimizers.SGD(0.05, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3),
    "schedule": lambda: optimizers.SGD(optimizers.schedules.ExponentialDecay(0.05, 2, 0.5)),
    "loss_scale_factor": lambda: optimizers.SGD(0.05, loss_scale_factor=8.0),
    "accumulation": lambda: optimizers.SGD(0.05, gradient_accumulation_steps=2),
}


def batches(job):
    return job.data(BATCH * job.size * 6)


def plain_sgd(job):
    """The weights of one process that trains on the batches of all ranks with a rate of 0.05."""
    return trained_by_numpy(batches_of(*batches(job), BATCH * job.size), 0.05)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_fit_gives_the_weights_of_one_process(job, kind):
    x, y = batches(job)
    alone = model(OPTIMIZERS[kind]())
    fit(alone, x, y, BATCH * job.size)
    together = model(hvd.DistributedOptimizer(OPTIMIZERS[kind]()))
    fit(together, *job.own(x, y), BATCH)
    close(together.get_weights(), alone.get_weights())
    close(
        [each.numpy() for each in together.optimizer.variables],
        [each.numpy() for each in alone.optimizer.variables],
    )
    assert all(job.is_equal(each) for each in together.get_weights())


def test_all_backends_give_the_weights_that_numpy_computes(job):
    x, y = batches(job)
    together = model(hvd.DistributedOptimizer(optimizers.SGD(0.05, momentum=0.5)))
    fit(together, *job.own(x, y), BATCH, epochs=3)
    close(together.get_weights(), trained_by_numpy(batches_of(x, y, BATCH * job.size, 3), 0.05, 0.5))


VARIANTS = {
    "num_groups": {"num_groups": 2},
    "groups": {"groups": 3},
    "predivide": {"gradient_predivide_factor": 2.0},
    "fp16": {"compression": hvd.Compression.fp16},
    "named": {"name": "mine", "sparse_as_dense": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_form_in_which_gradients_travel_does_not_matter(job, variant):
    together = model(hvd.DistributedOptimizer(optimizers.SGD(0.05), **VARIANTS[variant]))
    fit(together, *job.own(*batches(job)), BATCH)
    close(together.get_weights(), plain_sgd(job))


def test_groups_may_be_lists_of_variables(job):
    together = model()
    groups = [together.layers[0].trainable_variables, [together.layers[1].kernel]]
    together.compile(hvd.DistributedOptimizer(optimizers.SGD(0.05), groups=groups), loss="mse")
    fit(together, *job.own(*batches(job)), BATCH)
    close(together.get_weights(), plain_sgd(job))


def test_a_sum_is_the_average_times_the_number_of_ranks(job):
    together = model(hvd.DistributedOptimizer(optimizers.SGD(0.05 / job.size), op=hvd.Sum))
    fit(together, *job.own(*batches(job)), BATCH)
    close(together.get_weights(), plain_sgd(job), 1e-5)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("kind", ["momentum", "adam", "global_clipnorm"])
def test_several_passes_per_step_are_one_larger_batch(job, kind, average):
    x, y = batches(job)
    if kind == "adam" and not average:
        pytest.skip("Adam's step does not depend on the scale of the gradients")
    alone = model(OPTIMIZERS[kind]())
    if not average:
        alone.compile(
            OPTIMIZERS[kind](), loss=lambda wanted, got: 3.0 * keras.losses.mean_squared_error(wanted, got)
        )
    fit(alone, x, y, 3 * BATCH * job.size)
    together = model(
        hvd.DistributedOptimizer(
            OPTIMIZERS[kind](), backward_passes_per_step=3, average_aggregated_gradients=average
        )
    )
    fit(together, *job.own(x, y), BATCH)
    close(together.get_weights(), alone.get_weights())
    assert int(keras.ops.convert_to_numpy(together.optimizer.iterations)) == 4


def test_passes_and_keras_own_accumulation_exclude_each_other(job):
    plain = optimizers.SGD(0.1, gradient_accumulation_steps=2)
    for each in (plain, optimizers.LossScaleOptimizer(plain)):
        with pytest.raises(ValueError, match="not both"):
            hvd.DistributedOptimizer(each, backward_passes_per_step=2)
    assert hvd.DistributedOptimizer(plain).gradient_accumulation_steps == 2


def tensors(arrays):
    return [keras.ops.convert_to_tensor(each) for each in arrays]


def ways(made, optimizer, gradients):
    """The ways in which a program makes a step with its own gradients."""
    variables = made.trainable_variables
    yield lambda: optimizer.apply_gradients(zip(gradients, variables))
    yield lambda: optimizer.apply(gradients, variables)
    yield lambda: optimizer.apply(gradients)
    if keras.backend.backend() != "tensorflow":

        def stateless():
            new, state = optimizer.stateless_apply(
                [each.value for each in optimizer.variables], gradients, [each.value for each in variables]
            )
            for variable, value in zip([*variables, *optimizer.variables], [*new, *state]):
                variable.assign(value)

        yield stateless


@pytest.mark.parametrize("passes", [1, 2])
def test_every_way_to_step_reduces(job, passes):
    made = model()
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0), backward_passes_per_step=passes)
    gradients = tensors([numpy.full(each.shape, job.rank + 1.0, "float32") for each in start_weights()])
    mean = passes * (job.size + 1) / 2
    for number, step in enumerate(ways(made, optimizer, gradients), 1):
        for _ in range(passes):
            step()
        close(made.get_weights(), [each - number * mean for each in start_weights()])


def test_gradients_of_the_caller_are_left_alone(job):
    made = model()
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0))
    gradients = tensors([numpy.full(each.shape, job.rank + 1.0, "float32") for each in start_weights()])
    optimizer.apply(gradients, made.trainable_variables)
    close(
        [keras.ops.convert_to_numpy(each) for each in gradients],
        [numpy.full(each.shape, job.rank + 1.0) for each in start_weights()],
    )


def test_ranks_of_a_process_set_train_together_and_others_alone(job):
    if job.size < 2:
        pytest.skip("needs two ranks")
    first = hvd.add_process_set(list(range(job.size - 1)))
    made = model()
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0), process_set=first)
    gradients = tensors([numpy.full(each.shape, job.rank + 1.0, "float32") for each in start_weights()])
    optimizer.apply(gradients, made.trainable_variables)
    mean = job.size / 2 if first.included() else job.rank + 1
    close(made.get_weights(), [each - mean for each in start_weights()])
    hvd.remove_process_set(first)
    # The names of other optimizers are still the same on all ranks.
    other = model()
    hvd.DistributedOptimizer(optimizers.SGD(1.0)).apply(gradients, other.trainable_variables)
    close(other.get_weights(), [each - (job.size + 1) / 2 for each in start_weights()])


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("by", ["layers", "variables"])
def test_local_layers_are_trained_by_each_rank(job, scaled, by):
    made = model()
    if by == "layers":
        optimizer = hvd.PartialDistributedOptimizer(
            optimizers.SGD(1.0), local_layers=made.layers[1], scale_local_gradients=scaled
        )
    else:
        optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0), scale_local_gradients=scaled)
        for variable in made.layers[1].trainable_variables:
            optimizer.register_local_var(variable)
    gradients = tensors([numpy.full(each.shape, job.rank + 1.0, "float32") for each in start_weights()])
    optimizer.apply(gradients, made.trainable_variables)
    mean = (job.size + 1) / 2
    own = (job.rank + 1) / (job.size if scaled else 1)
    close(made.get_weights(), [each - step for each, step in zip(start_weights(), [mean, mean, own, own])])


def test_local_layers_must_be_built(job):
    with pytest.raises(ValueError, match="build the model first"):
        hvd.PartialDistributedOptimizer(optimizers.SGD(1.0), local_layers=[keras.layers.Dense(2)])


def test_an_embedding_trains_as_in_one_process(job):
    def table(optimizer):
        made = keras.Sequential(
            [
                keras.Input((2,), dtype="int32"),
                keras.layers.Embedding(11, 3),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )
        made.set_weights([numpy.full(each.shape, 0.25, "float32") for each in made.get_weights()])
        made.compile(optimizer, loss="mse")
        return made

    random = numpy.random.default_rng(2)
    x, y = random.integers(0, 11, (8 * job.size, 2)), random.normal(size=(8 * job.size, 1)).astype("float32")
    # On TensorFlow, Keras's Adam squares the rows of a sparse gradient before it adds equal ones.
    for make, as_dense in (
        (OPTIMIZERS["adam"], False),
        (OPTIMIZERS["sgd"], False),
        (OPTIMIZERS["sgd"], True),
    ):
        alone = table(make())
        fit(alone, x, y, 4 * job.size)
        together = table(hvd.DistributedOptimizer(make(), sparse_as_dense=as_dense))
        fit(together, *job.own(x, y), 4)
        close(together.get_weights(), alone.get_weights(), 1e-5)
    several = table(
        hvd.DistributedOptimizer(
            optimizers.SGD(0.1), backward_passes_per_step=2, average_aggregated_gradients=True
        )
    )
    fit(several, *job.own(x, y), 4)
    alone = table(optimizers.SGD(0.1))
    fit(alone, x, y, 8 * job.size)
    close(several.get_weights(), alone.get_weights(), 1e-5)


def test_two_optimizers_of_one_model_do_not_mix(job):
    made = model()
    first, second = (hvd.DistributedOptimizer(optimizers.SGD(rate)) for rate in (1.0, 0.5))
    head, tail = made.layers[0].trainable_variables, made.layers[1].trainable_variables
    order = [(first, head), (second, tail)]
    for optimizer, variables in order:
        optimizer.apply(
            tensors([numpy.full(each.shape, job.rank + 1.0, "float32") for each in variables]), variables
        )
    mean = (job.size + 1) / 2
    close(made.get_weights(), [each - mean * rate for each, rate in zip(start_weights(), [1, 1, 0.5, 0.5])])


def test_what_only_one_rank_makes_does_not_change_names(job):
    if job.rank == 0:
        keras.layers.Dense(1).build((1, 1))
        hvd.DistributedOptimizer(optimizers.SGD(1.0))
    together = model(hvd.DistributedOptimizer(optimizers.SGD(0.05)))
    x, y = batches(job)
    fit(together, *job.own(x, y), BATCH)
    assert all(job.is_equal(each) for each in together.get_weights())


REFUSED = [
    ({"op": hvd.Adasum}, NotImplementedError, "Adasum"),
    ({"op": hvd.Min}, ValueError, "Average or Sum"),
    ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, ValueError, "op=Average"),
    ({"backward_passes_per_step": 0}, ValueError, "at least 1"),
    ({"num_groups": -1}, ValueError, "negative"),
]


@pytest.mark.parametrize("arguments, error, text", REFUSED, ids=str)
def test_bad_arguments_are_refused(job, arguments, error, text):
    with pytest.raises(error, match=text):
        hvd.DistributedOptimizer(optimizers.SGD(1.0), **arguments)


def test_other_optimizers_and_distributed_ones_are_refused(job):
    with pytest.raises(ValueError, match="Keras 3"):
        hvd.DistributedOptimizer(object())
    distributed = hvd.DistributedOptimizer(optimizers.SGD(1.0))
    with pytest.raises(ValueError, match="already"):
        hvd.DistributedOptimizer(distributed)
