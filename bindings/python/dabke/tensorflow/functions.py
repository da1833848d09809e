"""The state with which all ranks begin: variables, and any Python object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tensorflow as tf  # type: ignore[import-untyped]

from .._frontend import objects
from .._frontend.collective_table import BROADCAST
from .._frontend.options import AnySet, options_of
from ..errors import InvalidArgumentError, UnimplementedError
from ..process_sets import global_process_set, set_id_of
from .naming import group_names
from .submission import run
from .traced import unconverted

__all__ = [
    "BroadcastGlobalVariablesHook",
    "allgather_object",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
]

_WORLD = global_process_set


def variables_of(variables: Any) -> list[Any]:
    """The variables as a list, also those of an optimizer or a model: `variables` is a property in Keras 3,
    and was a method.

    Raises:
        InvalidArgumentError: something else than variables.
    """
    found = getattr(variables, "variables", variables)
    if callable(found):
        found = found()
    listed = list(found)
    for each in listed:
        if not hasattr(each, "assign"):
            raise InvalidArgumentError(
                f"broadcast_variables: expected variables, an optimizer or a model, got {type(each).__name__}"
            )
    return listed


@unconverted
def broadcast_variables(
    variables: Any, root_rank: int, process_set: AnySet = _WORLD, inplace: bool = False
) -> None:
    """Gives all ranks the variables of one rank. All are under way at once.

    Args:
        variables: of TensorFlow or Keras, in the same order on all ranks; or an optimizer, a model or a
            layer, which is built on all ranks.
        root_rank: the world rank that sends, also in a process set.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.
        inplace: has no effect: values are always assigned.

    Raises:
        InvalidArgumentError: something else than variables.
        MismatchError: the ranks disagree about a shape or dtype; on all.
        HorovodInternalError: the job has failed.
    """
    broadcast_(variables, root_rank, "variables", process_set)


@unconverted
def broadcast_(
    variables: Sequence[Any], root_rank: int, name: str | None = None, process_set: AnySet = _WORLD
) -> list[tf.Tensor]:
    """``broadcast_variables`` with a name, which gives the new values.

    Args:
        name: of all; each is ``<name>_<i>of<count>``, i from 1. None: numbered.

    Returns:
        the values, in the order of the variables.
    """
    listed = variables_of(variables)
    options = options_of(set_id_of(process_set), root_rank=int(root_rank))
    names = group_names("broadcast", name, options.process_set, len(listed))
    received = run(BROADCAST, names, listed, options).outputs if listed else []
    for variable, value in zip(listed, received):
        variable.assign(value)
    return received


# ---- objects ----


def _refuse_session(call: str, session: Any) -> None:
    if session is not None:
        raise UnimplementedError(f"{call}: sessions of TensorFlow 1 are not supported; call it in eager mode")


@unconverted
def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: AnySet = _WORLD,
) -> Any:
    """The object of one rank, on every rank. It travels as a pickle, between ranks that trust each other.

    Args:
        obj: whatever pickle can take, or cloudpickle where it is installed. Only that of `root_rank` counts.
        root_rank: the world rank that sends, also in a process set.
        session: None.
        name: as that of a tensor; its tensors are ``broadcast_object.<name>.length`` and the like. None:
            numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the object; on `root_rank` the very same.

    Raises:
        InvalidArgumentError: `root_rank` cannot pickle it, or a rank cannot unpickle it; on all ranks, with
            that rank's text.
        UnimplementedError: there is a session.
        HorovodInternalError: the job has failed.
    """
    _refuse_session("broadcast_object", session)
    return objects.broadcast_object(obj, root_rank, name, process_set)


@unconverted
def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: str | None = None, process_set: AnySet = _WORLD
) -> Callable[[Any], Any]:
    """A function of an object that does what ``broadcast_object`` does, whose arguments and errors these
    are."""
    _refuse_session("broadcast_object_fn", session)
    return lambda obj: objects.broadcast_object(obj, root_rank, name, process_set)


@unconverted
def allgather_object(
    obj: Any, session: Any = None, name: str | None = None, process_set: AnySet = _WORLD
) -> list[Any]:
    """The objects of all ranks, on every rank. They travel as that of ``broadcast_object``.

    Args:
        obj: whatever pickle can take, or cloudpickle where it is installed.
        session: None.
        name: as in ``broadcast_object``.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the objects, in the order of the ranks.

    Raises:
        InvalidArgumentError: a rank cannot pickle its object, or unpickle another's; on all ranks, with that
            rank's text.
        UnimplementedError: there is a session.
        HorovodInternalError: the job has failed.
    """
    _refuse_session("allgather_object", session)
    return objects.allgather_object(obj, name, process_set=process_set)


# ---- the forms of TensorFlow 1 ----


def _tensorflow_1(call: str) -> NoReturn:
    raise UnimplementedError(
        f"{call}: graphs with global variables are TensorFlow 1; call "
        "broadcast_variables(model.variables, root_rank) and broadcast_variables(optimizer, root_rank) "
        "after the first step, or use the callback of dabke.keras"
    )


@unconverted
def broadcast_global_variables(root_rank: int) -> None:
    """A form of TensorFlow 1, which has global variables.

    Raises:
        UnimplementedError: always; the text names what to use.
    """
    _tensorflow_1("broadcast_global_variables")


class BroadcastGlobalVariablesHook:
    """A form of TensorFlow 1, for its monitored sessions.

    Raises:
        UnimplementedError: always; the text names what to use.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        _tensorflow_1("BroadcastGlobalVariablesHook")
