"""A rate at which training fails from the first step on succeeds after a warm-up, on handwritten digits."""

from pathlib import Path

import keras
import numpy
import pytest

import dabke.keras as hvd

DATA = Path(__file__).resolve().parents[3] / "examples" / "data" / "digits.csv"
RATE, EPOCHS, WARMUP = 0.06, 8, 5


@pytest.fixture(scope="module")
def digits():
    rows = numpy.loadtxt(DATA, delimiter=",", dtype="float32")
    rows = rows[numpy.random.default_rng(1998).permutation(len(rows))]
    training = len(rows) - len(rows) // 5
    pixels, labels = rows[:, :64], rows[:, 64].astype("int32")
    pixels = (pixels - pixels[:training].mean(0)) / pixels[:training].std(0).clip(min=1.0)
    return (pixels[:training], labels[:training]), (pixels[training:], labels[training:])


def deep(seed):
    """Six layers with large weights, which a large rate destroys at first."""
    random = numpy.random.default_rng(seed)
    layers = [keras.layers.Dense(64, activation="relu") for _ in range(6)]
    made = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10)])
    for layer in made.layers:
        rows, columns = layer.kernel.shape
        bound = 2.0 * (6.0 / (rows + columns)) ** 0.5
        layer.kernel.assign(random.uniform(-bound, bound, (rows, columns)).astype("float32"))
    return made


def accuracy(digits, seed, start_factor, size):
    (x, y), (held_x, held_y) = digits
    made = deep(seed)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(RATE, momentum=0.9))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(optimizer, loss=loss, metrics=["accuracy"])
    callbacks = [hvd.callbacks.LearningRateScheduleCallback(RATE, 0.1, start_epoch=6)]
    if start_factor is not None:
        callbacks.append(hvd.callbacks.LearningRateWarmupCallback(RATE, WARMUP, start_factor=start_factor))
    keras.utils.set_random_seed(seed)
    rows = len(x) // 64 * 64
    own = hvd.shard(x[:rows], y[:rows])
    made.fit(*own, batch_size=64 // size, epochs=EPOCHS, verbose=0, callbacks=callbacks)
    return made.evaluate(held_x, held_y, verbose=0)[1]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_large_rate_needs_a_warm_up(job, digits, seed):
    assert accuracy(digits, seed, None, job.size) <= 0.2
    assert accuracy(digits, seed, 0.1, job.size) >= 0.9
