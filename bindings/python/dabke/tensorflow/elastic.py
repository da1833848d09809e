"""Horovod's names for elastic training. They can be imported; what they do is still to come."""

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
    """To be the decorator of an elastic training function.

    Args:
        func: takes a state as its first argument.

    Raises:
        UnimplementedError: always.
    """
    not_there_yet(_FRONTEND, "run")


class TensorFlowState:
    """To be what an elastic job keeps of variables.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        not_there_yet(_FRONTEND, "TensorFlowState")


class TensorFlowKerasState:
    """To be what an elastic job keeps of a Keras model and its optimizer.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        not_there_yet(_FRONTEND, "TensorFlowKerasState")
