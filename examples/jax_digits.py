#!/usr/bin/env python3
"""Data-parallel training of a small neural network on handwritten digits, with JAX and optax.

    dabkerun -np 2 python examples/jax_digits.py

Each rank trains on its own shard of the images. The optimizer averages the gradients over the ranks as a part
of the jitted step, so all ranks take the same steps and keep the same weights. What a script for one process
has to change is marked with (1) to (8).
"""

import argparse
import os
import pickle
import time
from pathlib import Path

import dabke.jax as hvd

hvd.init()  # (1) join the job
os.environ.setdefault("CUDA_VISIBLE_DEVICES", str(hvd.local_rank()))  # (2) one GPU a rank, if there are any

import jax
import jax.numpy as jnp
import numpy as np
import optax

DATA = Path(__file__).resolve().parent / "data" / "digits.csv"
LAYERS = (64, 128, 64, 10)


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
        help="rank 0 writes it after each epoch; training continues from it if it exists",
    )
    return parser.parse_args()


def load(path):
    """Training and held-out images, as (pixels, labels) each: one fifth, always the same, is held out."""
    rows = np.loadtxt(path, delimiter=",", dtype=np.float32)
    rows = rows[np.random.default_rng(1998).permutation(len(rows))]
    training = len(rows) - len(rows) // 5
    pixels, labels = rows[:, :-1], rows[:, -1].astype(np.int32)
    mean, deviation = pixels[:training].mean(0), np.maximum(pixels[:training].std(0), 1.0)
    pixels = (pixels - mean) / deviation
    return (pixels[:training], labels[:training]), (pixels[training:], labels[training:])


def new_parameters(seed):
    keys = jax.random.split(jax.random.key(seed), len(LAYERS))
    return [
        {"kernel": jax.random.normal(key, (inputs, outputs)) / inputs**0.5, "bias": jnp.zeros(outputs)}
        for key, inputs, outputs in zip(keys, LAYERS, LAYERS[1:])
    ]


def predict(parameters, pixels):
    for layer in parameters[:-1]:
        pixels = jax.nn.relu(pixels @ layer["kernel"] + layer["bias"])
    return pixels @ parameters[-1]["kernel"] + parameters[-1]["bias"]


def loss_of(parameters, pixels, labels):
    return optax.softmax_cross_entropy_with_integer_labels(predict(parameters, pixels), labels).mean()


def make_step(optimizer):
    def step(parameters, state, pixels, labels):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, pixels, labels)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    return jax.jit(step, donate_argnums=(0, 1))


def accuracy(parameters, held_out):
    """Each rank checks every size-th image."""
    pixels, labels = (each[hvd.rank() :: hvd.size()] for each in held_out)
    right = (predict(parameters, pixels).argmax(1) == labels).mean() if len(labels) else 0.0
    return float(hvd.metric_average(right, name="accuracy", weight=len(labels)))


def main():
    options = flags()
    (pixels, labels), held_out = load(options.data)
    steps = len(labels) // (options.batch_size * hvd.size())  # (8) more ranks, fewer steps
    rate = options.learning_rate * hvd.size()  # (3) a larger batch needs a higher rate, after a warm-up
    warmup = int(options.warmup_epochs * steps)
    schedule = optax.warmup_cosine_decay_schedule(
        options.learning_rate, rate, warmup, max(warmup + 1, options.epochs * steps)
    )
    optimizer = optax.sgd(schedule, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer)  # (4) average the gradients

    parameters = new_parameters(options.seed)
    state, done = optimizer.init(parameters), 0
    if options.checkpoint and hvd.rank() == 0 and options.checkpoint.exists():
        parameters, state, done = pickle.loads(options.checkpoint.read_bytes())
    done = hvd.broadcast_object(done, root_rank=0, name="epochs")
    parameters, state = hvd.broadcast_parameters((parameters, state), root_rank=0)  # (5) the same beginning

    if hvd.rank() == 0:
        print(
            f"ranks: {hvd.size()}, training images: {len(labels)}, held-out images: {len(held_out[1])}, "
            f"batch: {options.batch_size} x {hvd.size()}",
            flush=True,
        )
    step, reached = make_step(optimizer), accuracy(parameters, held_out)
    for epoch in range(done + 1, options.epochs + 1):
        began = time.perf_counter()
        order = np.random.default_rng([options.seed, epoch]).permutation(len(labels))
        mine = order[hvd.rank() :: hvd.size()][: steps * options.batch_size]  # (7) this rank's shard
        losses = []
        for batch in mine.reshape(steps, options.batch_size):
            parameters, state, loss = step(parameters, state, pixels[batch], labels[batch])
            losses.append(loss)
        loss = float(hvd.metric_average(jnp.stack(losses).mean(), name="loss"))
        reached = accuracy(parameters, held_out)
        if hvd.rank() == 0:
            images = steps * options.batch_size * hvd.size() / (time.perf_counter() - began)
            print(
                f"epoch {epoch:2}/{options.epochs}: loss {loss:.4f}, "
                f"held-out accuracy {100 * reached:.1f} %, {images:,.0f} images/s",
                flush=True,
            )
            if options.checkpoint:  # (6) one rank writes
                saved = jax.device_get((parameters, state)) + (epoch,)
                options.checkpoint.write_bytes(pickle.dumps(saved))
    if hvd.rank() == 0:
        print(f"held-out accuracy {100 * reached:.1f} %", flush=True)


if __name__ == "__main__":
    main()
