"""The collectives, each in a blocking form and in an asynchronous form that returns a handle at once.

Tensors are objects that export memory by the buffer protocol or by DLPack: NumPy arrays, arrays of other
libraries, ``array.array``. An input that is not compact, row-major, aligned and in this machine's byte order
is copied before the call returns. An output must have this form, and is refused otherwise. Read-only outputs
and masked arrays are refused, too. Results are `out` if it is given, or else new NumPy arrays (memoryviews if
NumPy is not installed). Functions whose names end in an underscore work in place.

A name stands for the same tensor on every rank, and ranks may submit in any order. A tensor without a name
gets ``<collective>.noname.<n>``, where n counts the unnamed tensors of its process set. All ranks must then
submit in the same order. A repeated name, as in every training step, is negotiated faster than a new one. A
name has at most 4096 bytes in UTF-8 and no NUL. Other names are refused, and so are strings with a NUL in all
calls of the runtime.

Until an operation has completed, its tensors must not be touched. The operation keeps them alive.

Every function raises an error of its own arguments at once. ``synchronize`` raises errors that only the ranks
together can find (``MismatchError``), and later errors, on every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from . import _core
from ._frontend.collective_table import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER, Collective
from ._frontend.names import group_names, name_of
from ._frontend.options import WORLD, AnySet, CallOptions, options_of
from .arrays import Array, TensorLike, empty_like
from .compression import Compression
from .handles import Handle, all_outputs, one_output, synchronize, with_splits
from .process_sets import set_id_of
from .reduce_ops import Average

__all__ = [
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "reducescatter",
    "reducescatter_async",
]

T = TypeVar("T", bound=TensorLike)


# ---- one submit for all collectives, of one tensor and of a group ----


def _submit(
    collective: Collective,
    tensor: TensorLike,
    name: str | None,
    options: CallOptions,
    out: TensorLike | None,
    wait_follows: bool = False,
) -> Handle:
    full_name = name_of(name, collective.name, options.process_set)
    if collective.keeps_shape:
        output = empty_like if out is None else out
        return collective.submit(full_name, tensor, output, options.core, None, wait_follows)
    result = one_output if out is None else out
    return collective.submit(full_name, tensor, out, options.core, result, wait_follows)


def _submit_group(
    collective: Collective,
    tensors: Sequence[TensorLike],
    name: str | None,
    options: CallOptions,
    out: Sequence[TensorLike] | None,
    wait_follows: bool = False,
) -> Handle:
    assert collective.submit_group is not None
    names = group_names(name, collective.group_name, options.process_set, len(tensors))
    outputs = None if out is None else list(out)
    if collective.keeps_shape:
        made = empty_like if outputs is None else outputs
        return collective.submit_group(names, list(tensors), made, options.core, None, wait_follows)
    result = all_outputs if outputs is None else outputs
    return collective.submit_group(names, list(tensors), outputs, options.core, result, wait_follows)


def _submit_group_in_place(
    collective: Collective,
    tensors: Sequence[T],
    name: str | None,
    options: CallOptions,
    wait_follows: bool = False,
) -> Handle:
    assert collective.submit_group is not None
    arrays = list(tensors)
    names = group_names(name, collective.group_name, options.process_set, len(arrays))
    return collective.submit_group(names, arrays, None, options.core, arrays, wait_follows)


# ---- allreduce: the forms of one tensor are the most frequent, so they call the compiled part directly ----


def allreduce_async(
    tensor: TensorLike,
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    compression: int = Compression.default,
    priority: int = 0,
    out: TensorLike | None = None,
) -> Handle:
    """Starts ``allreduce``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``allreduce``.
    """
    number = process_set if isinstance(process_set, int) else process_set._id()
    return _core.allreduce(
        name or name_of(None, "allreduce", number),
        tensor,
        empty_like if out is None else out,
        options_of(number, op, prescale_factor, postscale_factor, compression, priority).core,
    )


def allreduce(
    tensor: TensorLike,
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    compression: int = Compression.default,
    priority: int = 0,
    out: TensorLike | None = None,
) -> Array:
    """Reduces the tensors of all ranks elementwise. Every rank gets the result.

    Args:
        tensor: the input, of any shape; the same shape and dtype on every rank.
        name: the tensor's name, the same on every rank; at most 4096 bytes in UTF-8. None: numbered.
        op: a ``ReduceOp``, such as Sum. An average of integers is truncated toward zero.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.
        compression: the ``Compression`` of float32 between hosts; the same on every rank.
        priority: higher first among tensors that are ready at the same time.
        out: memory for the result, of the shape and dtype of `tensor`. With `tensor` itself it works in
            place.

    Returns:
        `out`, or a new array of the shape and dtype of `tensor`.

    Raises:
        InvalidArgumentError: an argument is not valid, such as a bitwise `op` of floats, or an `out` of
            another shape.
        UnsupportedError: no backend of this build supports the dtype or the device.
        MismatchError: shape, dtype, `op`, a factor, `compression` or `process_set` differ between ranks;
            raised on all of them.
        HorovodInternalError: the job has failed.
    """
    number = process_set if isinstance(process_set, int) else process_set._id()
    handle = _core.allreduce(
        name or name_of(None, "allreduce", number),
        tensor,
        empty_like if out is None else out,
        options_of(number, op, prescale_factor, postscale_factor, compression, priority).core,
        wait_follows=True,
    )
    handle.wait()
    return handle.result  # type: ignore[no-any-return]


def allreduce_async_(
    tensor: T,
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    compression: int = Compression.default,
    priority: int = 0,
) -> Handle:
    """Starts ``allreduce_``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``allreduce_``.
    """
    number = process_set if isinstance(process_set, int) else process_set._id()
    return _core.allreduce(
        name or name_of(None, "allreduce", number),
        tensor,
        None,
        options_of(number, op, prescale_factor, postscale_factor, compression, priority).core,
        tensor,
    )


def allreduce_(
    tensor: T,
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    compression: int = Compression.default,
    priority: int = 0,
) -> T:
    """Works like ``allreduce``, in place: `tensor`, which must be writable, becomes the result.

    Arguments and errors are those of ``allreduce``.

    Returns:
        `tensor`.
    """
    number = process_set if isinstance(process_set, int) else process_set._id()
    _core.allreduce(
        name or name_of(None, "allreduce", number),
        tensor,
        None,
        options_of(number, op, prescale_factor, postscale_factor, compression, priority).core,
        wait_follows=True,
    ).wait()
    return tensor


def grouped_allreduce_async(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    compression: int = Compression.default,
    priority: int = 0,
    out: Sequence[TensorLike] | None = None,
) -> Handle:
    """Starts ``grouped_allreduce``, and returns a ``Handle`` for all tensors at once.

    Arguments and errors are those of ``grouped_allreduce``.
    """
    options = options_of(set_id_of(process_set), op, prescale_factor, postscale_factor, compression, priority)
    return _submit_group(ALLREDUCE, tensors, name, options, out)


def grouped_allreduce(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    compression: int = Compression.default,
    priority: int = 0,
    out: Sequence[TensorLike] | None = None,
) -> list[Array]:
    """Reduces several tensors that travel together: all of them, or none.

    Errors and the arguments that are not here are those of ``allreduce``.

    Args:
        tensors: the inputs, of any shapes; the same number on every rank, each with the same shape and dtype.
        name: the group's name; its members are ``<name>.<i>``, i from 0.
        out: an array for each tensor, as `out` of ``allreduce``.

    Returns:
        a result for each tensor, in their order.
    """
    options = options_of(set_id_of(process_set), op, prescale_factor, postscale_factor, compression, priority)
    handle = _submit_group(ALLREDUCE, tensors, name, options, out, wait_follows=True)
    return synchronize(handle)  # type: ignore[no-any-return]


def grouped_allreduce_async_(
    tensors: Sequence[T],
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    compression: int = Compression.default,
    priority: int = 0,
) -> Handle:
    """Starts ``grouped_allreduce_``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``grouped_allreduce_``.
    """
    options = options_of(set_id_of(process_set), op, prescale_factor, postscale_factor, compression, priority)
    return _submit_group_in_place(ALLREDUCE, tensors, name, options)


def grouped_allreduce_(
    tensors: Sequence[T],
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    compression: int = Compression.default,
    priority: int = 0,
) -> list[T]:
    """Works like ``grouped_allreduce``, in place: the tensors, which must be writable, become the results.

    Arguments and errors are those of ``grouped_allreduce``.

    Returns:
        the tensors, as a list.
    """
    options = options_of(set_id_of(process_set), op, prescale_factor, postscale_factor, compression, priority)
    handle = _submit_group_in_place(ALLREDUCE, tensors, name, options, wait_follows=True)
    return synchronize(handle)  # type: ignore[no-any-return]


# ---- reducescatter ----


def reducescatter_async(
    tensor: TensorLike,
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: TensorLike | None = None,
) -> Handle:
    """Starts ``reducescatter``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``reducescatter``.
    """
    options = options_of(set_id_of(process_set), op, prescale_factor, postscale_factor, priority=priority)
    return _submit(REDUCESCATTER, tensor, name, options, out)


def reducescatter(
    tensor: TensorLike,
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: TensorLike | None = None,
) -> Array:
    """Reduces like ``allreduce``. Rank i of the set gets the i-th block of rows.

    With n ranks and d rows the first d % n ranks get d // n + 1 rows, the others d // n. Errors and the
    arguments that are not here are those of ``allreduce``.

    Args:
        tensor: the input, of shape [d, ...]; the same shape and dtype on every rank.
        out: memory for this rank's rows, of the dtype of `tensor`.

    Returns:
        `out`, or a new array of this rank's rows, [d // n or d // n + 1, ...].
    """
    options = options_of(set_id_of(process_set), op, prescale_factor, postscale_factor, priority=priority)
    handle = _submit(REDUCESCATTER, tensor, name, options, out, wait_follows=True)
    return synchronize(handle)  # type: ignore[no-any-return]


def grouped_reducescatter_async(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Sequence[TensorLike] | None = None,
) -> Handle:
    """Starts ``grouped_reducescatter``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``grouped_reducescatter``.
    """
    options = options_of(set_id_of(process_set), op, prescale_factor, postscale_factor, priority=priority)
    return _submit_group(REDUCESCATTER, tensors, name, options, out)


def grouped_reducescatter(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Sequence[TensorLike] | None = None,
) -> list[Array]:
    """Reduces and scatters several tensors that travel together: all of them, or none.

    Errors and the arguments that are not here are those of ``reducescatter``.

    Args:
        tensors: the inputs, of shapes [d, ...]; the same number on every rank, each with the same shape and
            dtype.
        name: the group's name; its members are ``<name>.<i>``, i from 0.
        out: an array for each tensor, as `out` of ``reducescatter``.

    Returns:
        this rank's rows of each tensor, in their order.
    """
    options = options_of(set_id_of(process_set), op, prescale_factor, postscale_factor, priority=priority)
    handle = _submit_group(REDUCESCATTER, tensors, name, options, out, wait_follows=True)
    return synchronize(handle)  # type: ignore[no-any-return]


# ---- allgather ----


def allgather_async(
    tensor: TensorLike,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: TensorLike | None = None,
) -> Handle:
    """Starts ``allgather``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``allgather``.
    """
    options = options_of(set_id_of(process_set), priority=priority)
    return _submit(ALLGATHER, tensor, name, options, out)


def allgather(
    tensor: TensorLike,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: TensorLike | None = None,
) -> Array:
    """Concatenates the tensors of all ranks, in the order of the ranks. Every rank gets the result.

    Args:
        tensor: the input, of shape [rows, ...]. Only the rows may differ between ranks, and may be 0; the
            other dimensions and the dtype are the same on every rank.
        name: the tensor's name, the same on every rank; at most 4096 bytes in UTF-8. None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.
        priority: higher first among tensors that are ready at the same time.
        out: memory for the result, other than that of `tensor`; its first dimension is the sum of all ranks'
            rows.

    Returns:
        `out`, or a new array of shape [sum of all ranks' rows, ...].

    Raises:
        InvalidArgumentError: an argument is not valid, such as a scalar, or an `out` of another size.
        UnsupportedError: no backend of this build supports the dtype or the device.
        MismatchError: the dtype, `process_set` or dimensions after the first differ between ranks; raised on
            all of them.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set), priority=priority)
    handle = _submit(ALLGATHER, tensor, name, options, out, wait_follows=True)
    return synchronize(handle)  # type: ignore[no-any-return]


