"""The callbacks: the common start, metrics, learning rates, the best model, the progress bar."""

import keras
import numpy
import pytest
from models import close, fit, model, start_weights, trained_by_numpy

import dabke
import dabke.keras as hvd

callbacks, optimizers = hvd.callbacks, keras.optimizers


def values_of(variables):
    return [each.numpy() for each in variables]


class Watch(keras.callbacks.Callback):
    """Notes the learning rate of every batch."""

    def on_train_begin(self, logs=None):
        self.rates = []

    def on_train_batch_begin(self, batch, logs=None):
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        self.rates.append(float(keras.ops.convert_to_numpy(optimizer.learning_rate)))


# ---- the start ----


def different(job):
    """A model with random layers, whose state is different on each rank."""
    keras.utils.set_random_seed(100 + job.rank)
    made = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(5),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3),
        ]
    )
    made.compile(
        hvd.DistributedOptimizer(optimizers.Adam(0.001 * (job.rank + 1))), loss="mse", metrics=["mae"]
    )
    x, y = job.data(8, seed=job.rank)
    made.optimizer.build(made.trainable_variables)
    fit(made, x, y, 4)  # makes state that is not zero
    for variable in (*made.weights, *made.optimizer.variables):
        variable.assign(keras.ops.add(variable, job.rank + 1))
    return made


