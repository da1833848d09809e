#!/usr/bin/env python3
"""Measures a step of the model of examples/keras_digits.py, with and without communication.

    KERAS_BACKEND=tensorflow dabkerun -np 2 python benchmarks/python/keras_step.py [--rounds 31]

KERAS_BACKEND is tensorflow, jax or torch. Both models train in `fit` on the same data, an epoch each in every
round. The C API reduces the gradients of a step as one group, as often as the epoch has steps. All times are
those of one step.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy
from gradients import IN_PLACE, groups_of_c
from turns import measure, print_table

import dabke.keras as hvd

PIXELS, CLASSES, BATCH = 64, 10, 32
STEPS = 22  # those of an epoch of the example on two ranks


def make_model(is_distributed):
    model = keras.Sequential(
        [
            keras.Input((PIXELS,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )
    optimizer = keras.optimizers.SGD(0.02, momentum=0.9, weight_decay=1e-4)
    model.compile(
        hvd.DistributedOptimizer(optimizer) if is_distributed else optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def epoch_of(model):
    random = numpy.random.default_rng(hvd.rank())
    images = random.standard_normal((STEPS * BATCH, PIXELS)).astype("float32")
    labels = random.integers(0, CLASSES, STEPS * BATCH)
    return lambda: model.fit(images, labels, batch_size=BATCH, shuffle=False, verbose=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=31, help="epochs of each way (default: 31)")
    options = parser.parse_args()
    hvd.init()
    if keras.backend.backend() == "torch":
        import torch

        torch.set_num_threads(1)
    alone, together = make_model(False), make_model(True)
    group = groups_of_c("digits", [tuple(each.shape) for each in alone.trainable_variables])[IN_PLACE]
    ways = {
        "without communication": epoch_of(alone),
        "distributed": epoch_of(together),
        IN_PLACE: lambda: [group() for _ in range(STEPS)],
    }
    seen = {name: figures.divided_by(STEPS) for name, figures in measure(ways, options.rounds).items()}
    without, ours, communication = seen.values()
    print_table(
        f"digits, Keras on {keras.backend.backend()}",
        [
            ("a step without communication", without, None),
            (IN_PLACE, communication, without),
            ("a distributed step", ours, without),
            ("  less the communication", ours.less(communication), without),
        ],
    )


if __name__ == "__main__":
    main()
