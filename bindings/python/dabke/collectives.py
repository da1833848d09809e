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

Every function raises what is wrong with its own arguments at once; what only the ranks together can tell
(``MismatchError``), and what happens later, is raised by ``synchronize`` on every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from . import _core
from ._frontend.options import WORLD, AnySet, group_names, name_of, options_of
from .arrays import Array, TensorLike, empty_like
from .handles import Handle, all_outputs, one_output, synchronize, with_splits
from .process_sets import set_id_of
from .reduce_ops import Average, Compression

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

T = TypeVar("T")


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
    out: Any = None,
) -> Handle:
    """The asynchronous form of ``allreduce``."""
    number = process_set if isinstance(process_set, int) else process_set._id()
    return _core.allreduce(
        name or name_of(None, "allreduce", number),
        tensor,
        empty_like if out is None else out,
        options_of(number, op, prescale_factor, postscale_factor, compression, priority),
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
    out: Any = None,
) -> Array:
    """The elementwise reduction of all ranks' tensors, on every rank.

    Args:
        tensor: the same shape and dtype on every rank.
        op: Average, Sum, Min, Max, Product; of integers and bool also BitwiseAnd, BitwiseOr, BitwiseXor. An
            average of integers is truncated toward zero.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        priority: higher first among what is ready at the same time.
        out: memory for the result, of the same shape and dtype; `tensor` itself works in place.

    Returns:
        `out`, or a new array.
    """
    number = process_set if isinstance(process_set, int) else process_set._id()
    handle = _core.allreduce(
        name or name_of(None, "allreduce", number),
        tensor,
        empty_like if out is None else out,
        options_of(number, op, prescale_factor, postscale_factor, compression, priority),
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
    """The asynchronous form of ``allreduce_``."""
    number = process_set if isinstance(process_set, int) else process_set._id()
    return _core.allreduce(
        name or name_of(None, "allreduce", number),
        tensor,
        None,
        options_of(number, op, prescale_factor, postscale_factor, compression, priority),
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
    """``allreduce`` in place: `tensor` becomes the result and is returned."""
    number = process_set if isinstance(process_set, int) else process_set._id()
    _core.allreduce(
        name or name_of(None, "allreduce", number),
        tensor,
        None,
        options_of(number, op, prescale_factor, postscale_factor, compression, priority),
        wait_follows=True,
    ).wait()
    return tensor


def _submit_grouped_allreduce(
    tensors: Sequence[TensorLike],
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: AnySet,
    compression: int,
    priority: int,
    out: Sequence[Any] | None,
    wait_follows: bool,
) -> Handle:
    number = set_id_of(process_set)
    return _core.grouped_allreduce(
        group_names(name, "grouped_allreduce", number, len(tensors)),
        list(tensors),
        empty_like if out is None else list(out),
        options_of(number, op, prescale_factor, postscale_factor, compression, priority),
        wait_follows=wait_follows,
    )


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
    out: Sequence[Any] | None = None,
) -> Handle:
    """The asynchronous form of ``grouped_allreduce``: one handle for all tensors."""
    return _submit_grouped_allreduce(
        tensors,
        name,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        compression,
        priority,
        out,
        False,
    )


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
    out: Sequence[Any] | None = None,
) -> list[Array]:
    """An allreduce of several tensors that travel together: all of them, or none.

    Their names are ``<name>.<i>``. Arguments as in ``allreduce``; `out` has an array for each tensor.
    """
    handle = _submit_grouped_allreduce(
        tensors,
        name,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        compression,
        priority,
        out,
        True,
    )
    return synchronize(handle)  # type: ignore[no-any-return]


