"""Horovod's names for elastic training. They can be imported, but are not implemented yet."""

from __future__ import annotations

from typing import Any

from .._frontend.elastic import HostsUpdatedInterrupt, not_there_yet
from ..errors import HorovodInternalError

__all__ = [
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "TensorFlowKerasState",
    "TensorFlowState",
    "run",
]

_FRONTEND = "dabke.tensorflow"


def run(func: Any) -> Any:
    """Will decorate an elastic training function. Not implemented yet.

    Args:
        func: a function that takes a state as its first argument.

    Raises:
        UnimplementedError: always.
    """
    not_there_yet(_FRONTEND, "run")


class TensorFlowState:
    """Will hold the state of variables in an elastic job. Not implemented yet.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        not_there_yet(_FRONTEND, "TensorFlowState")


class TensorFlowKerasState:
    """Will hold the state of a Keras model and its optimizer in an elastic job. Not implemented yet.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        not_there_yet(_FRONTEND, "TensorFlowKerasState")
