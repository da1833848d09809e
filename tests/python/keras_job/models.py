"""Small models, and their training, for the tests of Keras."""

import keras
import numpy

FEATURES, HIDDEN, OUTPUTS = 4, 6, 3


def start_weights(seed=5):
    """The same weights on every rank and backend: kernel, bias, kernel, bias."""
    random = numpy.random.default_rng(seed)
    shapes = [(FEATURES, HIDDEN), (HIDDEN,), (HIDDEN, OUTPUTS), (OUTPUTS,)]
    return [(0.5 * random.normal(size=shape)).astype("float32") for shape in shapes]


def model(optimizer=None, **compiled):
    """A network of two layers with those weights."""
    made = keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(HIDDEN, activation="tanh"),
            keras.layers.Dense(OUTPUTS),
        ]
    )
    made.set_weights(start_weights())
    if optimizer is not None:
        made.compile(optimizer, loss="mse", **compiled)
    return made


def fit(made, x, y, batch_size, epochs=2, **options):
    return made.fit(x, y, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0, **options)


def close(got, want, tolerance=1e-6):
    for mine, theirs in zip(got, want, strict=True):
        numpy.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


def gradients_of(made, x, y):
    """The gradients of the mean squared error of a model of this file, by NumPy in float64."""
    kernel, bias, kernel2, bias2 = (each.astype("float64") for each in made)
    hidden = numpy.tanh(x @ kernel + bias)
    error = hidden @ kernel2 + bias2 - y
    back = 2 * error / error.size
    through = (back @ kernel2.T) * (1 - hidden**2)
    return [x.T @ through, through.sum(0), hidden.T @ back, back.sum(0)]


def trained_by_numpy(batches, rate, momentum=0.0):
    """The weights of one process that trains on these batches, pairs of inputs and targets, in float64."""
    weights = [each.astype("float64") for each in start_weights()]
    velocities = [numpy.zeros_like(each) for each in weights]
    for x, y in batches:
        gradients = gradients_of(weights, x.astype("float64"), y.astype("float64"))
        velocities = [momentum * old - rate * new for old, new in zip(velocities, gradients)]
        weights = [each + step for each, step in zip(weights, velocities)]
    return weights


def batches_of(x, y, batch_size, epochs=2):
    """The batches of `fit`."""
    rows = [slice(first, first + batch_size) for first in range(0, len(x), batch_size)]
    return [(x[each], y[each]) for _ in range(epochs) for each in rows]