def _submit_grouped_allreduce_(
    tensors: Sequence[T],
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: AnySet,
    compression: int,
    priority: int,
    wait_follows: bool,
) -> Handle:
    number = set_id_of(process_set)
    arrays = list(tensors)
    return _core.grouped_allreduce(
        group_names(name, "grouped_allreduce", number, len(arrays)),
        arrays,
        None,
        options_of(number, op, prescale_factor, postscale_factor, compression, priority),
        arrays,
        wait_follows,
    )


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
    """The asynchronous form of ``grouped_allreduce_``."""
    return _submit_grouped_allreduce_(
        tensors,
        name,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        compression,
        priority,
        False,
    )


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
    """``grouped_allreduce`` in place: the tensors become the results and are returned."""
    handle = _submit_grouped_allreduce_(
        tensors,
        name,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        compression,
        priority,
        True,
    )
    return synchronize(handle)  # type: ignore[no-any-return]


# ---- reducescatter ----


def _submit_reducescatter(
    tensor: TensorLike,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: AnySet,
    priority: int,
    out: Any,
    wait_follows: bool,
) -> Handle:
    number = set_id_of(process_set)
    return _core.reducescatter(
        name_of(name, "reducescatter", number),
        tensor,
        out,
        options_of(number, op, prescale_factor, postscale_factor, priority=priority),
        one_output if out is None else out,
        wait_follows,
    )


def reducescatter_async(
    tensor: TensorLike,
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Any = None,
) -> Handle:
    """The asynchronous form of ``reducescatter``."""
    return _submit_reducescatter(
        tensor,
        name,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        priority,
        out,
        False,
    )


def reducescatter(
    tensor: TensorLike,
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Any = None,
) -> Array:
    """Reduces like ``allreduce``; rank i of the set keeps the i-th block of rows.

    With n ranks and d rows the first d % n ranks get d // n + 1 rows, the others d // n. `tensor` has at least one
    dimension, and the same shape on every rank.
    """
    handle = _submit_reducescatter(
        tensor,
        name,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        priority,
        out,
        True,
    )
    return synchronize(handle)  # type: ignore[no-any-return]


def _submit_grouped_reducescatter(
    tensors: Sequence[TensorLike],
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: AnySet,
    priority: int,
    out: Sequence[Any] | None,
    wait_follows: bool,
) -> Handle:
    number = set_id_of(process_set)
    outputs = None if out is None else list(out)
    return _core.grouped_reducescatter(
        group_names(name, "grouped_reducescatter", number, len(tensors)),
        list(tensors),
        outputs,
        options_of(number, op, prescale_factor, postscale_factor, priority=priority),
        all_outputs if outputs is None else outputs,
        wait_follows,
    )


def grouped_reducescatter_async(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Sequence[Any] | None = None,
) -> Handle:
    """The asynchronous form of ``grouped_reducescatter``."""
    return _submit_grouped_reducescatter(
        tensors,
        name,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        priority,
        out,
        False,
    )


def grouped_reducescatter(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    op: int = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Sequence[Any] | None = None,
) -> list[Array]:
    """A reducescatter of several tensors that travel together: all of them, or none."""
    handle = _submit_grouped_reducescatter(
        tensors,
        name,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        priority,
        out,
        True,
    )
    return synchronize(handle)  # type: ignore[no-any-return]


# ---- allgather ----


def _submit_allgather(
    tensor: TensorLike, name: str | None, process_set: AnySet, priority: int, out: Any, wait_follows: bool
) -> Handle:
    number = set_id_of(process_set)
    return _core.allgather(
        name_of(name, "allgather", number),
        tensor,
        out,
        options_of(number, priority=priority),
        one_output if out is None else out,
        wait_follows,
    )


def allgather_async(
    tensor: TensorLike,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Any = None,
) -> Handle:
    """The asynchronous form of ``allgather``."""
    return _submit_allgather(tensor, name, process_set, priority, out, False)


def allgather(
    tensor: TensorLike,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Any = None,
) -> Array:
    """All ranks' tensors one behind the other, in the order of the ranks.

    Args:
        tensor: at least one dimension. The first may differ by rank, 0 too; the others and the dtype may not.
        out: memory for the result; its first dimension is the sum of all ranks', and it is not `tensor`'s memory.
    """
    handle = _submit_allgather(tensor, name, process_set, priority, out, True)
    return synchronize(handle)  # type: ignore[no-any-return]


