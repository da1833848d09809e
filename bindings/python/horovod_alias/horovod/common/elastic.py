"""Elastic training, which is not implemented yet."""

from __future__ import annotations

from typing import Any

from dabke._frontend.elastic import not_there_yet

__all__ = ["ObjectState", "State", "run_fn"]


def run_fn(func: Any, reset: Any = None) -> Any:
    """Will run an elastic training function. Not implemented yet.

    Args:
        func: a function that takes a state as its first argument.
        reset: a function that starts the job again.

    Raises:
        UnimplementedError: always.
    """
    not_there_yet("horovod.common", "run_fn")


class State:
    """Will hold the state of an elastic job. Not implemented yet.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        not_there_yet("horovod.common", type(self).__name__)


class ObjectState(State):
    """Will hold objects in an elastic job. Not implemented yet."""
