#!/usr/bin/env python3
"""Data-parallel training of a small neural network on handwritten digits, with TensorFlow's own loop.

    dabkerun -np 2 python examples/tensorflow_digits.py

Each rank trains on its own shard of the images. The tape averages the gradients over the ranks inside of the
tf.function, so all ranks take the same steps and keep the same weights. What a script for one process has to
change is marked with (1) to (8).
"""

import argparse
from pathlib import Path

import numpy
import tensorflow as tf

import dabke.tensorflow as hvd

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
        help="a folder; rank 0 writes to it after each epoch; training goes on from it if it is there",
    )
    return parser.parse_args()


def load(path):
    """Training and held-out images: one fifth, always the same, is held out. Pixels are standardised."""
    rows = numpy.loadtxt(path, delimiter=",", dtype="float32")
    rows = rows[numpy.random.default_rng(1998).permutation(len(rows))]
    training = len(rows) - len(rows) // 5
    pixels, labels = rows[:, :PIXELS], rows[:, PIXELS].astype("int64")
    mean, deviation = pixels[:training].mean(0), pixels[:training].std(0).clip(min=1.0)
    pixels = (pixels - mean) / deviation
    return (pixels[:training], labels[:training]), (pixels[training:], labels[training:])


def make_model():
    return tf.keras.Sequential(
        [
            tf.keras.Input([PIXELS]),
            tf.keras.layers.Dense(128, "relu"),
            tf.keras.layers.Dense(64, "relu"),
            tf.keras.layers.Dense(CLASSES),
        ]
    )


def accuracy(model, images, labels):
    """Each rank takes every size-th image; the counts of all are added."""
    own = slice(hvd.rank(), None, hvd.size())
    guesses = tf.argmax(model(images[own]), 1)
    right = tf.reduce_sum(tf.cast(guesses == labels[own], tf.int64))
    return int(hvd.allreduce(right, op=hvd.Sum, name="right")) / len(labels)


def main():
    options = flags()
    hvd.init()  # (1) join the job
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(
            gpus[hvd.local_rank() % len(gpus)], "GPU"
        )  # (2) a GPU for each rank of a host
    tf.config.threading.set_intra_op_parallelism_threads(1)  # such small layers need only one
    tf.keras.utils.set_random_seed(options.seed)
    (images, labels), (held_images, held_labels) = load(options.data)

    model = make_model()
    rate = (
        options.learning_rate * hvd.size()
    )  # (3) a larger batch wants a higher rate, but not from the first step on
    optimizer = tf.keras.optimizers.SGD(rate, momentum=0.9)
    optimizer.build(model.trainable_variables)
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = cross_entropy(y, model(x, training=True))
        tape = hvd.DistributedGradientTape(tape)  # (4) average gradients
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    done = tf.Variable(0, dtype=tf.int64)
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer, done=done)
    manager = tf.train.CheckpointManager(saved, options.checkpoint, 1) if options.checkpoint else None
    if manager and hvd.rank() == 0:
        manager.restore_or_initialize()
    hvd.broadcast_variables(
        [*model.variables, *optimizer.variables, done], root_rank=0
    )  # (5) one start for all

    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shard(hvd.size(), hvd.rank())  # (7) own shard
    data = (
        data.shuffle(len(images), seed=options.seed).batch(options.batch_size, drop_remainder=True).repeat()
    )
    steps = len(images) // (options.batch_size * hvd.size())  # (8) fewer steps in an epoch
    warmup = max(1, int(options.warmup_epochs * steps))
    if hvd.rank() == 0:
        print(
            f"ranks: {hvd.size()}, training images: {len(images)}, batch: {options.batch_size} x {hvd.size()}"
        )
    batches = iter(data)
    for epoch in range(int(done) + 1, options.epochs + 1):
        total = 0.0
        for number in range((epoch - 1) * steps, epoch * steps):
            share = min(1.0, number / warmup)
            optimizer.learning_rate.assign(rate * (share + (1 - share) / hvd.size()))
            total += float(step(*next(batches)))
        loss = float(hvd.allreduce(tf.constant(total / steps), name="loss"))
        reached = accuracy(model, held_images, held_labels)
        done.assign(epoch)
        if hvd.rank() == 0:
            print(f"epoch {epoch:2}: loss {loss:.4f}, held-out accuracy {100 * reached:.1f} %", flush=True)
            if manager:
                manager.save()  # (6) one rank alone writes


if __name__ == "__main__":
    main()
