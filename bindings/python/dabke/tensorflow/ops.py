"""The collectives, through which gradients flow; in eager mode and in a tf.function.

Names, arguments, defaults and meanings are those of horovod.tensorflow.

A name stands for the same tensor on every rank. In eager mode tensors without one are counted, so that all
ranks call in the same order; in a function, they are counted in the function (``naming``). A tensor is
whatever tf.convert_to_tensor takes.

Every function accepts some arguments that have no effect here: `device_dense` and `device_sparse`, because
the ops run on the host, and `ignore_name_scope`, because names have no scope of TensorFlow's.

What is wrong is raised in eager mode as a class of ``dabke.errors``. What fails while a function runs,
TensorFlow raises as one of ``tf.errors``, with the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from .. import barriers
from .._frontend.collective_table import ALLGATHER, ALLTOALL, BROADCAST, REDUCESCATTER
from .._frontend.options import AnySet, options_of
from ..errors import UnimplementedError
from ..process_sets import global_process_set, set_id_of
from ..reduce_ops import Average
from .compression import Compression, Compressor
from .naming import full_name, group_names
from .options import reduce_op, refuse_adasum
from .reduction import reduce_dense, reduce_slices
from .submission import run, run_one
from .traced import unconverted

__all__ = [
    "allgather",
    "allreduce",
    "alltoall",
    "broadcast",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "reducescatter",
]

_WORLD = global_process_set


@unconverted
def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: AnySet = _WORLD,
    ignore_name_scope: bool = False,
) -> Any:
    """Reduces the tensors of all ranks element by element; every rank gets the result. Differentiable for
    Average and Sum.

    Args:
        tensor: of any shape; the same shape and dtype on every rank. Or a tf.IndexedSlices, whose rows may
            differ by rank.
        average: the older form of `op`: True for Average, False for Sum.
        device_dense: has no effect.
        device_sparse: has no effect.
        compression: how it travels; see ``Compression``.
        op: a ``ReduceOp``; None: Average. An average of integers is truncated toward zero.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        name: stands for the same tensor on every rank; ``allreduce.`` comes before it. None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.
        ignore_name_scope: has no effect.

    Returns:
        a new tensor of the shape and dtype of `tensor`; a tf.IndexedSlices of all ranks' rows for such a
        `tensor`.

    Raises:
        InvalidArgumentError: an argument makes no sense.
        UnimplementedError: `op` is Adasum.
        UnsupportedError: a dtype that no backend of this build can work on, or a function that XLA compiles.
        MismatchError: the ranks disagree about shape, dtype, `op`, a factor, `compression` or `process_set`;
            on all.
        HorovodInternalError: the job has failed.
    """
    number = set_id_of(process_set)
    operation = reduce_op("allreduce", op, average)
    full = full_name("allreduce", name, number)
    scales = (float(prescale_factor), float(postscale_factor))
    if isinstance(tensor, tf.IndexedSlices):
        return reduce_slices(full, tensor, operation, scales, number)
    return reduce_dense([full], [tensor], operation, scales, number, compression, is_group=False)[0]


@unconverted
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Any]:
    """An allreduce of several tensors that travel together: all of them, or none. Differentiable as
    ``allreduce``.

    Errors and the arguments that are not here are those of ``allreduce``.

    Args:
        tensors: as many on every rank, each with the same shape and dtype everywhere. Any tf.IndexedSlices
            among them travel by themselves.
        name: of the group; its members are ``<name>_<i>of<count>``, i from 1.

    Returns:
        a result for each tensor, in their order.
    """
    number = set_id_of(process_set)
    operation = reduce_op("grouped_allreduce", op, average)
    names = group_names("grouped_allreduce", name, number, len(tensors))
    scales = (float(prescale_factor), float(postscale_factor))
    results: list[Any] = list(tensors)
    dense = [i for i, tensor in enumerate(tensors) if not isinstance(tensor, tf.IndexedSlices)]
    for i in set(range(len(results))) - set(dense):
        results[i] = reduce_slices(names[i], results[i], operation, scales, number)
    if dense:
        parts = [tensors[i] for i in dense]
        dense_names = [names[i] for i in dense]
        for i, each in zip(
            dense, reduce_dense(dense_names, parts, operation, scales, number, compression, is_group=True)
        ):
            results[i] = each
    return results


@unconverted
def allgather(
    tensor: Any, name: str | None = None, ignore_name_scope: bool = False, process_set: AnySet = _WORLD
) -> tf.Tensor:
    """All ranks' tensors one behind the other, in the order of the ranks, on every rank; differentiable.

    Args:
        tensor: of shape [rows, ...]. The rows may differ by rank, 0 too; the other dimensions and the dtype
            may not.
        name: stands for the same tensor on every rank; ``allgather.`` comes before it. None: numbered.
        ignore_name_scope: has no effect.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        a new tensor of shape [sum of all ranks' rows, ...].

    Raises:
        InvalidArgumentError: an argument makes no sense, such as a scalar.
        UnsupportedError: a dtype that no backend of this build can work on, or a function that XLA compiles.
        MismatchError: the ranks disagree about the dimensions behind the first, dtype or `process_set`; on
            all.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set))
    return run_one(ALLGATHER, full_name("allgather", name, options.process_set), tensor, options)


