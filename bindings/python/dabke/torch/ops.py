"""The collectives that are not differentiable: asynchronous ones, and those in place.

Names, arguments, defaults and meanings are those of horovod.torch. ``autograd`` has the blocking forms, which
explain the arguments.

Tensors are contiguous. Asynchronous forms return a handle at once. Their tensors must not be touched until
the operation has completed; the operation keeps them alive. A name stands for the same tensor on every rank.
A second use of a name that is still pending is refused (``init`` can change that). Without names all ranks
must submit in the same order.

`process_set` is a ``ProcessSet`` or its number. `average` is the older form of `op`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _core
from .._frontend.collective_table import ALLGATHER, ALLREDUCE, BROADCAST, REDUCESCATTER
from ..errors import InvalidArgumentError
from ..process_sets import global_process_set
from ..reduce_ops import Average, Sum
from .options import AnySet, options_of, prefixed_group_names, prefixed_name, reduce_op, set_id_of
from .sparse_tensors import average_of_integers, parts_of, sparse_tensor
from .submission import Handle, Splits, run_group, run_one, submit_alltoall, submit_group, submit_one
from .waiting import wait_for

__all__ = [
    "allgather_async",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall_async",
    "barrier",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather_async",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter_async",
    "sparse_allreduce_async",
    "synchronize",
]

_WORLD = global_process_set


def poll(handle: Handle) -> bool:
    """Returns True if the operation has completed, with success or an error. Never waits.

    Args:
        handle: the handle that an asynchronous collective has returned.
    """
    return handle.poll()


def synchronize(handle: Any) -> Any:
    """Waits for the operation, and returns its result.

    For tensors on a CUDA device the current stream waits, so that work which is launched next reads the
    result. The host waits only until all ranks have submitted. The next such call, or ``shutdown``, raises a
    later failure.

    Args:
        handle: the handle that an asynchronous collective has returned.

    Returns:
        the result of the blocking form: a tensor, or a list for a group; None if `handle` is not a handle,
        such as None.

    Raises:
        DabkeError: the operation has failed; the class shows the kind of failure (``dabke.errors``).
    """
    return wait_for(handle) if isinstance(handle, Handle) else None


# ---- allreduce ----


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> Handle:
    """Starts ``allreduce`` without gradient, and returns a ``Handle`` at once.

    Arguments and errors are those of ``allreduce``.
    """
    options = options_of(set_id_of(process_set), reduce_op(op, average), prescale_factor, postscale_factor)
    return submit_one(ALLREDUCE, prefixed_name("allreduce", name, options.process_set), tensor, options)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> Handle:
    """Starts ``allreduce_``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``allreduce_``.
    """
    options = options_of(set_id_of(process_set), reduce_op(op, average), prescale_factor, postscale_factor)
    return submit_one(
        ALLREDUCE, prefixed_name("allreduce", name, options.process_set), tensor, options, in_place=True
    )


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> torch.Tensor:
    """Works like ``allreduce``, in place and without gradient: `tensor` becomes the result.

    Arguments and errors are those of ``allreduce``.

    Returns:
        `tensor`.
    """
    options = options_of(set_id_of(process_set), reduce_op(op, average), prescale_factor, postscale_factor)
    return run_one(
        ALLREDUCE, prefixed_name("allreduce", name, options.process_set), tensor, options, in_place=True
    )


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> Handle:
    """Starts ``grouped_allreduce`` without gradient, and returns a ``Handle`` for all tensors at once.

    Arguments and errors are those of ``grouped_allreduce``.
    """
    number = set_id_of(process_set)
    names = prefixed_group_names("grouped_allreduce", name, number, len(tensors))
    options = options_of(number, reduce_op(op, average), prescale_factor, postscale_factor)
    return submit_group(ALLREDUCE, names, list(tensors), options)


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> Handle:
    """Starts ``grouped_allreduce_``, and returns a ``Handle`` for all tensors at once.

    Arguments and errors are those of ``grouped_allreduce_``.
    """
    number = set_id_of(process_set)
    names = prefixed_group_names("grouped_allreduce", name, number, len(tensors))
    options = options_of(number, reduce_op(op, average), prescale_factor, postscale_factor)
    return submit_group(ALLREDUCE, names, list(tensors), options, in_place=True)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> list[torch.Tensor]:
    """Works like ``grouped_allreduce``, in place and without gradient: the tensors become the results.

    Arguments and errors are those of ``grouped_allreduce``.

    Returns:
        the tensors, as a list.
    """
    number = set_id_of(process_set)
    names = prefixed_group_names("grouped_allreduce", name, number, len(tensors))
    options = options_of(number, reduce_op(op, average), prescale_factor, postscale_factor)
    return run_group(ALLREDUCE, names, list(tensors), options, in_place=True)


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str | None, op: int, process_set: AnySet = _WORLD
) -> Callable[[], torch.Tensor]:
    """Reduces sparse COO tensors of the same shape, by an allgather of their indices and of their values.

    Args:
        tensor: the input, coalesced or not; each rank may have any number of elements.
        name: the tensor's name, the same on every rank. None: numbered.
        op: Average or Sum. Integers are averaged like those of dense tensors.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        a function that waits and returns the sum or average, which may not be coalesced.

    Raises:
        InvalidArgumentError: another `op`, or an average of bool.
    """
    if op not in (Average, Sum):
        raise InvalidArgumentError("sparse_allreduce_async: op must be Average or Sum")
    indices, values = parts_of(tensor)
    if op == Average and values.dtype == torch.bool:
        raise InvalidArgumentError(
            "sparse_allreduce_async: bool has no average; use Sum, which is true where any rank's is"
        )
    number = set_id_of(process_set)
    base = prefixed_name("sparse_allreduce", name, number)
    names = [f"{base}.indices", f"{base}.values"]
    gathered = submit_group(ALLGATHER, names, [indices, values], options_of(number))
    counted = None
    if op == Average:  # the gathered rows do not show which ranks have joined
        one = torch.ones(1, dtype=torch.int64)
        counted = submit_one(ALLREDUCE, f"{base}.ranks", one, options_of(number, int(Sum)), in_place=True)

    def wait() -> torch.Tensor:
        all_indices, all_values = wait_for(gathered)
        if counted is None:
            return sparse_tensor(all_indices.t(), all_values, tensor)
        ranks = int(wait_for(counted))
        if values.is_floating_point():
            return sparse_tensor(all_indices.t(), all_values / ranks, tensor)
        return average_of_integers(all_indices.t(), all_values, tensor, ranks)

    return wait


# ---- allgather ----


def allgather_async(tensor: torch.Tensor, name: str | None = None, process_set: AnySet = _WORLD) -> Handle:
    """Starts ``allgather`` without gradient, and returns a ``Handle`` at once.

    Arguments and errors are those of ``allgather``.
    """
    options = options_of(set_id_of(process_set))
    return submit_one(ALLGATHER, prefixed_name("allgather", name, options.process_set), tensor, options)


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: AnySet = _WORLD
) -> Handle:
    """Starts ``grouped_allgather`` without gradient, and returns a ``Handle`` at once.

    Arguments and errors are those of ``grouped_allgather``.
    """
    options = options_of(set_id_of(process_set))
    names = prefixed_group_names("grouped_allgather", name, options.process_set, len(tensors))
    return submit_group(ALLGATHER, names, tensors, options)


# ---- broadcast ----


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: AnySet = _WORLD
) -> Handle:
    """Starts ``broadcast`` without gradient, and returns a ``Handle`` at once.

    Arguments and errors are those of ``broadcast``.
    """
    options = options_of(set_id_of(process_set), root_rank=int(root_rank))
    return submit_one(BROADCAST, prefixed_name("broadcast", name, options.process_set), tensor, options)


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: AnySet = _WORLD
) -> Handle:
    """Starts ``broadcast_``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``broadcast_``.
    """
    options = options_of(set_id_of(process_set), root_rank=int(root_rank))
    return submit_one(
        BROADCAST, prefixed_name("broadcast", name, options.process_set), tensor, options, in_place=True
    )


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: AnySet = _WORLD
) -> torch.Tensor:
    """Works like ``broadcast``, in place and without gradient: `tensor` gets the data of `root_rank`.

    Arguments and errors are those of ``broadcast``.

    Returns:
        `tensor`.
    """
    options = options_of(set_id_of(process_set), root_rank=int(root_rank))
    return run_one(
        BROADCAST, prefixed_name("broadcast", name, options.process_set), tensor, options, in_place=True
    )


# ---- alltoall ----


def alltoall_async(
    tensor: torch.Tensor, splits: Splits = None, name: str | None = None, process_set: AnySet = _WORLD
) -> Handle:
    """Starts ``alltoall`` without gradient, and returns a ``Handle`` at once.

    Arguments and errors are those of ``alltoall``.
    """
    options = options_of(set_id_of(process_set))
    return submit_alltoall(prefixed_name("alltoall", name, options.process_set), tensor, splits, options)


# ---- reducescatter ----


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: AnySet = _WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Starts ``reducescatter`` without gradient, and returns a ``Handle`` at once.

    Arguments and errors are those of ``reducescatter``.
    """
    options = options_of(set_id_of(process_set), int(op), prescale_factor, postscale_factor)
    return submit_one(
        REDUCESCATTER, prefixed_name("reducescatter", name, options.process_set), tensor, options
    )


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: AnySet = _WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Starts ``grouped_reducescatter`` without gradient, and returns a ``Handle`` at once.

    Arguments and errors are those of ``grouped_reducescatter``.
    """
    options = options_of(set_id_of(process_set), int(op), prescale_factor, postscale_factor)
    names = prefixed_group_names("grouped_reducescatter", name, options.process_set, len(tensors))
    return submit_group(REDUCESCATTER, names, tensors, options)


# ---- without data ----


def barrier(process_set: AnySet = _WORLD) -> None:
    """Returns when every rank of the set has called it.

    Args:
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Raises:
        UnknownProcessSetError: the set does not exist, or this rank is not in it.
        HorovodInternalError: the job has failed.
    """
    _core.barrier(options_of(set_id_of(process_set)).core, wait_follows=True).wait()


def join(device: int = -1) -> int:
    """Declares that this rank has no more data.

    Until all ranks have joined, this rank takes part in the others' allreduces with zeros. Minimum, maximum
    and product get their neutral element. An average is still divided by the full size, as in Horovod. With
    ``init(join="dabke")`` it is the average of the ranks that take part, and the other collectives work, too.

    Args:
        device: the CUDA device whose memory this rank uses for the others' device tensors. -1, or a device
            that this build or this process does not have: the devices that this rank has used. So
            ``join(hvd.local_rank())`` works with and without GPUs.

    Returns:
        the world rank that joined last.

    Raises:
        HorovodInternalError: the job has failed.
    """
    handle = _core.join(_core.Options(device=device))
    handle.wait()
    return handle.last_joined_rank()
