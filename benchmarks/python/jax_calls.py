#!/usr/bin/env python3
"""Measures calls in jitted programs of JAX, beside the same through the C API and a program without a call.

    dabkerun -np 2 python benchmarks/python/jax_calls.py

It prints the median of 8 bytes under jit, and of the gradients of a ResNet-50 as one pytree. The pytree is
measured with donated arrays and with arrays that the caller keeps. The C API reduces the same group, in place
and not. All ways run in turns.
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import dabke
import dabke.jax as hvd
from dabke._frontend.collective_table import ALLREDUCE
from dabke._frontend.options import options_of


def resnet50_shapes():
    shapes, channels = [(7, 7, 3, 64), (64,), (64,)], 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            for shape in ((1, 1, channels, width), (3, 3, width, width), (1, 1, width, 4 * width)):
                shapes += [shape, shape[-1:], shape[-1:]]
            if block == 0:
                shapes += [(1, 1, channels, 4 * width), (4 * width,), (4 * width,)]
            channels = 4 * width
    return [*shapes, (2048, 1000), (1000,)]


def in_turns(ways, rounds):
    """The median seconds of each way."""
    seconds = {name: [] for name in ways}
    for turn in range(rounds + 2):
        for name, run in ways.items():
            hvd.barrier()
            began = time.perf_counter()
            run()
            if turn >= 2:
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in seconds.items()}


def small_calls():
    x = jnp.ones(2, jnp.float32)
    with_call = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, "small"))
    empty = jax.jit(lambda x: x + 1)

    def median_of(program):
        seconds = []
        for _ in range(3000):
            began = time.perf_counter()
            program(x).block_until_ready()
            seconds.append(time.perf_counter() - began)
        hvd.barrier()
        return 1e6 * statistics.median(seconds)

    turns = [(median_of(with_call), median_of(empty)) for _ in range(3)]
    with_calls, empties = zip(*turns)
    return {
        "8 bytes under jit": statistics.median(with_calls),
        "an empty program": statistics.median(empties),
    }


def gradients():
    shapes = resnet50_shapes()
    tree = {f"p{i}": jnp.ones(shape) for i, shape in enumerate(shapes)}
    kept = jax.jit(lambda tree: hvd.allreduce(tree, hvd.Average, "kept"))
    donated = jax.jit(lambda tree: hvd.allreduce(tree, hvd.Average, "donated"), donate_argnums=0)
    state = [jax.tree_util.tree_map(lambda each: each + 0, tree)]
    hosts = [np.ones(shape, np.float32) for shape in shapes]
    outputs = [np.empty_like(host) for host in hosts]
    names, core = [f"c{i}" for i in range(len(shapes))], options_of(0).core

    def donate():
        state[0] = jax.block_until_ready(donated(state[0]))

    def group(given):
        dabke.synchronize(ALLREDUCE.submit_group(names, hosts, given, core, None, True))

    ways = {
        "one group of the C API": lambda: group(outputs),
        "the same in place": lambda: group(None),
        "a pytree under jit, donated": donate,
        "a pytree under jit, kept": lambda: jax.block_until_ready(kept(tree)),
    }
    return {name: 1e3 * seconds for name, seconds in in_turns(ways, 15).items()}


def main():
    hvd.init()
    for results, unit in ((small_calls(), "us"), (gradients(), "ms")):
        for name, value in results.items():
            if hvd.rank() == 0:
                print(f"{name:30} {value:8.1f} {unit}", flush=True)


if __name__ == "__main__":
    main()
