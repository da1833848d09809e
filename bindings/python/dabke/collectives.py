"""The collectives, each in a blocking form and an asynchronous one, which gives a handle at once.

Tensors are whatever speaks the buffer protocol or DLPack in host memory: NumPy arrays, arrays of other libraries,
``array.array``. An input that is not compact, row-major, aligned and in this machine's byte order is copied before the
call returns; an output like that is refused, and so are read-only outputs and masked arrays. Results are new NumPy
arrays (memoryviews where NumPy is not installed), or `out` where it is given. Names ending in an underscore work in
place.

A name stands for the same tensor on every rank, and ranks may submit in any order. A tensor without a name gets
``<collective>.noname.<n>``, n counting those of its process set: then all ranks must submit in the same order. A
name that comes again, as in every training step, is negotiated faster than a new one. A name is at most 4096 bytes long
in UTF-8 and has no NUL; any other is refused, as in every string that goes to the runtime.

Until an operation has completed, its tensors must not be touched. They need not be kept: the operation does.

Every function raises what is wrong with its own arguments at once; what only shows between the ranks
(``MismatchError``), and what happens later, is raised by ``synchronize`` on every rank.
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


# ---- allreduce: its forms of one tensor call the compiled part themselves, as the most frequent ones ----


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
    """Starts what ``allreduce`` does, of the same arguments, and returns a ``Handle`` at once."""
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
    """Reduces the tensors of all ranks element by element; every rank gets the result.

    Args:
        tensor: of any shape; the same shape and dtype on every rank.
        name: stands for the same tensor on every rank; at most 4096 bytes in UTF-8. None: numbered, see above.
        op: a ``ReduceOp``, such as Sum. An average of integers is truncated toward zero.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.
        compression: a ``Compression``, which float32 travels as between hosts; the same on every rank.
        priority: higher first among what is ready at the same time.
        out: memory for the result, of the shape and dtype of `tensor`; `tensor` itself works in place.

    Returns:
        `out`, or a new array of the shape and dtype of `tensor`.

    Raises:
        InvalidArgumentError: an argument makes no sense, such as a bitwise `op` of floats, or an `out` of another shape.
        UnsupportedError: a dtype or a device that no backend of this build can work on.
        MismatchError: the ranks disagree about shape, dtype, `op`, a factor, `compression` or `process_set`; on all of them.
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
    """Starts what ``allreduce_`` does, of the same arguments, and returns a ``Handle`` at once."""
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
    """``allreduce`` in place: `tensor`, which must be writable, becomes the result.

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
    """Starts what ``grouped_allreduce`` does, of the same arguments, and returns a ``Handle`` for all tensors at once."""
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
    """An allreduce of several tensors that travel together: all of them, or none.

    Errors and the arguments that are not here are those of ``allreduce``.

    Args:
        tensors: of any shapes; as many on every rank, each with the same shape and dtype everywhere.
        name: of the group; its members are ``<name>.<i>``, i from 0.
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
    """Starts what ``grouped_allreduce_`` does, of the same arguments, and returns a ``Handle`` at once."""
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
    """``grouped_allreduce`` in place: the tensors, which must be writable, become the results.

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
    """Starts what ``reducescatter`` does, of the same arguments, and returns a ``Handle`` at once."""
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
    """Reduces like ``allreduce``; rank i of the set gets the i-th block of rows.

    With n ranks and d rows the first d % n ranks get d // n + 1 rows, the others d // n. Errors and the arguments that
    are not here are those of ``allreduce``.

    Args:
        tensor: of shape [d, ...]; the same shape and dtype on every rank.
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
    """Starts what ``grouped_reducescatter`` does, of the same arguments, and returns a ``Handle`` at once."""
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
    """A reducescatter of several tensors that travel together: all of them, or none.

    Errors and the arguments that are not here are those of ``reducescatter``.

    Args:
        tensors: of shapes [d, ...]; as many on every rank, each with the same shape and dtype everywhere.
        name: of the group; its members are ``<name>.<i>``, i from 0.
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
    """Starts what ``allgather`` does, of the same arguments, and returns a ``Handle`` at once."""
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
    """All ranks' tensors one behind the other, in the order of the ranks, on every rank.

    Args:
        tensor: of shape [rows, ...]. The rows may differ by rank, 0 too; the other dimensions and the dtype may not.
        name: stands for the same tensor on every rank; at most 4096 bytes in UTF-8. None: numbered, see above.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.
        priority: higher first among what is ready at the same time.
        out: memory for the result, which is not that of `tensor`; its first dimension is the sum of all ranks' rows.

    Returns:
        `out`, or a new array of shape [sum of all ranks' rows, ...].

    Raises:
        InvalidArgumentError: an argument makes no sense, such as a scalar, or an `out` of another size.
        UnsupportedError: a dtype or a device that no backend of this build can work on.
        MismatchError: the ranks disagree about the dimensions behind the first, dtype or `process_set`; on all of them.
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
    """Starts what ``grouped_allgather`` does, of the same arguments, and returns a ``Handle`` at once."""
    options = options_of(set_id_of(process_set), priority=priority)
    return _submit_group(ALLGATHER, tensors, name, options, None)


def grouped_allgather(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> list[Array]:
    """An allgather of several tensors that travel together: all of them, or none.

    Errors and the arguments that are not here are those of ``allgather``.

    Args:
        tensors: of shapes [rows, ...], as many on every rank.
        name: of the group; its members are ``<name>.<i>``, i from 0.

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
    """Starts what ``broadcast`` does, of the same arguments, and returns a ``Handle`` at once."""
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
    """The tensor of one rank, on every rank.

    Args:
        tensor: of any shape; the same shape and dtype on every rank. Only the data of `root_rank` counts.
        root_rank: the world rank that sends, also in a process set.
        name: stands for the same tensor on every rank; at most 4096 bytes in UTF-8. None: numbered, see above.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.
        priority: higher first among what is ready at the same time.
        out: memory for the result, of the shape and dtype of `tensor`.

    Returns:
        `out`, or a new array of the shape and dtype of `tensor`.

    Raises:
        InvalidArgumentError: an argument makes no sense, such as a `root_rank` outside of the set.
        UnsupportedError: a dtype or a device that no backend of this build can work on.
        MismatchError: the ranks disagree about shape, dtype, `root_rank` or `process_set`; on all of them.
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
    """Starts what ``broadcast_`` does, of the same arguments, and returns a ``Handle`` at once."""
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
    """``broadcast`` in place: `tensor`, which must be writable, becomes that of `root_rank`.

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
    """Starts what ``alltoall`` does, of the same arguments, and returns a ``Handle`` at once."""
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
    """Sends row block i of the tensor to rank i of the set; the result has the rows that came, by source rank.

    Args:
        tensor: of shape [rows, ...]; the dimensions behind the first and the dtype are the same on every rank.
        splits: the rows for each rank of the set; their sum is the first dimension. None: equal parts.
        name: stands for the same tensor on every rank; at most 4096 bytes in UTF-8. None: numbered, see above.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.
        priority: higher first among what is ready at the same time.
        out: memory for the result; its first dimension is the sum of the rows that come.

    Returns:
        the array, of shape [rows that came, ...]; with `splits`, that array and the list of the rows that came from
        each rank.

    Raises:
        InvalidArgumentError: an argument makes no sense, such as `splits` with another sum, or rows that cannot be divided.
        UnsupportedError: a dtype or a device that no backend of this build can work on.
        MismatchError: the ranks disagree about the dimensions behind the first, dtype or `process_set`; on all of them.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set), priority=priority)
    return synchronize(_submit_alltoall(tensor, splits, name, options, out, wait_follows=True))
