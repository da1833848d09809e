"""The interface of an adapter: the few functions in which Keras's backends differ for this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

__all__ = ["Adapter", "Transfer"]


@dataclass(frozen=True)
class Transfer:
    """The arguments of an allreduce, except its tensors and their name.

    Attributes:
        op: the number of the ``ReduceOp``.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        compression: a compressor of the framework's layer.
        process_set: the runtime's number of the set.
    """

    op: int
    prescale_factor: float
    postscale_factor: float
    compression: Any
    process_set: int


class Adapter(Protocol):
    """The collectives of one framework, on the tensors that Keras passes on that backend.

    Tensors may be symbolic: all but `branch` are also called while a step is traced.

    Attributes:
        layer: Dabke's layer for the framework, such as ``dabke.torch``.
    """

    layer: ModuleType

    def complete(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Returns the gradients in a form that is equal on all ranks.

        A gradient stays None if it is None on every rank. Where ranks may differ, None becomes zeros.
        """

    def is_sparse(self, gradient: Any) -> bool:
        """Returns True for a gradient that has only some rows of its variable."""

    def to_dense(self, gradient: Any) -> Any:
        """Returns a sparse gradient as a tensor of its variable's shape."""

    def reduce_sparse(self, gradient: Any, name: str, transfer: Transfer) -> Any:
        """Returns the reduced form of one sparse gradient."""

    def reduce_groups(
        self, groups: Sequence[Sequence[Any]], names: Sequence[str], transfer: Transfer
    ) -> list[list[Any]]:
        """Returns the reduced tensors. Each group is one operation; all are in flight at once if possible."""

    def branch(self, predicate: Any, taken: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """Calls one of two functions, which change variables. In a graph both become parts of it."""

    def finish(self, tensors: Sequence[Any]) -> None:
        """Waits until the steps that compute these tensors have run."""

    def allreduce(self, value: Any, name: str | None, transfer: Transfer) -> Any:
        """Returns the reduced tensor of one value."""

    def allgather(self, value: Any, name: str | None) -> Any:
        """Returns the rows of all ranks."""

    def broadcast(self, value: Any, root_rank: int, name: str | None) -> Any:
        """Returns the tensor of one rank."""

    def reducescatter(self, value: Any, name: str | None, op: int) -> Any:
        """Returns this rank's rows of the reduced tensor."""

    def prepare(self, model: Any) -> None:
        """Changes settings of a model with which its training step could not run collectives."""
