#!/usr/bin/env python3
"""Elastic training of a small neural network on handwritten digits, with Keras 3 and ``fit``.

    KERAS_BACKEND=jax dabkerun -np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh \\
        python examples/elastic_keras.py

Training goes on when ranks are lost and when new ones come. KERAS_BACKEND is tensorflow, jax or torch.
"""

import argparse
from pathlib import Path

import keras
from keras_digits import CLASSES, DATA, PIXELS, load

import dabke.keras as hvd


def flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32, help="images of one step on each rank")
    parser.add_argument("--learning-rate", type=float, default=0.02, help="for one rank (default: 0.02)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA)
    return parser.parse_args()


class Report(keras.callbacks.Callback):
    """One line for each epoch, on rank 0."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_end(self, epoch, logs=None):
        if hvd.rank() == 0:
            print(
                f"epoch {epoch + 1:2}/{self.epochs}: {hvd.size()} ranks, loss {logs['loss']:.4f}", flush=True
            )


def main():
    options = flags()
    hvd.init()
    keras.utils.set_random_seed(options.seed)
    (pixels, labels), held_out = load(options.data)
    model = keras.Sequential(
        [
            keras.Input((PIXELS,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(options.learning_rate * hvd.size(), momentum=0.9)
    )
    model.compile(
        optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )

    state = hvd.elastic.KerasState(model, batch=0, epoch=0)

    def adapt_rate():
        """Called after each change: the rate follows the number of ranks."""
        model.optimizer.learning_rate = options.learning_rate * hvd.size()

    state.register_reset_callbacks([adapt_rate])

    @hvd.elastic.run
    def train(state):
        # Each rank trains on its own shard. The shards are cut anew after each change.
        mine = slice(hvd.rank(), len(pixels) // hvd.size() * hvd.size(), hvd.size())
        model.fit(
            pixels[mine],
            labels[mine],
            batch_size=options.batch_size,
            initial_epoch=state.epoch,
            epochs=options.epochs,
            verbose=0,
            callbacks=[
                hvd.callbacks.MetricAverageCallback(),
                Report(options.epochs),
                hvd.elastic.UpdateBatchStateCallback(state),
                hvd.elastic.UpdateEpochStateCallback(state),
                hvd.elastic.CommitStateCallback(state, batches_per_commit=10),
            ],
        )

    train(state)
    _, reached = model.evaluate(*held_out, verbose=0)
    if hvd.rank() == 0:
        print(f"held-out accuracy {100 * reached:.1f} %", flush=True)


if __name__ == "__main__":
    main()
