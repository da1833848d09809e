"""Optimizers keep their class, name and config, and files are those of plain Keras."""

import keras
import numpy
import pytest
from models import close, fit, model

import dabke.keras as hvd
from dabke.keras.distributed_class import is_distributed

optimizers = keras.optimizers

KINDS = {
    "sgd": lambda: optimizers.SGD(0.05, momentum=0.5, name="mine"),
    "adam": lambda: optimizers.Adam(0.01, global_clipnorm=1.0),
    "rmsprop": lambda: optimizers.RMSprop(0.01),
    "lion": lambda: optimizers.Lion(0.01),
    "schedule": lambda: optimizers.SGD(optimizers.schedules.CosineDecay(0.1, 10)),
    "loss scale": lambda: optimizers.LossScaleOptimizer(optimizers.Adam(0.01), initial_scale=4.0),
}


def values_of(variables):
    return [each.numpy() for each in variables]


@pytest.mark.parametrize("kind", KINDS)
def test_class_name_and_config_are_kept(job, kind):
    original = KINDS[kind]()
    distributed = hvd.DistributedOptimizer(original)
    assert isinstance(distributed, type(original)) and isinstance(distributed, optimizers.Optimizer)
    assert type(distributed).__name__ == type(original).__name__
    assert distributed.get_config() == original.get_config()
    form = keras.saving.serialize_keras_object(distributed)
    assert form["module"] == "keras.optimizers" and form["class_name"] == type(original).__name__
    back = keras.saving.deserialize_keras_object(form)
    assert not is_distributed(back) and isinstance(back, type(original))
    again = type(distributed).from_config(distributed.get_config())
    assert is_distributed(again) and again.get_config() == distributed.get_config()


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_read_with_and_without_dabke(job, kind, passes, tmp_path):
    x, y = job.data(16 * job.size)
    trained = model(hvd.DistributedOptimizer(KINDS[kind](), backward_passes_per_step=passes), metrics=["mae"])
    fit(trained, *job.own(x, y), 4)
    path = tmp_path / "model.keras"
    trained.save(path)
    own = [] if passes == 1 else trained.optimizer._rank_state.own
    state = [each.numpy() for each in trained.optimizer.variables if not any(each is other for other in own)]

    without = keras.saving.load_model(path)
    assert not is_distributed(without.optimizer)
    close(without.get_weights(), trained.get_weights(), 0)
    close(values_of(without.optimizer.variables), state, 0)

    loaded = hvd.load_model(path)
    assert is_distributed(loaded.optimizer) and loaded.optimizer.built
    close(values_of(loaded.optimizer.variables), state, 0)
    if passes == 1:
        for each in (trained, loaded):
            fit(each, *job.own(x, y), 4)
        close(loaded.get_weights(), trained.get_weights(), 0)
        loaded.save(path)
        close(keras.saving.load_model(path).get_weights(), loaded.get_weights(), 0)


@keras.saving.register_keras_serializable(package="tests")
class Registered(optimizers.SGD):
    pass


class Unregistered(optimizers.SGD):
    pass


def test_an_optimizer_that_the_program_registers_is_read_back(job, tmp_path):
    x, y = job.data(8 * job.size)
    trained = model(hvd.DistributedOptimizer(Registered(0.05, momentum=0.5)))
    fit(trained, *job.own(x, y), 4)
    trained.save(tmp_path / "model.keras")
    without = keras.saving.load_model(tmp_path / "model.keras")
    assert type(without.optimizer) is Registered
    assert keras.saving.get_registered_object("tests>Registered") is Registered
    close(values_of(without.optimizer.variables), values_of(trained.optimizer.variables), 0)


def test_load_model_takes_the_programs_own_optimizers(job, tmp_path):
    x, y = job.data(8 * job.size)
    trained = model(hvd.DistributedOptimizer(Unregistered(0.05, momentum=0.5)))
    fit(trained, *job.own(x, y), 4)
    trained.save(tmp_path / "model.keras")
    loaded = hvd.load_model(tmp_path / "model.keras", custom_optimizers=[Unregistered])
    assert isinstance(loaded.optimizer, Unregistered) and is_distributed(loaded.optimizer)
    close(values_of(loaded.optimizer.variables), values_of(trained.optimizer.variables), 0)


def test_weights_alone_are_saved_and_loaded(job, tmp_path):
    trained = model(hvd.DistributedOptimizer(optimizers.Adam(0.01)))
    x, y = job.data(8 * job.size)
    fit(trained, *job.own(x, y), 4)
    trained.save_weights(tmp_path / "model.weights.h5")
    fresh = model(optimizers.Adam(0.01))
    fresh.load_weights(tmp_path / "model.weights.h5")
    close(fresh.get_weights(), trained.get_weights(), 0)


def test_an_optimizer_with_state_keeps_it(job):
    alone = model(optimizers.Adam(0.01))
    x, y = job.data(8)
    fit(alone, x, y, 4)
    before = values_of(alone.optimizer.variables)
    distributed = hvd.DistributedOptimizer(alone.optimizer, backward_passes_per_step=2)
    assert distributed.built
    close(values_of(distributed.variables)[: len(before)], before, 0)
    assert numpy.all([not each.any() for each in values_of(distributed._rank_state.own)])
