"""Elastic training: the state and the loop, with Horovod's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dabke._frontend import elastic

__all__ = ["ObjectState", "State", "run_fn"]


def run_fn(func: Callable[..., Any], reset: Any = None) -> Callable[..., Any]:
    """Decorates a training function that goes on when ranks are lost or come, as ``hvd.elastic.run`` does.

    Args:
        func: a function that takes a state as its first argument.
        reset: ignored: the loop itself goes to the next epoch of the job.
    """
    return elastic.run(func)


class State(elastic.State):
    """The base class of states.

    Args:
        bcast_object: ignored; the state travels by Dabke's own sync.
        get_rank: ignored.
    """

    def __init__(self, bcast_object: Any = None, get_rank: Any = None) -> None:
        super().__init__()


class ObjectState(elastic.ObjectState):
    """A state whose attributes are any objects that can be copied and pickled.

    Args:
        bcast_object: ignored; the state travels by Dabke's own sync.
        get_rank: ignored.
        kwargs: the attributes with their first values.
    """

    def __init__(self, bcast_object: Any = None, get_rank: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