@unconverted
def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: AnySet = _WORLD,
) -> list[tf.Tensor]:
    """An allgather of several tensors that travel together: all of them, or none; differentiable.

    Errors and the arguments that are not here are those of ``allgather``.

    Args:
        tensors: of shapes [rows, ...], as many on every rank.
        name: of the group; its members are ``<name>_<i>of<count>``, i from 1.

    Returns:
        a result for each tensor, in their order.
    """
    options = options_of(set_id_of(process_set))
    names = group_names("grouped_allgather", name, options.process_set, len(tensors))
    return run(ALLGATHER, names, tensors, options, is_group=True).outputs if tensors else []


@unconverted
def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: AnySet = _WORLD,
) -> tf.Tensor:
    """The tensor of one rank, on every rank; differentiable.

    Args:
        tensor: of any shape; the same shape and dtype on every rank. Only the data of `root_rank` counts.
        root_rank: the world rank that sends, also in a process set.
        name: stands for the same tensor on every rank; ``broadcast.`` comes before it. None: numbered.
        ignore_name_scope: has no effect.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        a new tensor of the shape and dtype of `tensor`.

    Raises:
        InvalidArgumentError: an argument makes no sense, such as a `root_rank` outside of the set.
        UnsupportedError: a dtype that no backend of this build can work on, or a function that XLA compiles.
        MismatchError: the ranks disagree about shape, dtype, `root_rank` or `process_set`; on all.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set), root_rank=int(root_rank))
    return run_one(BROADCAST, full_name("broadcast", name, options.process_set), tensor, options)


@unconverted
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: AnySet = _WORLD,
) -> Any:
    """Sends row block i of the tensor to rank i of the set; the result has the rows that came, by source
    rank. Differentiable.

    Args:
        tensor: of shape [rows, ...]; the dimensions behind the first and the dtype are the same on every
            rank.
        splits: the rows for each rank of the set, as a tensor or a list; their sum is the first dimension.
            None: equal parts.
        name: stands for the same tensor on every rank; ``alltoall.`` comes before it. None: numbered.
        ignore_name_scope: has no effect.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the tensor, of shape [rows that came, ...]; with `splits`, that and an int32 tensor of the rows that
        came from each rank.

    Raises:
        InvalidArgumentError: an argument makes no sense, such as `splits` with another sum.
        UnsupportedError: a dtype that no backend of this build can work on, or a function that XLA compiles.
        MismatchError: the ranks disagree about the dimensions behind the first, dtype or `process_set`; on
            all.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set))
    full = full_name("alltoall", name, options.process_set)
    result = run(ALLTOALL, [full], [tensor], options, splits=splits)
    return result.outputs[0] if splits is None else (result.outputs[0], result.received_splits)


@unconverted
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: AnySet = _WORLD,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """Reduces like ``allreduce``; rank i of the set gets the i-th block of rows. Differentiable for Average
    and Sum.

    With n ranks and d rows the first d % n ranks get d // n + 1 rows, the others d // n. Errors and the
    arguments that are not here are those of ``allreduce``.

    Args:
        tensor: of shape [d, ...]; the same shape and dtype on every rank.
        compression: how it travels: floating-point tensors are cast before, and the result back after.

    Returns:
        a new tensor of this rank's rows, [d // n or d // n + 1, ...].
    """
    return _reducescatter(
        "reducescatter", [tensor], compression, op, name, process_set, prescale_factor, postscale_factor
    )[0]


@unconverted
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: AnySet = _WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    name: str | None = None,
) -> list[tf.Tensor]:
    """A reducescatter of several tensors that travel together: all of them, or none. Differentiable likewise.

    Errors and the arguments that are not here are those of ``reducescatter``.

    Args:
        tensors: of shapes [d, ...]; as many on every rank, each with the same shape and dtype everywhere.
        name: of the group; its members are ``<name>_<i>of<count>``, i from 1.

    Returns:
        this rank's rows of each tensor, in their order.
    """
    call = "grouped_reducescatter"
    return _reducescatter(
        call, tensors, compression, op, name, process_set, prescale_factor, postscale_factor
    )


def _reducescatter(
    call: str,
    tensors: Sequence[Any],
    compression: type[Compressor],
    op: int,
    name: str | None,
    process_set: AnySet,
    prescale_factor: float,
    postscale_factor: float,
) -> list[tf.Tensor]:
    refuse_adasum(call, op)
    options = options_of(set_id_of(process_set), int(op), float(prescale_factor), float(postscale_factor))
    is_group = call.startswith("grouped")
    names = (
        group_names(call, name, options.process_set, len(tensors))
        if is_group
        else [full_name(call, name, options.process_set)]
    )
    if not tensors:
        return []
    pairs = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
    results = run(REDUCESCATTER, names, [tensor for tensor, _ in pairs], options, is_group).outputs
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]


@unconverted
def join() -> int:
    """Waits for all ranks to join. Until then this rank takes part in the others' allreduces without data.

    Returns:
        the rank that joined last.

    Raises:
        UnimplementedError: it is called in a function that is being traced.
        HorovodInternalError: the job has failed.
    """
    if not tf.executing_eagerly():
        raise UnimplementedError("join: call it in eager mode, after the last step, not in a tf.function")
    return barriers.join()
