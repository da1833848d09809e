"""Horovod's names for elastic training. They can be imported, but are not implemented yet."""

from __future__ import annotations

from typing import Any

from .._frontend.elastic import HostsUpdatedInterrupt, not_there_yet
from ..errors import HorovodInternalError

__all__ = [
    "CommitStateCallback",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]

_FRONTEND = "dabke.keras"


def run(func: Any) -> Any:
    """Will decorate an elastic training function. Not implemented yet.

    Args:
        func: a function that takes a state as its first argument.

    Raises:
        UnimplementedError: always.
    """
    not_there_yet(_FRONTEND, "run")


class KerasState:
    """Will hold the state of a model and its optimizer in an elastic job. Not implemented yet.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        not_there_yet(_FRONTEND, "KerasState")


class CommitStateCallback:
    """Will commit the state at the end of batches. Not implemented yet.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        not_there_yet(_FRONTEND, "CommitStateCallback")


class UpdateBatchStateCallback:
    """Will count the batches in a state. Not implemented yet.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, state: Any) -> None:
        not_there_yet(_FRONTEND, "UpdateBatchStateCallback")


class UpdateEpochStateCallback:
    """Will count the epochs in a state. Not implemented yet.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, state: Any) -> None:
        not_there_yet(_FRONTEND, "UpdateEpochStateCallback")