def grouped_allgather_async(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> Handle:
    """Starts ``grouped_allgather``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``grouped_allgather``.
    """
    options = options_of(set_id_of(process_set), priority=priority)
    return _submit_group(ALLGATHER, tensors, name, options, None)


def grouped_allgather(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> list[Array]:
    """Gathers several tensors that travel together: all of them, or none.

    Errors and the arguments that are not here are those of ``allgather``.

    Args:
        tensors: the inputs, of shapes [rows, ...]; the same number on every rank.
        name: the group's name; its members are ``<name>.<i>``, i from 0.

    Returns:
        a result for each tensor, in their order.
    """
    options = options_of(set_id_of(process_set), priority=priority)
    handle = _submit_group(ALLGATHER, tensors, name, options, None, wait_follows=True)
    return synchronize(handle)  # type: ignore[no-any-return]


# ---- broadcast ----


def broadcast_async(
    tensor: TensorLike,
    root_rank: int = 0,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: TensorLike | None = None,
) -> Handle:
    """Starts ``broadcast``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``broadcast``.
    """
    options = options_of(set_id_of(process_set), priority=priority, root_rank=root_rank)
    return _submit(BROADCAST, tensor, name, options, out)


def broadcast(
    tensor: TensorLike,
    root_rank: int = 0,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: TensorLike | None = None,
) -> Array:
    """Sends the tensor of one rank to every rank.

    Args:
        tensor: the input, of any shape; the same shape and dtype on every rank. Only the data of `root_rank`
            is read.
        root_rank: the world rank that sends, also in a process set.
        name: the tensor's name, the same on every rank; at most 4096 bytes in UTF-8. None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.
        priority: higher first among tensors that are ready at the same time.
        out: memory for the result, of the shape and dtype of `tensor`.

    Returns:
        `out`, or a new array of the shape and dtype of `tensor`.

    Raises:
        InvalidArgumentError: an argument is not valid, such as a `root_rank` outside of the set.
        UnsupportedError: no backend of this build supports the dtype or the device.
        MismatchError: shape, dtype, `root_rank` or `process_set` differ between ranks; raised on all of them.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set), priority=priority, root_rank=root_rank)
    handle = _submit(BROADCAST, tensor, name, options, out, wait_follows=True)
    return synchronize(handle)  # type: ignore[no-any-return]


def broadcast_async_(
    tensor: T,
    root_rank: int = 0,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> Handle:
    """Starts ``broadcast_``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``broadcast_``.
    """
    options = options_of(set_id_of(process_set), priority=priority, root_rank=root_rank)
    full_name = name_of(name, BROADCAST.name, options.process_set)
    return BROADCAST.submit(full_name, tensor, None, options.core, tensor)


def broadcast_(
    tensor: T,
    root_rank: int = 0,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> T:
    """Works like ``broadcast``, in place: `tensor`, which must be writable, gets the data of `root_rank`.

    Arguments and errors are those of ``broadcast``.

    Returns:
        `tensor`.
    """
    options = options_of(set_id_of(process_set), priority=priority, root_rank=root_rank)
    full_name = name_of(name, BROADCAST.name, options.process_set)
    BROADCAST.submit(full_name, tensor, None, options.core, wait_follows=True).wait()
    return tensor


# ---- alltoall ----


def _submit_alltoall(
    tensor: TensorLike,
    splits: Sequence[int] | None,
    name: str | None,
    options: CallOptions,
    out: TensorLike | None,
    wait_follows: bool = False,
) -> Handle:
    if splits is None:
        return _submit(ALLTOALL, tensor, name, options, out, wait_follows)
    full_name = name_of(name, ALLTOALL.name, options.process_set)
    compiled = options.with_splits([int(rows) for rows in splits])
    return ALLTOALL.submit(full_name, tensor, out, compiled, with_splits(out), wait_follows)


def alltoall_async(
    tensor: TensorLike,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: TensorLike | None = None,
) -> Handle:
    """Starts ``alltoall``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``alltoall``.
    """
    options = options_of(set_id_of(process_set), priority=priority)
    return _submit_alltoall(tensor, splits, name, options, out)


def alltoall(
    tensor: TensorLike,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: TensorLike | None = None,
) -> Any:
    """Sends row block i of the tensor to rank i of the set. The result has the received rows, by source rank.

    Args:
        tensor: the input, of shape [rows, ...]; the dimensions after the first and the dtype are the same on
            every rank.
        splits: the number of rows for each rank of the set; their sum is the first dimension. None: equal
            parts.
        name: the tensor's name, the same on every rank; at most 4096 bytes in UTF-8. None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.
        priority: higher first among tensors that are ready at the same time.
        out: memory for the result; its first dimension is the sum of the received rows.

    Returns:
        the array, of shape [received rows, ...]; with `splits`, that array and the list of the numbers of
        rows from each rank.

    Raises:
        InvalidArgumentError: an argument is not valid, such as `splits` with another sum, or rows that cannot
            be divided evenly.
        UnsupportedError: no backend of this build supports the dtype or the device.
        MismatchError: the dtype, `process_set` or dimensions after the first differ between ranks; raised on
            all of them.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set), priority=priority)
    return synchronize(_submit_alltoall(tensor, splits, name, options, out, wait_follows=True))
