"""The state with which all ranks begin: parameters, the optimizer's state, and any Python object."""

from __future__ import annotations

from typing import Any

from .._frontend import objects
from .._frontend.options import WORLD, AnySet
from .collectives import broadcast

__all__ = ["allgather_object", "broadcast_object", "broadcast_parameters"]


def broadcast_parameters(params: Any, root_rank: int = 0, *, process_set: AnySet = WORLD) -> Any:
    """The parameters of one rank, on every rank. The state of an optimizer of optax is such a pytree too.

    Args:
        params: a pytree of arrays and numbers: the same structure, shapes and dtypes on all ranks.
        root_rank: the world rank that sends, also in a process set.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the same tree with the data of `root_rank`; JAX's arrays cannot be changed in place.

    Raises:
        MismatchError: the ranks disagree about a shape or dtype; on all.
        HorovodInternalError: the job has failed.
    """
    return broadcast(params, root_rank, "parameters", process_set)


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: AnySet = WORLD
) -> Any:
    """The object of one rank, on every rank. It travels as a pickle, between ranks that trust each other.

    Args:
        obj: whatever pickle can take, or cloudpickle where it is installed. Only that of `root_rank` counts.
        root_rank: the world rank that sends, also in a process set.
        name: as that of an array; ``broadcast_object.`` comes before it. None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the object; on `root_rank` the very same.

    Raises:
        InvalidArgumentError: `root_rank` cannot pickle it, or a rank cannot unpickle it; on all ranks, with
            that rank's text.
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
        InvalidArgumentError: a rank cannot pickle its object, or unpickle another's; on all ranks, with that
            rank's text.
        HorovodInternalError: the job has failed.
    """
    return objects.allgather_object(obj, name, process_set=process_set)
