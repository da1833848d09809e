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
