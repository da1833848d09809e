"""Collectives on single values, and the common start of all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _core, collectives
from .._frontend.options import AnySet
from ..errors import InvalidArgumentError
from ..handles import synchronize
from ..process_sets import global_process_set, set_id_of
from ..reduce_ops import Average, Sum
from .backends import adapter
from .backends.adapter import Transfer

__all__ = [
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_variables",
    "reducescatter",
]

Compression = adapter.layer.Compression


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
) -> Any:
    """Reduces a value over the ranks.

    Args:
        value: a tensor of Keras's backend, an array, a number or a list; the same shape on every rank.
        name: the value's name, the same on every rank. None: numbered.
        average: the older form of `op`; True: Average, False: Sum.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        op: the reduce operation; None: Average.
        compression: the form in which the value travels; see ``Compression``.

    Returns:
        the result, as a tensor of Keras's backend.

    Raises:
        InvalidArgumentError: `average` and `op` are both given.
        MismatchError: a shape, dtype or argument differs between ranks.
        HorovodInternalError: the job has failed.
    """
    if op is not None and average is not None:
        raise InvalidArgumentError("allreduce: average and op are both given; pass only op")
    if op is None:
        op = Sum if average is False else Average
    transfer = Transfer(int(op), prescale_factor, postscale_factor, compression, _core.WORLD)
    return adapter.allreduce(value, name, transfer)


def allgather(value: Any, name: str | None = None) -> Any:
    """Joins the rows of all ranks.

    Args:
        value: a tensor of Keras's backend, an array or a list, with at least one dimension. Only the number
            of rows may differ between ranks.
        name: the value's name, the same on every rank. None: numbered.

    Returns:
        the rows in the order of the ranks, as a tensor of Keras's backend.

    Raises:
        MismatchError: a dtype or another dimension differs between ranks.
        HorovodInternalError: the job has failed.
    """
    return adapter.allgather(value, name)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Sends the value of one rank to all ranks.

    Args:
        value: a tensor of Keras's backend, an array, a number or a list; the same shape on every rank.
        root_rank: the rank that sends.
        name: the value's name, the same on every rank. None: numbered.

    Returns:
        the value of `root_rank`, as a tensor of Keras's backend.

    Raises:
        MismatchError: a shape, dtype or root differs between ranks.
        HorovodInternalError: the job has failed.
    """
    return adapter.broadcast(value, int(root_rank), name)


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
    """Reduces a value over the ranks, of which each gets some rows.

    Args:
        value: a tensor of Keras's backend, an array or a list, with at least one dimension; the same shape on
            every rank.
        name: the value's name, the same on every rank. None: numbered.
        op: the reduce operation.

    Returns:
        this rank's rows of the result, as a tensor of Keras's backend. If the rows do not divide, the first
        ranks get one more.

    Raises:
        MismatchError: a shape, dtype or argument differs between ranks.
        HorovodInternalError: the job has failed.
    """
    return adapter.reducescatter(value, name, int(op))


def broadcast_variables(
    variables: Iterable[Any], root_rank: int, process_set: AnySet = global_process_set
) -> None:
    """Sends the values of Keras variables from one rank to all ranks, in place.

    Args:
        variables: such as ``model.weights`` or ``optimizer.variables``; the same shapes and dtypes in the
            same order on every rank.
        root_rank: the world rank that sends, also in a process set.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Raises:
        MismatchError: a shape or dtype differs between ranks.
        HorovodInternalError: the job has failed.
    """
    import numpy

    number = set_id_of(process_set)
    waiting = []
    for i, variable in enumerate(variables):
        array = numpy.asarray(variable.numpy(), order="C")
        name = f"broadcast_variables.{i}"
        handle = collectives.broadcast_async(array, int(root_rank), name, process_set=number)
        waiting.append((variable, handle))
    for variable, handle in waiting:
        variable.assign(synchronize(handle))


def broadcast_global_variables(root_rank: int, *, model: Any = None) -> None:
    """Sends the state of training from one rank to all ranks.

    Keras 3 has no list of all variables of a program, which Horovod's function sends. So pass the model.

    Args:
        root_rank: the rank that sends.
        model: a compiled model that is built. Its weights and its optimizer's variables are sent.

    Raises:
        InvalidArgumentError: no model is given, or it is not built.
        HorovodInternalError: the job has failed.
    """
    if model is None:
        raise InvalidArgumentError(
            "broadcast_global_variables: Keras 3 has no list of all variables; pass model=..., or use "
            "callbacks.BroadcastGlobalVariablesCallback"
        )
    broadcast_variables(state_of(model), root_rank)


def state_of(model: Any) -> list[Any]:
    """Returns the variables that training changes: weights and the optimizer's, not metrics or seeds.

    Raises:
        InvalidArgumentError: the model or its optimizer is not built.
    """
    optimizer = getattr(model, "optimizer", None)
    if not model.built or (optimizer is not None and not optimizer.built):
        raise InvalidArgumentError(f"the model '{model.name}' or its optimizer is not built yet")
    return [*model.weights, *(optimizer.variables if optimizer is not None else [])]
