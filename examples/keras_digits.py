#!/usr/bin/env python3
"""Data-parallel training of a small neural network on handwritten digits, with Keras 3.

    KERAS_BACKEND=jax dabkerun -np 2 python examples/keras_digits.py

KERAS_BACKEND is tensorflow, jax or torch; the script is the same. Each rank trains on its own shard of the
images, and the optimizer averages the gradients over the ranks. So all ranks take the same steps and keep the
same weights. Comments (1) to (8) mark the changes to a script for one process.
"""

import argparse
import os
from pathlib import Path

import keras
import numpy

import dabke.keras as hvd

DATA = Path(__file__).resolve().parent / "data" / "digits.csv"
PIXELS, CLASSES = 64, 10


def flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument(
        "--batch-size", type=int, default=32, help="images of one step on each rank (default: 32)"
    )
    parser.add_argument("--learning-rate", type=float, default=0.02, help="for one rank (default: 0.02)")
    parser.add_argument("--warmup-epochs", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="a .keras file; rank 0 writes it after each epoch; training goes on from it if it is there "
        "(use as many ranks as before)",
    )
    return parser.parse_args()


def use_one_gpu(number):
    """Makes this process use one GPU of its host, if there are any."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        if gpus:
            tf.config.set_visible_devices(gpus[number % len(gpus)], "GPU")
    elif keras.backend.backend() == "torch":
        import torch

        torch.set_num_threads(1)  # the layers are too small for several threads
        if torch.cuda.is_available():
            torch.cuda.set_device(number % torch.cuda.device_count())
    else:
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", str(number))


def load(path):
    """Returns training and held-out images, standardised. The held-out fifth is always the same."""
    rows = numpy.loadtxt(path, delimiter=",", dtype="float32")
    rows = rows[numpy.random.default_rng(1998).permutation(len(rows))]
    training = len(rows) - len(rows) // 5
    pixels, labels = rows[:, :PIXELS], rows[:, PIXELS].astype("int32")
    pixels = (pixels - pixels[:training].mean(0)) / pixels[:training].std(0).clip(min=1.0)
    return (pixels[:training], labels[:training]), (pixels[training:], labels[training:])


def new_model(rate):
    model = keras.Sequential(
        [
            keras.Input((PIXELS,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )
    optimizer = keras.optimizers.SGD(rate, momentum=0.9, weight_decay=1e-4)
    optimizer = hvd.DistributedOptimizer(optimizer)  # (4) average the gradients
    model.compile(
        optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


class EpochLine(keras.callbacks.Callback):
    """One line for each epoch."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_end(self, epoch, logs=None):
        print(
            f"epoch {epoch + 1:2}/{self.epochs}: loss {logs['loss']:.4f}, "
            f"held-out accuracy {100 * logs['val_accuracy']:.1f} %",
            flush=True,
        )


def main():
    options = flags()
    hvd.init()  # (1) join the job
    use_one_gpu(hvd.local_rank())  # (2) one GPU for each rank of a host
    keras.utils.set_random_seed(options.seed)
    (images, labels), held_out = load(options.data)

    rate = options.learning_rate * hvd.size()  # (3) a larger batch needs a higher rate, ...
    done = 0
    if options.checkpoint and hvd.rank() == 0 and options.checkpoint.exists():
        model = hvd.load_model(options.checkpoint)
        images_of_step = options.batch_size * hvd.size()
        done = int(model.optimizer.iterations) // (len(images) // images_of_step)
    else:
        model = new_model(rate)
    done = hvd.broadcast_object(done, root_rank=0, name="epochs")

    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),  # (5) all ranks begin with rank 0's state
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(rate, options.warmup_epochs),  # ... but not at first
    ]
    if hvd.rank() == 0:
        callbacks.append(EpochLine(options.epochs))
        if options.checkpoint:  # (6) rank 0 alone writes
            callbacks.append(keras.callbacks.ModelCheckpoint(options.checkpoint))
        print(
            f"ranks: {hvd.size()}, training images: {len(images)}, held-out images: {len(held_out[0])}, "
            f"batch: {options.batch_size} x {hvd.size()}, backend: {keras.backend.backend()}",
            flush=True,
        )
    own_images, own_labels = hvd.shard(images, labels)  # (7) this rank's shard
    steps = len(images) // (options.batch_size * hvd.size())  # (8) fewer steps in an epoch
    own_rows = steps * options.batch_size
    model.fit(
        own_images[:own_rows],
        own_labels[:own_rows],
        batch_size=options.batch_size,
        epochs=options.epochs,
        initial_epoch=done,
        validation_data=hvd.shard(*held_out),
        callbacks=callbacks,
        verbose=0,
    )
    loss, accuracy = model.evaluate(*held_out, verbose=0)
    if hvd.rank() == 0:
        print(f"held-out accuracy {100 * accuracy:.1f} %", flush=True)


if __name__ == "__main__":
    main()