@pytest.mark.parametrize("root", ["first", "last"])
def test_all_ranks_begin_with_the_state_of_the_root(job, root):
    made = different(job)
    number = 0 if root == "first" else job.size - 1
    wanted = dabke.broadcast_object([values_of(made.weights), values_of(made.optimizer.variables)], number)
    seeds = [each for layer in made.layers for each in layer.variables if "seed" in each.path]
    own_seeds = values_of(seeds)
    start = callbacks.BroadcastGlobalVariablesCallback(number)

    class Stop(Exception):
        pass

    class See(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            close(values_of(self.model.weights), wanted[0], 0)
            close(values_of(self.model.optimizer.variables), wanted[1], 0)
            close(values_of(seeds), own_seeds, 0)
            raise Stop

    with pytest.raises(Stop):
        fit(made, *job.data(8), 4, callbacks=[start, See()])
    assert start.broadcast_done
    assert len(own_seeds) == 1 and len(wanted[0]) == 8


def test_a_model_that_is_built_by_its_first_batch_starts_alike_too(job):
    keras.utils.set_random_seed(100 + job.rank)
    made = keras.Sequential([keras.layers.Dense(5), keras.layers.BatchNormalization(), keras.layers.Dense(3)])
    made.compile(hvd.DistributedOptimizer(optimizers.SGD(0.1, momentum=0.5)), loss="mse")
    x, y = job.data(8 * job.size)
    fit(made, *job.own(x, y), 4, callbacks=[callbacks.BroadcastGlobalVariablesCallback(0)])
    assert all(job.is_equal(each) for each in values_of(made.trainable_weights))
    assert all(job.is_equal(each) for each in values_of(made.optimizer.variables))


def test_local_variables_keep_their_values(job):
    made = model(hvd.DistributedOptimizer(optimizers.SGD(0.0)))
    for variable in made.weights:
        variable.assign(keras.ops.full(variable.shape, job.rank + 1.0))
    start = callbacks.BroadcastGlobalVariablesCallback(0, local_variables=[made.weights[0]])
    start.register_local_var(made.weights[1])
    fit(made, *job.data(4), 4, epochs=1, callbacks=[start])
    assert [float(each.max()) for each in made.get_weights()] == [job.rank + 1, job.rank + 1, 1, 1]


def test_variables_of_a_model_can_be_sent_without_fit(job):
    made = model(hvd.DistributedOptimizer(optimizers.SGD(0.1)))
    with pytest.raises(ValueError, match="not built"):
        hvd.broadcast_global_variables(0, model=made)
    made.optimizer.build(made.trainable_variables)
    for variable in (*made.weights, *made.optimizer.variables):
        variable.assign(keras.ops.add(variable, job.rank))
    hvd.broadcast_global_variables(job.size - 1, model=made)
    close(made.get_weights(), [each + job.size - 1 for each in start_weights()])
    assert int(made.optimizer.iterations.numpy()) == job.size - 1
    with pytest.raises(ValueError, match="pass model="):
        hvd.broadcast_global_variables(0)


# ---- metrics ----


def test_metrics_are_averages_over_the_ranks(job):
    x, y = job.data(8 * job.size)
    mine = job.own(x, y)
    made = model(hvd.DistributedOptimizer(optimizers.SGD(0.0)), metrics=["mae"])
    logs = {}

    class Before(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs_of_epoch=None):
            logs.update(logs_of_epoch)

    history = fit(
        made,
        *mine,
        4,
        epochs=1,
        validation_data=mine,
        callbacks=[Before(), callbacks.MetricAverageCallback()],
    ).history
    assert sorted(history) == ["loss", "mae", "val_loss", "val_mae"]
    for key, values in history.items():
        everyone = dabke.allgather_object(logs[key])
        assert values[0] == pytest.approx(sum(everyone) / job.size, rel=1e-6)
        assert len(set(dabke.allgather_object(values[0]))) == 1


def test_a_metric_that_a_rank_lacks_is_named(job):
    if job.size < 2:
        pytest.skip("needs two ranks")
    callback = callbacks.MetricAverageCallback()
    callback.set_model(model(optimizers.SGD(0.1)))
    logs = {"loss": 1.0} if job.rank == 1 else {"loss": 1.0, "val_loss": 2.0}
    with pytest.raises(dabke.errors.MismatchError, match="rank 1 lacks the metric 'val_loss'"):
        callback.on_epoch_end(0, logs)


# ---- learning rates ----


def test_warm_up_goes_from_the_rate_of_one_rank_to_the_full_rate(job):
    made, watch = model(hvd.DistributedOptimizer(optimizers.SGD(0.08, momentum=0.5))), Watch()
    warmup = callbacks.LearningRateWarmupCallback(0.08, warmup_epochs=2, verbose=1)
    history = fit(made, *job.data(16), 4, epochs=3, callbacks=[warmup, watch]).history
    one = 1 / job.size
    wanted = [0.08 * (one + (1 - one) * step / 8) for step in range(1, 9)] + 4 * [0.08]
    assert watch.rates == pytest.approx(wanted, rel=1e-6)
    assert history["lr"] == pytest.approx([wanted[3], 0.08, 0.08], rel=1e-6)


def test_a_schedule_multiplies_the_first_rate(job):
    made, watch = model(optimizers.SGD(0.5)), Watch()
    schedule = [
        callbacks.LearningRateScheduleCallback(0.1, 1.0, end_epoch=1),
        callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.5**epoch, start_epoch=1, end_epoch=3),
        callbacks.LearningRateScheduleCallback(0.1, 1e-2, start_epoch=3),
    ]
    fit(made, *job.data(8), 4, epochs=4, callbacks=[*schedule, watch])
    assert watch.rates == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.001, 0.001], rel=1e-6)


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("kind", ["SGD", "RMSprop"])
def test_momentum_is_corrected_when_the_rate_changes(job, kind, corrected):
    made = model(getattr(optimizers, kind)(0.1, momentum=0.5))
    callback = callbacks.LearningRateScheduleCallback(
        0.1, lambda epoch: 1.0 + epoch, momentum_correction=corrected
    )
    fit(made, *job.data(8), 4, epochs=1, callbacks=[callback])
    velocities = made.optimizer.momentums if kind == "SGD" else made.optimizer._momentums
    before = values_of(velocities)
    assert any(each.any() for each in before)
    callback.on_epoch_begin(2)
    close(values_of(velocities), [each * (3.0 if corrected else 1.0) for each in before])


