"""Collectives without data: the barrier, and the join of ranks that have no more data."""

from __future__ import annotations

from . import _core
from ._frontend.options import WORLD, AnySet, options_of
from .handles import Handle, last_joined_rank, synchronize
from .process_sets import set_id_of

__all__ = [
    "barrier",
    "barrier_async",
    "join",
    "join_async",
]


def barrier_async(process_set: AnySet = WORLD) -> Handle:
    """Starts ``barrier``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``barrier``.
    """
    return _core.barrier(options_of(set_id_of(process_set)).core)


def barrier(process_set: AnySet = WORLD) -> None:
    """Returns when every rank of the set has called it.

    Args:
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Raises:
        UnknownProcessSetError: the set does not exist, or this rank is not in it.
        HorovodInternalError: the job has failed.
    """
    _core.barrier(options_of(set_id_of(process_set)).core, wait_follows=True).wait()


def join_async(device: int = -1, process_set: AnySet = WORLD) -> Handle:
    """Starts ``join``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``join``.
    """
    handle = _core.join(_core.Options(process_set=set_id_of(process_set), device=device))
    handle.result = last_joined_rank
    return handle


def join(device: int = -1, process_set: AnySet = WORLD) -> int:
    """Declares that this rank has no more data.

    Until all ranks have joined, this rank takes part in the others' collectives. It contributes the neutral
    element of each operation. A joined rank does not count in an average,
    unless the job runs with JOIN=horovod.

    Args:
        device: the CUDA device whose memory this rank uses for the others' device tensors. -1, or a device
            that this build or this process does not have: the devices that this rank has used.
        process_set: the ranks that join, as a ``ProcessSet`` or its number.

    Returns:
        the world rank that joined last.

    Raises:
        UnknownProcessSetError: the set does not exist, or this rank is not in it.
        HorovodInternalError: the job has failed.
    """
    return synchronize(join_async(device, process_set))  # type: ignore[no-any-return]
