"""Training on the digits with NumPy, whose steps do not depend on the number of ranks.

As a program, it is a rank of an elastic job. It trains until the file stop is in its folder, then writes the
weights there. ``train_alone`` takes the same steps in one process.
"""

import os
import pathlib
import sys
import time

import numpy

DATA = pathlib.Path(__file__).resolve().parents[3] / "examples/data/digits.csv"
CLASSES, BATCH, RATE, MOMENTUM = 10, 64, 0.02, 0.9
PAUSE = 0.002  # seconds of each step, which leave the processors to the processes that start


class Digits:
    """The first four fifths are for training."""

    def __init__(self):
        rows = numpy.loadtxt(DATA, delimiter=",")
        rows = rows[numpy.random.default_rng(0).permutation(len(rows))]
        self.images = numpy.hstack([rows[:, :-1] / 16, numpy.ones((len(rows), 1))])
        self.labels = rows[:, -1].astype(int)
        self.trained = len(rows) * 4 // 5

    def batch(self, step):
        """The images of all ranks in a step."""
        return numpy.random.default_rng(step).choice(self.trained, BATCH, replace=False)

    def gradient(self, weights, chosen):
        """The sum of the gradients of the cross entropy."""
        images = self.images[chosen]
        scores = numpy.exp(images @ weights)
        scores /= scores.sum(axis=1, keepdims=True)
        scores[numpy.arange(len(chosen)), self.labels[chosen]] -= 1
        return images.T @ scores

    def accuracy(self, weights):
        guesses = (self.images[self.trained :] @ weights).argmax(axis=1)
        return (guesses == self.labels[self.trained :]).mean()

    def start(self):
        shape = self.images.shape[1], CLASSES
        return numpy.zeros(shape), numpy.zeros(shape)


def advance(weights, velocity, gradient):
    velocity = MOMENTUM * velocity - RATE / BATCH * gradient
    return weights + velocity, velocity


def train_alone(digits, steps):
    weights, velocity = digits.start()
    for step in range(steps):
        weights, velocity = advance(weights, velocity, digits.gradient(weights, digits.batch(step)))
    return weights


def main(folder):
    import dabke
    from dabke import elastic

    dabke.init()
    digits = Digits()
    weights, velocity = digits.start()
    state = elastic.ObjectState(weights=weights, velocity=velocity, step=0, is_done=False)

    @elastic.run
    def train(state):
        epoch, has_committed = dabke.current_epoch(), False
        while not state.is_done:
            mine = digits.batch(state.step)[epoch.rank :: epoch.size]
            gradient = digits.gradient(state.weights, mine)
            is_asked_to_stop = (folder / "stop").exists()
            sent = numpy.append(gradient, float(is_asked_to_stop))
            total = dabke.allreduce(sent, op=dabke.Sum, name="gradient")
            state.weights, state.velocity = advance(
                state.weights, state.velocity, total[:-1].reshape(gradient.shape)
            )
            state.step += 1
            state.is_done = bool(total[-1] > 0)  # on all ranks in the same step
            dabke.mark_step(state.step)
            time.sleep(PAUSE)
            state.commit()
            if not has_committed:
                has_committed = True
                print(f"epoch {epoch.number} rank {epoch.rank} of {epoch.size} pid {os.getpid()}", flush=True)

    train(state)
    numpy.savez(folder / f"{dabke.rank()}.npz", weights=state.weights, step=state.step, size=dabke.size())
    dabke.shutdown()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
