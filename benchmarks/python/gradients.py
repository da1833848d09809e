"""The gradients of a ResNet-50, and the calls of the C API that frameworks are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

import dabke
from dabke._frontend.collective_table import ALLREDUCE
from dabke._frontend.options import options_of

KEPT = "the C API, one group"
IN_PLACE = "the C API, one group in place"


def resnet50_shapes() -> list[tuple[int, ...]]:
    """The shapes of the 161 gradients of a ResNet-50, 102 MB of float32, in the order of its layers."""
    shapes: list[tuple[int, ...]] = [(7, 7, 3, 64), (64,), (64,)]
    channels = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            for shape in ((1, 1, channels, width), (3, 3, width, width), (1, 1, width, 4 * width)):
                shapes += [shape, shape[-1:], shape[-1:]]
            if block == 0:
                shapes += [(1, 1, channels, 4 * width), (4 * width,), (4 * width,)]
            channels = 4 * width
    return [*shapes, (2048, 1000), (1000,)]


def groups_of_c(name: str, shapes: Sequence[tuple[int, ...]]) -> dict[str, Callable[[], Any]]:
    """Ways to average arrays of these shapes as one group with the C API, in ordinary memory that is kept.

    Args:
        name: of the calls.
        shapes: of the arrays, which are float32.
    """
    inputs = [numpy.ones(shape, numpy.float32) for shape in shapes]
    outputs = [numpy.ones_like(each) for each in inputs]
    names, options = [f"{name}.{i}" for i in range(len(shapes))], options_of(0).core

    def group(given: list[Any] | None) -> None:
        dabke.synchronize(ALLREDUCE.submit_group(names, inputs, given, options, None, True))

    return {KEPT: lambda: group(outputs), IN_PLACE: lambda: group(None)}
