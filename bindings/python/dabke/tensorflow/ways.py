"""The way in which collectives run in a graph: by an asynchronous op, or by an op that submits and one that
waits.

The asynchronous op keeps a function object of TensorFlow's beyond the call that hands it over. That is known
to work for the versions that the tests have run. All other versions get two ops of the documented kind.
"""

from __future__ import annotations

import os

import tensorflow as tf  # type: ignore[import-untyped]

from ..errors import InvalidArgumentError

__all__ = ["is_asynchronous"]

_TESTED = ("2.16", "2.17", "2.18", "2.19", "2.20", "2.21")
_VARIABLE = "DABKE_TENSORFLOW_KERNELS"


def is_asynchronous() -> bool:
    """Returns True if graphs that are traced now get asynchronous ops.

    DABKE_TENSORFLOW_KERNELS is ``async``, ``blocking``, or ``auto``, which is the default: asynchronous for
    the TensorFlow versions that the tests have run.

    Raises:
        InvalidArgumentError: the variable has another value.
    """
    value = os.environ.get(_VARIABLE, "auto")
    if value not in ("async", "blocking", "auto"):
        raise InvalidArgumentError(f"{_VARIABLE} is '{value}'; use async, blocking or auto")
    return value == "async" or (value == "auto" and ".".join(tf.__version__.split(".")[:2]) in _TESTED)
