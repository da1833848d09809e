"""The collectives on arrays and pytrees, in a program (jit, grad, vmap, scan, ...) and outside of one.

Outside, a call runs at once and waits. In a program it becomes a part of it: the program submits and goes on,
and waits where it needs the result. A name stands for the same array on every rank; the leaves of a pytree
have their paths behind it, and calls in a program their number (docs/python/jax.md). So ranks may trace, and
XLA may run, in any order.

`process_set` is a ``ProcessSet`` or its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import barriers
from .._frontend.names import prefixed_name
from .._frontend.options import WORLD, AnySet
from ..compression import Compression
from ..errors import InvalidArgumentError, UnsupportedError
from ..process_sets import set_id_of
from ..reduce_ops import Average
from . import direct, primitives
from .calls import Call
from .internals import is_tracing
from .trees import Leaves, leaves_of

__all__ = ["allgather", "allreduce", "alltoall", "barrier", "broadcast", "join", "reducescatter"]


def _base_name(collective: str, name: str | None, process_set: int) -> str:
    if is_tracing():  # the number is that of the call within the program: `instances`
        return f"{collective}.{name or 'noname'}"
    return prefixed_name(collective, name, process_set)


def _call_on(leaves: Leaves, collective: str, name: str | None, process_set: AnySet, **options: Any) -> Call:
    number = set_id_of(process_set)
    return Call(leaves.names(_base_name(collective, name, number)), number, **options)


def allreduce(
    tree: Any,
    op: int = Average,
    name: str | None = None,
    process_set: AnySet = WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    compression: int = Compression.default,
) -> Any:
    """Reduces each array of the ranks, elementwise; differentiable for Average and Sum.

    All arrays of a tree travel as one group: all of them, or none.

    Args:
        tree: an array or a pytree of arrays, of any shapes and dtypes; the same on every rank.
        op: a reduce operation, such as Average, Sum, Min, Max or Product.
        name: stands for the same tree on every rank; ``allreduce.`` comes before it. None: numbered.
        process_set: the ranks that take part.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        compression: how float32 travels between hosts, a ``dabke.Compression``.

    Returns:
        the same tree, of arrays with the same shapes and dtypes.

    Raises:
        InvalidArgumentError: an argument makes no sense.
        UnsupportedError: a dtype that Dabke lacks; in a program that is sharded over several devices; the
            gradient of another operation than Average and Sum.
        MismatchError: the ranks disagree about shape, dtype, `op`, factors or `process_set`; on all.
        HorovodInternalError: the job has failed.

    What a program finds out when it runs it raises as JAX's own error: ``dabke_errors``, ``synchronize``.
    """
    leaves = leaves_of(tree)
    call = _call_on(
        leaves,
        "allreduce",
        name,
        process_set,
        op=int(op),
        prescale_factor=float(prescale_factor),
        postscale_factor=float(postscale_factor),
        compression=int(compression),
    )
    if not leaves.arrays:
        return tree
    if is_tracing():
        return leaves.rebuild(primitives.bind(primitives.allreduce_p, call, leaves.arrays))
    return leaves.rebuild(direct.allreduce(call, leaves.arrays))


def allgather(tree: Any, name: str | None = None, process_set: AnySet = WORLD) -> Any:
    """The rows of all ranks, one behind the other; differentiable. Errors are those of ``allreduce``.

    Args:
        tree: an array or a pytree of arrays of shapes [rows, ...]; the dimensions behind the first and the
            dtypes are the same everywhere. The rows may differ by rank outside of programs. In a program,
            whose shapes are fixed, they are the same on every rank, and the call fails on all ranks where
            they are not.
        name: stands for the same tree on every rank; ``allgather.`` comes before it. None: numbered.
        process_set: the ranks that take part.

    Returns:
        the same tree, of arrays of shapes [rows of all ranks, ...].
    """
    leaves = leaves_of(tree)
    call = _call_on(leaves, "allgather", name, process_set)
    if not leaves.arrays:
        return tree
    if is_tracing():
        return leaves.rebuild(primitives.bind(primitives.allgather_p, call, leaves.arrays))
    return leaves.rebuild(direct.allgather(call, leaves.arrays))


def broadcast(tree: Any, root_rank: int, name: str | None = None, process_set: AnySet = WORLD) -> Any:
    """The arrays of one rank, on every rank; differentiable. Errors are those of ``allreduce``.

    Args:
        tree: an array or a pytree of arrays; the same shapes and dtypes on every rank. Only the data of
            `root_rank` counts.
        root_rank: the world rank that sends, also in a process set.
        name: stands for the same tree on every rank; ``broadcast.`` comes before it. None: numbered.
        process_set: the ranks that take part.

    Returns:
        the same tree, of arrays with the same shapes and dtypes.
    """
    leaves = leaves_of(tree)
    call = _call_on(leaves, "broadcast", name, process_set, root_rank=int(root_rank))
    if not leaves.arrays:
        return tree
    if is_tracing():
        return leaves.rebuild(primitives.bind(primitives.broadcast_p, call, leaves.arrays))
    return leaves.rebuild(direct.broadcast(call, leaves.arrays))


def alltoall(
    tree: Any, splits: Sequence[int] | None = None, name: str | None = None, process_set: AnySet = WORLD
) -> Any:
    """Sends row block i of each array to rank i of the set; the result has the rows that came, by source
    rank. Differentiable. Errors are those of ``allreduce``.

    Args:
        tree: an array or a pytree of arrays of shapes [rows, ...].
        splits: the rows for each rank, of one array and outside of programs alone; their sum is the first
            dimension. None: equal parts.
        name: stands for the same tree on every rank; ``alltoall.`` comes before it. None: numbered.
        process_set: the ranks that take part.

    Returns:
        the same tree, of arrays of shapes [rows that came, ...]; with `splits`, the array and a list of the
        rows that came from each rank.
    """
    leaves = leaves_of(tree)
    call = _call_on(leaves, "alltoall", name, process_set)
    if not leaves.arrays:
        return tree
    if splits is not None:
        if is_tracing():
            raise UnsupportedError(
                f"alltoall '{call.names[0]}': splits make a result of another shape on each rank, which a "
                "program of JAX cannot have; call it outside of jit and the other transformations"
            )
        if len(leaves.arrays) != 1:
            raise InvalidArgumentError(
                f"alltoall '{call.names[0]}': splits are for one array, not for a pytree"
            )
        result, received = direct.alltoall_with_splits(call, leaves.arrays[0], [int(rows) for rows in splits])
        return leaves.rebuild([result]), received
    if is_tracing():
        return leaves.rebuild(primitives.bind(primitives.alltoall_p, call, leaves.arrays))
    return leaves.rebuild(direct.alltoall(call, leaves.arrays))


def reducescatter(
    tree: Any,
    op: int = Average,
    name: str | None = None,
    process_set: AnySet = WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Reduces like ``allreduce``; rank i of the set gets the i-th block of rows. Differentiable for Average
    and Sum.

    With n ranks and d rows the first d % n ranks get d // n + 1 rows, the others d // n. Errors and the
    arguments that are not here are those of ``allreduce``.

    Args:
        tree: an array or a pytree of arrays of shapes [d, ...]; the same on every rank.
        name: stands for the same tree on every rank; ``reducescatter.`` comes before it. None: numbered.

    Returns:
        the same tree, of arrays with this rank's rows.
    """
    leaves = leaves_of(tree)
    call = _call_on(
        leaves,
        "reducescatter",
        name,
        process_set,
        op=int(op),
        prescale_factor=float(prescale_factor),
        postscale_factor=float(postscale_factor),
    )
    if not leaves.arrays:
        return tree
    if is_tracing():
        return leaves.rebuild(primitives.bind(primitives.reducescatter_p, call, leaves.arrays))
    return leaves.rebuild(direct.reducescatter(call, leaves.arrays))


def _need_no_program(call: str, instead: str) -> None:
    if is_tracing():
        raise UnsupportedError(f"{call}: it has no data that could order it in a program; {instead}")


def barrier(process_set: AnySet = WORLD) -> None:
    """Waits until all ranks of the set have called it. Programs that were dispatched before may still run.

    Args:
        process_set: the ranks that take part.

    Raises:
        UnsupportedError: it was called in a program.
        HorovodInternalError: the job has failed.
    """
    _need_no_program("barrier", "call it before or after the program")
    barriers.barrier(process_set)


def join() -> int:
    """Reports that this rank has no more data, and waits until all ranks have joined. The reductions of the
    others go on.

    Returns:
        the world rank that joined last.

    Raises:
        UnsupportedError: it was called in a program.
        HorovodInternalError: the job has failed.
    """
    _need_no_program("join", "call it after the last step")
    return barriers.join()
