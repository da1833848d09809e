"""Collectives that move data as it is: allgather, broadcast, alltoall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from . import _core
from .arrays import Array, TensorLike, empty_like
from .calls import WORLD, AnySet, group_names, name_of, options_of
from .handles import Handle, all_outputs, one_output, synchronize, with_splits
from .process_sets import set_id_of

__all__ = [
    "allgather",
    "allgather_async",
    "alltoall",
    "alltoall_async",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
]

T = TypeVar("T")


def allgather_async(
    tensor: TensorLike,
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
    out: Any = None,
) -> Handle:
    """The asynchronous form of ``allgather``."""
    number = set_id_of(process_set)
    return _core.allgather(
        name_of(name, "allgather", number),
        tensor,
        out,
        options_of(number, priority=priority),
        one_output if out is None else out,
    )


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
    return synchronize(  # type: ignore[no-any-return]
        allgather_async(tensor, name, process_set=process_set, priority=priority, out=out)
    )


def grouped_allgather_async(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> Handle:
    """The asynchronous form of ``grouped_allgather``."""
    number = set_id_of(process_set)
    return _core.grouped_allgather(
        group_names(name, "grouped_allgather", number, len(tensors)),
        list(tensors),
        None,
        options_of(number, priority=priority),
        all_outputs,
    )


def grouped_allgather(
    tensors: Sequence[TensorLike],
    name: str | None = None,
    *,
    process_set: AnySet = WORLD,
    priority: int = 0,
) -> list[Array]:
    """An allgather of several tensors that travel together: all of them, or none."""
    return synchronize(  # type: ignore[no-any-return]
        grouped_allgather_async(tensors, name, process_set=process_set, priority=priority)
    )


# ---- broadcast ----


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
    number = set_id_of(process_set)
    if out is None:
        out = empty_like(tensor)
    return _core.broadcast(
        name_of(name, "broadcast", number),
        tensor,
        out,
        options_of(number, priority=priority, root_rank=root_rank),
        out,
    )


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
    return synchronize(  # type: ignore[no-any-return]
        broadcast_async(tensor, root_rank, name, process_set=process_set, priority=priority, out=out)
    )


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
    number = set_id_of(process_set)
    if splits is None:
        options = options_of(number, priority=priority)
        result = one_output if out is None else out
    else:
        options = _core.Options(process_set=number, priority=priority, splits=[int(rows) for rows in splits])
        result = with_splits(out)
    return _core.alltoall(name_of(name, "alltoall", number), tensor, out, options, result)


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
    return synchronize(
        alltoall_async(tensor, splits, name, process_set=process_set, priority=priority, out=out)
    )
