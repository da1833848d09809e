"""Python objects between ranks that trust each other: they travel as pickles."""

from __future__ import annotations

from typing import Any

from ._frontend import objects
from ._frontend.options import WORLD, AnySet

__all__ = ["allgather_object", "broadcast_object"]


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: AnySet = WORLD
) -> Any:
    """The object of one rank, on every rank. It travels as a pickle, between ranks that trust each other.

    Args:
        obj: whatever pickle can take, or cloudpickle where it is installed. Only that of `root_rank` counts.
        root_rank: the world rank that sends, also in a process set.
        name: as that of a tensor; its tensors are ``broadcast_object.<name>.length`` and the like. None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the object; on `root_rank` the very same.

    Raises:
        InvalidArgumentError: `root_rank` cannot pickle it, or a rank cannot unpickle it; on all ranks, with that rank's
            text.
        HorovodInternalError: the job has failed.
    """
    return objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj: Any, name: str | None = None, *, process_set: AnySet = WORLD) -> list[Any]:
    """The objects of all ranks, on every rank. They travel as that of ``broadcast_object``.

    Args:
        obj: whatever pickle can take, or cloudpickle where it is installed.
        name: as in ``broadcast_object``.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the objects, in the order of the ranks.

    Raises:
        InvalidArgumentError: a rank cannot pickle its object, or unpickle another's; on all ranks, with that rank's text.
        HorovodInternalError: the job has failed.
    """
    return objects.allgather_object(obj, name, process_set=process_set)
