"""Python objects between ranks that trust each other: they travel as pickles."""

from __future__ import annotations

from typing import Any

from ._frontend import objects
from ._frontend.options import WORLD, AnySet

__all__ = ["allgather_object", "broadcast_object"]


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: AnySet = WORLD
) -> Any:
    """Sends the object of one rank to every rank, as a pickle. The ranks must trust each other.

    Args:
        obj: an object that pickle can take, or cloudpickle if it is installed. Only the object of `root_rank`
            is sent.
        root_rank: the world rank that sends, also in a process set.
        name: a name like that of a tensor. Its tensors are ``broadcast_object.<name>.length`` and the like.
            None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the object; on `root_rank` `obj` itself.

    Raises:
        InvalidArgumentError: `root_rank` cannot pickle it, or a rank cannot unpickle it. Raised on all ranks,
            with that rank's text.
        HorovodInternalError: the job has failed.
    """
    return objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj: Any, name: str | None = None, *, process_set: AnySet = WORLD) -> list[Any]:
    """Sends the objects of all ranks to every rank. They travel as in ``broadcast_object``.

    Args:
        obj: an object that pickle can take, or cloudpickle if it is installed.
        name: as in ``broadcast_object``.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the objects, in the order of the ranks.

    Raises:
        InvalidArgumentError: a rank cannot pickle its object, or unpickle another's. Raised on all ranks,
            with that rank's text.
        HorovodInternalError: the job has failed.
    """
    return objects.allgather_object(obj, name, process_set=process_set)
