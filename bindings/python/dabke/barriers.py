"""Collectives without data: barrier, and the join of ranks that have no more of it."""

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
    """The asynchronous form of ``barrier``."""
    return _core.barrier(options_of(set_id_of(process_set)))


def barrier(process_set: AnySet = WORLD) -> None:
    """Returns when every rank of the set has come."""
    _core.barrier(options_of(set_id_of(process_set)), wait_follows=True).wait()


def join_async(device: int = -1, process_set: AnySet = WORLD) -> Handle:
    """The asynchronous form of ``join``."""
    handle = _core.join(_core.Options(process_set=set_id_of(process_set), device=device))
    handle.result = last_joined_rank
    return handle


def join(device: int = -1, process_set: AnySet = WORLD) -> int:
    """This rank has no more data, and takes part in the others' collectives with the neutral element until all join.

    A joined rank does not count in an average, unless the job runs with JOIN=horovod.

    Args:
        device: the CUDA device with whose memory to take part; -1 for the host, as is a device that this build or
            machine does not have.

    Returns:
        the world rank that joined last.
    """
    return synchronize(join_async(device, process_set))  # type: ignore[no-any-return]