def _submit_grouped_allgather(
    tensors: Sequence[TensorLike], name: str | None, process_set: AnySet, priority: int, wait_follows: bool
) -> Handle:
    number = set_id_of(process_set)
    return _core.grouped_allgather(
        group_names(name, "grouped_allgather", number, len(tensors)),
        list(tensors),
        None,
        options_of(number, priority=priority),
        all_outputs,
        wait_follows,
    )


def grouped_allgather_async(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> Handle:
    """The asynchronous form of ``grouped_allgather``."""
    return _submit_grouped_allgather(tensors, name, process_set, priority, False)


def grouped_allgather(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> list[Array]:
    """An allgather of several tensors that travel together: all of them, or none."""
    handle = _submit_grouped_allgather(tensors, name, process_set, priority, True)
    return synchronize(handle)  # type: ignore[no-any-return]


# ---- broadcast ----


def _submit_broadcast(
    tensor: TensorLike,
    root_rank: int,
    name: str | None,
    process_set: AnySet,
    priority: int,
    out: Any,
    wait_follows: bool,
) -> Handle:
    number = set_id_of(process_set)
    return _core.broadcast(
        name_of(name, "broadcast", number),
        tensor,
        empty_like if out is None else out,
        options_of(number, priority=priority, root_rank=root_rank),
        wait_follows=wait_follows,
    )


def broadcast_async(
    tensor: TensorLike,
    root_rank: int = 0,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Any = None,
) -> Handle:
    """The asynchronous form of ``broadcast``."""
    return _submit_broadcast(tensor, root_rank, name, process_set, priority, out, False)


def broadcast(
    tensor: TensorLike,
    root_rank: int = 0,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Any = None,
) -> Array:
    """The tensor of `root_rank`, a world rank, on every rank. The same shape and dtype everywhere."""
    handle = _submit_broadcast(tensor, root_rank, name, process_set, priority, out, True)
    return synchronize(handle)  # type: ignore[no-any-return]


def broadcast_async_(
    tensor: T,
    root_rank: int = 0,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> Handle:
    """The asynchronous form of ``broadcast_``."""
    number = set_id_of(process_set)
    return _core.broadcast(
        name_of(name, "broadcast", number),
        tensor,
        None,
        options_of(number, priority=priority, root_rank=root_rank),
        tensor,
    )


def broadcast_(
    tensor: T,
    root_rank: int = 0,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> T:
    """``broadcast`` in place: `tensor` becomes that of `root_rank` and is returned."""
    number = set_id_of(process_set)
    _core.broadcast(
        name_of(name, "broadcast", number),
        tensor,
        None,
        options_of(number, priority=priority, root_rank=root_rank),
        wait_follows=True,
    ).wait()
    return tensor


# ---- alltoall ----


def _submit_alltoall(
    tensor: TensorLike,
    splits: Sequence[int] | None,
    name: str | None,
    process_set: AnySet,
    priority: int,
    out: Any,
    wait_follows: bool,
) -> Handle:
    number = set_id_of(process_set)
    if splits is None:
        options = options_of(number, priority=priority)
        result = one_output if out is None else out
    else:
        options = _core.Options(process_set=number, priority=priority, splits=[int(rows) for rows in splits])
        result = with_splits(out)
    return _core.alltoall(name_of(name, "alltoall", number), tensor, out, options, result, wait_follows)


def alltoall_async(
    tensor: TensorLike,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Any = None,
) -> Handle:
    """The asynchronous form of ``alltoall``."""
    return _submit_alltoall(tensor, splits, name, process_set, priority, out, False)


def alltoall(
    tensor: TensorLike,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Any = None,
) -> Any:
    """Row block i of the tensor goes to rank i of the set; the result is what came, by source rank.

    Args:
        tensor: at least one dimension, whose rows are sent.
        splits: the rows for each rank; their sum is the first dimension. None: equal parts.
        out: memory for the result; its first dimension is the sum of the rows that come.

    Returns:
        the array; with `splits`, the array and the list of the rows that came from each rank.
    """
    return synchronize(_submit_alltoall(tensor, splits, name, process_set, priority, out, True))
