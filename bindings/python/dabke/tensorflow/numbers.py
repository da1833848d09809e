"""Numbers of the job as tensors that have their value when a graph runs, not when it is traced."""

from __future__ import annotations

import enum

import tensorflow as tf  # type: ignore[import-untyped]

from .._frontend.options import AnySet
from ..process_sets import set_id_of
from .library import library
from .order import run_independently
from .submission import errors_of_ours
from .traced import unconverted

__all__ = ["local_rank_op", "local_size_op", "process_set_included_op", "rank_op", "size_op"]


class _Number(enum.IntEnum):
    """The attribute `number` of the op; bindings/python/tensorflow_ops/numbers.cc has the same order."""

    RANK = 0
    SIZE = 1
    LOCAL_RANK = 2
    LOCAL_SIZE = 3
    SET_SIZE = 4
    SET_INCLUDED = 5


def _number(number: _Number, name: str | None, process_set: AnySet = 0) -> tf.Tensor:
    with errors_of_ours():
        result: tf.Tensor = library.dabke_number(
            number=int(number), process_set=set_id_of(process_set), name=name
        )
    if not tf.executing_eagerly():
        run_independently(result.op)
    return result


@unconverted
def rank_op(name: str | None = None) -> tf.Tensor:
    """This process's rank, as an int32 scalar. `name` is that of the node."""
    return _number(_Number.RANK, name)


@unconverted
def local_rank_op(name: str | None = None) -> tf.Tensor:
    """This process's rank among those of its host, as an int32 scalar. `name` is that of the node."""
    return _number(_Number.LOCAL_RANK, name)


@unconverted
def local_size_op(name: str | None = None) -> tf.Tensor:
    """The number of ranks of this host, as an int32 scalar. `name` is that of the node."""
    return _number(_Number.LOCAL_SIZE, name)


@unconverted
def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """The number of ranks of a process set, as an int32 scalar.

    Args:
        process_set_id: the number of the set; 0: all ranks.
        name: that of the node.

    Raises:
        UnknownProcessSetError: there is no such set; in eager mode.
    """
    return _number(_Number.SET_SIZE, name, process_set_id)


@unconverted
def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """1 where this rank is in a process set, 0 where it is not, as an int32 scalar.

    Arguments and errors are those of ``size_op``.
    """
    return _number(_Number.SET_INCLUDED, name, process_set_id)