def test_rates_that_cannot_be_set_are_refused(job):
    made = model(optimizers.SGD(optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)))
    with pytest.raises(ValueError, match="LearningRateSchedule already"):
        fit(made, *job.data(8), 4, callbacks=[callbacks.LearningRateWarmupCallback(0.1)])

    def endless():
        while True:
            yield job.data(4)

    made = model(optimizers.SGD(0.1))
    with pytest.raises(ValueError, match="steps_per_epoch"):
        made.fit(endless(), verbose=0, callbacks=[callbacks.LearningRateWarmupCallback(0.1)])


# ---- files and the screen ----


def test_the_best_model_is_written_by_rank_0_alone(job, tmp_path):
    made = model(hvd.DistributedOptimizer(optimizers.SGD(0.05)))
    x, y = job.data(8 * job.size)
    path = tmp_path / "best.keras"
    best = callbacks.BestModelCheckpoint(monitor="loss", filepath=path)
    fit(made, *job.own(x, y), 4, callbacks=[callbacks.MetricAverageCallback(), best])
    assert path.exists() == (job.rank == 0)
    if job.rank == 0:
        loaded = keras.saving.load_model(path)
        close(loaded.get_weights(), made.get_weights())
    with pytest.raises(ValueError, match="filepath"):
        fit(made, x, y, 4, callbacks=[callbacks.BestModelCheckpoint()])


def test_rank_0_alone_has_a_progress_bar(job, capsys):
    made = model(optimizers.SGD(0.05))
    made.fit(*job.data(8), batch_size=4, epochs=1, callbacks=[callbacks.ProgressBar()])
    assert ("2/2" in capsys.readouterr().out) == (job.rank == 0)


# ---- uneven steps ----


def uneven(job, callbacks_of_fit, passes=1):
    """Trains with 2 batches on rank 0, 3 on rank 1, and so on; returns the model."""
    x, y = job.data(4 * job.size * (job.size + 1))
    mine = [each[: 4 * (job.rank + 2)] for each in job.own(x, y)]
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(0.05, momentum=0.5), backward_passes_per_step=passes)
    made = model(optimizer)
    fit(made, *mine, 4, epochs=2, callbacks=callbacks_of_fit)
    return made


def reference(job):
    """The weights of one process that does the same: at each step, the average over the ranks that still have
    batches."""
    x, y = job.data(4 * job.size * (job.size + 1))
    parts = [[each[rank :: job.size] for each in (x, y)] for rank in range(job.size)]
    steps = []
    for step in range(job.size + 1):
        rows = slice(4 * step, 4 * step + 4)
        ranks = [rank for rank in range(job.size) if step < rank + 2]
        steps.append([numpy.concatenate([parts[rank][i][rows] for rank in ranks]) for i in (0, 1)])
    return trained_by_numpy(2 * steps, 0.05, 0.5)


@pytest.mark.parametrize("order", ["join first", "join last"])
def test_uneven_steps_do_not_hang_and_all_ranks_end_with_the_same_state(job, order):
    join = callbacks.JoinCallback()
    others = [callbacks.BroadcastGlobalVariablesCallback(0), callbacks.MetricAverageCallback()]
    made = uneven(job, [join, *others] if order == "join first" else [*others, join])
    assert join.last_joined_rank == job.size - 1
    assert all(job.is_equal(each) for each in values_of(made.weights))
    assert all(job.is_equal(each) for each in values_of(made.optimizer.variables))
    assert int(made.optimizer.iterations.numpy()) == 2 * (job.size + 1)
    close(made.get_weights(), reference(job))


def test_gradients_of_unfinished_passes_are_dropped_at_a_join(job):
    made = uneven(job, [callbacks.JoinCallback()], passes=2)
    assert all(job.is_equal(each) for each in values_of(made.weights))
    assert not any(each.any() for each in values_of(made.optimizer._rank_state.own))
