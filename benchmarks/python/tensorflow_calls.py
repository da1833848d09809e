#!/usr/bin/env python3
"""Measures allreduces in functions of TensorFlow, beside the same through the C API.

    dabkerun -np 2 python benchmarks/python/tensorflow_calls.py [--rounds 31]

The first table has one tensor of 64 MB, the second the gradients of a ResNet-50. All ways run in turns.

arguments   a tf.function that takes the tensors and returns the results, which need memory of their own. To
            take and return many tensors costs TensorFlow time of Python; so the same function without
            allreduces is measured, too.
step        a tf.function that makes the tensors and subtracts the results from variables, like a training
            step. The allreduces run in place. The time of the same function without them is subtracted, round
            by round.
each        an allreduce for each tensor, as optimizers and tapes do in a graph
group       one grouped allreduce
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from gradients import IN_PLACE, KEPT, groups_of_c, resnet50_shapes
from turns import measure, print_table

import dabke.tensorflow as hvd

LARGE = 16 << 20  # elements of 64 MB


def reduce_each(values, name):
    return [hvd.allreduce(value, name=f"{name}.{i}") for i, value in enumerate(values)]


def reduce_group(values, name):
    return hvd.grouped_allreduce(values, name=name)


def reduce_none(values, name):
    return [tf.identity(value) for value in values]


REDUCTIONS = {"each": reduce_each, "group": reduce_group, "without": reduce_none}


def with_arguments(shapes, reduce, name):
    tensors = [tf.ones(shape) for shape in shapes]
    function = tf.function(lambda values: reduce(values, name))

    def run():
        for result in function(tensors):
            result._numpy()  # waits, and copies nothing

    return run


def as_step(shapes, reduce, name):
    weights = [tf.Variable(tf.zeros(shape)) for shape in shapes]
    factor = tf.Variable(0.5)

    @tf.function
    def step():
        results = reduce([weight * factor for weight in weights], name)
        with tf.control_dependencies(results):  # all gradients exist at the same time, in every way
            for weight, result in zip(weights, results):
                weight.assign_sub(result)

    return lambda: step()


def measure_and_print(title, shapes, rounds):
    ways = groups_of_c(title, shapes)
    for how, make in (("arguments", with_arguments), ("step", as_step)):
        for which, reduce in REDUCTIONS.items():
            ways[f"{how}, {which}"] = make(shapes, reduce, f"{title} {how} {which}".replace(" ", "_"))
    seen = measure(ways, rounds)
    kept, in_place = seen[KEPT], seen[IN_PLACE]
    rows = [(KEPT, kept, None), (IN_PLACE, in_place, kept)]
    rows.append(("arguments, without allreduces", seen["arguments, without"], kept))
    for which in ("each", "group"):
        figures = seen[f"arguments, {which}"]
        rows.append((f"arguments, {which}", figures, kept))
        rows.append(("  less the same without", figures.less(seen["arguments, without"]), kept))
    rows.append(("step, without allreduces", seen["step, without"], in_place))
    for which in ("each", "group"):
        rows.append(
            (
                f"step, {which}, less the same without",
                seen[f"step, {which}"].less(seen["step, without"]),
                in_place,
            )
        )
    print_table(title, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=31, help="of each way (default: 31)")
    options = parser.parse_args()
    hvd.init()
    measure_and_print("64 MB", [(LARGE,)], options.rounds)
    measure_and_print("gradients of a ResNet-50", resnet50_shapes(), options.rounds)


if __name__ == "__main__":
    main()
