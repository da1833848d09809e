#!/usr/bin/env python3
"""Fits a line by gradient descent. Each rank uses its own part of the points.

dabkerun -np 4 python examples/numpy_average.py
"""

import numpy

import dabke

STEPS, RATE = 200, 0.2


def my_points(count=1000):
    """Returns this rank's part of points that lie near y = 3x - 1."""
    everyone = numpy.random.default_rng(seed=1)
    x = everyone.uniform(-1, 1, count)
    y = 3 * x - 1 + everyone.normal(0, 0.1, count)
    return x[dabke.rank() :: dabke.size()], y[dabke.rank() :: dabke.size()]


def main():
    dabke.init()
    x, y = my_points()
    line = dabke.broadcast(
        numpy.random.normal(size=2), root_rank=0, name="line"
    )  # all ranks begin with rank 0's guess
    for _ in range(STEPS):
        error = line[0] * x + line[1] - y
        gradient = numpy.array([(2 * error * x).mean(), (2 * error).mean()])
        line -= RATE * dabke.allreduce(gradient, name="gradient")  # the mean of all ranks' gradients
    if dabke.rank() == 0:
        print(f"y = {line[0]:.2f} x {line[1]:+.2f}, fitted by {dabke.size()} ranks")


if __name__ == "__main__":
    main()
