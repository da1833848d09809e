"""The collectives that take tensors: a row each, from which the wrappers of all frameworks are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _core

__all__ = [
    "ALLGATHER",
    "ALLREDUCE",
    "ALLTOALL",
    "BROADCAST",
    "Collective",
    "REDUCESCATTER",
    "Submit",
    "SubmitBy",
    "directly",
]

# A function of the compiled part that submits.
Submit = Callable[..., _core.Handle]
# Calls such a function with its arguments. A frontend's own may note the call in a profile.
SubmitBy = Callable[..., _core.Handle]


def directly(function: Submit, *arguments: Any) -> _core.Handle:
    """Calls the function and does nothing else."""
    return function(*arguments)


class Collective(NamedTuple):
    """The facts of a collective that its wrappers need.

    Attributes:
        name: begins the names of unnamed tensors, and stands in messages.
        submit: the compiled part's function of one tensor.
        submit_group: that of several tensors; None where there is none.
        keeps_shape: whether the result has its input's shape. Memory for it is made before the call then, or is the
            input's own; any other result is memory of the runtime unless the caller gives some.
    """

    name: str
    submit: Submit
    submit_group: Submit | None
    keeps_shape: bool

    @property
    def group_name(self) -> str:
        """Begins the names of unnamed groups, and stands in messages."""
        return f"grouped_{self.name}"


ALLREDUCE = Collective("allreduce", _core.allreduce, _core.grouped_allreduce, keeps_shape=True)
ALLGATHER = Collective("allgather", _core.allgather, _core.grouped_allgather, keeps_shape=False)
BROADCAST = Collective("broadcast", _core.broadcast, None, keeps_shape=True)
ALLTOALL = Collective("alltoall", _core.alltoall, None, keeps_shape=False)
REDUCESCATTER = Collective(
    "reducescatter", _core.reducescatter, _core.grouped_reducescatter, keeps_shape=False
)
