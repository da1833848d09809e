"""The collectives that take tensors: a row for each, from which the wrappers of all frameworks are built."""

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

# A function of the compiled part that submits tensors.
Submit = Callable[..., _core.Handle]
# A function that calls a Submit with its arguments. That of a frontend may also note the call in a profile.
SubmitBy = Callable[..., _core.Handle]


def directly(function: Submit, *arguments: Any) -> _core.Handle:
    """Calls the function and does nothing else."""
    return function(*arguments)


class Collective(NamedTuple):
    """The facts of a collective that its wrappers need.

    Attributes:
        name: the name in messages, and at the beginning of the names of unnamed tensors.
        submit: the compiled part's function for one tensor.
        submit_group: the compiled part's function for several tensors; None if it lacks one.
        keeps_shape: True if the result has its input's shape. The memory of such a result is made before the
            call, or is the input's own. Any other result is memory of the runtime, unless the caller gives
            memory.
    """

    name: str
    submit: Submit
    submit_group: Submit | None
    keeps_shape: bool

    @property
    def group_name(self) -> str:
        """The name in messages, and at the beginning of the names of unnamed groups."""
        return f"grouped_{self.name}"


ALLREDUCE = Collective("allreduce", _core.allreduce, _core.grouped_allreduce, keeps_shape=True)
ALLGATHER = Collective("allgather", _core.allgather, _core.grouped_allgather, keeps_shape=False)
BROADCAST = Collective("broadcast", _core.broadcast, None, keeps_shape=True)
ALLTOALL = Collective("alltoall", _core.alltoall, None, keeps_shape=False)
REDUCESCATTER = Collective(
    "reducescatter", _core.reducescatter, _core.grouped_reducescatter, keeps_shape=False
)
