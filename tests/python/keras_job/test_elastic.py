"""Elastic training with Keras, on each of its backends: the state, and the callbacks of ``fit``."""

import sys
from pathlib import Path

import keras
import numpy
import pytest

import dabke.keras as hvd
from dabke.errors import InvalidArgumentError, PeerLostError
from models import model

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "in_job"))
from elastic_epochs import Epochs  # noqa: E402


@pytest.fixture
def epochs(monkeypatch):
    return Epochs(monkeypatch)


def values(made):
    return [numpy.array(each.numpy()) for each in [*made.weights, *made.optimizer.variables]]


def check(made, wanted):
    for mine, theirs in zip(values(made), wanted, strict=True):
        numpy.testing.assert_array_equal(mine, theirs)


def distributed(rate=0.05, **options):
    return model(hvd.DistributedOptimizer(keras.optimizers.Adam(rate), **options))


def test_a_new_rank_gets_the_model_and_the_optimizer_by_sync(job, epochs):
    made = distributed()
    x, y = job.own(*job.data(32))
    state = hvd.elastic.KerasState(made, epoch=0)
    state.sync()
    made.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    wanted = values(made)
    state.epoch = 1
    if job.rank == 0:
        state.commit()
    else:
        made.set_weights([each * 0 + job.rank for each in made.get_weights()])
        made.optimizer.learning_rate = 7.0
    epochs.begin(newest=1, holders=(0,))
    state.sync()
    check(made, wanted)
    assert state.epoch == 1


def callbacks(state, batches=2, *others):
    return [
        *others,
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.CommitStateCallback(state, batches),
    ]


class At(keras.callbacks.Callback):
    """Calls a function at the end of a batch, once."""

    def __init__(self, epoch, batch, function):
        super().__init__()
        self.at, self.function, self.epoch, self.is_done = (epoch, batch), function, 0, False

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.at and not self.is_done:
            self.is_done = True
            self.function()


def trained(made, state, x, y, *others):
    """Trains three epochs of four batches, as a program does: it begins where the state stands."""
    while state.epoch < 3:
        begin = 8 * state.batch
        made.fit(
            x[begin:],
            y[begin:],
            batch_size=8,
            shuffle=False,
            verbose=0,
            initial_epoch=state.epoch,
            epochs=state.epoch + 1,
            callbacks=callbacks(state, 2, *others),
        )


@pytest.mark.parametrize("kind", ["failure", "change"])
def test_fit_goes_on_in_the_midst_of_an_epoch_as_if_nothing_had_happened(job, epochs, kind):
    x, y = job.own(*job.data(32 * job.size))
    reference = distributed()
    unbroken = hvd.elastic.KerasState(reference, epoch=0, batch=0)
    unbroken.sync()
    trained(reference, unbroken, x, y)

    made = distributed()
    state = hvd.elastic.KerasState(made, epoch=0, batch=0)
    epochs.begin(None, (), (-1,) * job.size)
    # A commit after two batches and at the end of an epoch: 3 in each epoch of 4 batches.
    epochs.then(newest=4, holders=range(job.size))
    seen = []

    def fail():
        if kind == "failure":  # after the third batch of the second epoch, which is repeated
            raise PeerLostError("lost")

    def announce():
        epochs.changes = int(kind == "change")

    others = [At(1, 2, fail), At(1, 1, announce)]

    @hvd.elastic.run
    def train(state):
        seen.append((state.epoch, state.batch))
        trained(made, state, x, y, *others)

    train(state)
    assert seen == [(0, 0), (1, 2)] and epochs.left == [4]
    assert (state.epoch, state.batch) == (3, 0)
    for mine, theirs in zip(values(made), values(reference), strict=True):
        numpy.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7)


def test_gradients_of_passes_that_did_not_complete_a_step_are_dropped(job, epochs):
    made = distributed(backward_passes_per_step=2)
    state = hvd.elastic.KerasState(made, epoch=0)
    state.sync()
    x, y = job.own(*job.data(8 * job.size))
    made.fit(x, y, batch_size=8, verbose=0)  # one pass of two
    state.commit()
    epochs.begin(newest=1, holders=range(job.size))
    state._begin_epoch()
    own = made.optimizer._rank_state.own
    assert own and all(not numpy.any(each.numpy()) for each in own)


def test_gradients_of_unfinished_passes_are_dropped_also_by_an_optimizer_outside_of_the_state(job, epochs):
    made = distributed(backward_passes_per_step=2)
    state = hvd.elastic.ObjectState(epoch=0)
    epochs.then(newest=1, holders=range(job.size))
    x, y = job.own(*job.data(8 * job.size))

    @hvd.elastic.run
    def train(state):
        if not epochs.left:
            made.fit(x, y, batch_size=8, verbose=0)  # one pass of two
            epochs.changes = 1
            state.commit()

    train(state)
    own = made.optimizer._rank_state.own
    assert own and all(not numpy.any(each.numpy()) for each in own)


def test_a_model_that_is_not_built_is_refused(job):
    with pytest.raises(InvalidArgumentError, match="is not built yet; build it on every rank"):
        hvd.elastic.KerasState(keras.Sequential([keras.layers.Dense(2)]))


def test_commits_can_be_made_at_the_end_of_epochs_only(job, epochs):
    made = distributed()
    state = hvd.elastic.KerasState(made, epoch=0, batch=0)
    state.sync()
    x, y = job.own(*job.data(32 * job.size))
    made.fit(x, y, batch_size=8, verbose=0, epochs=2, callbacks=callbacks(state, 0))
    assert state._number == 2 and state.epoch == 2
    with pytest.raises(InvalidArgumentError, match="batches_per_commit=-1"):
        hvd.elastic.CommitStateCallback(state, -1)
