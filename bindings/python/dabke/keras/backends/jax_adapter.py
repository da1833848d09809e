"""Keras on JAX: steps are jitted functions without side effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

import dabke.jax as hvd

from ...errors import UnsupportedError
from .adapter import Transfer

__all__ = ["Adapter"]


def _arguments_of(transfer: Transfer) -> dict[str, Any]:
    # `none` leaves the choice to DABKE_COMPRESSION, as on the other backends.
    is_none = transfer.compression == hvd.Compression.none
    return {
        "op": transfer.op,
        "prescale_factor": transfer.prescale_factor,
        "postscale_factor": transfer.postscale_factor,
        "compression": hvd.Compression.default if is_none else transfer.compression,
        "process_set": transfer.process_set,
    }


class Adapter:
    """The interface of ``adapter.py`` over ``dabke.jax``."""

    layer = hvd

    def complete(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        return list(gradients)  # JAX makes every gradient

    def is_sparse(self, gradient: Any) -> bool:
        return False

    def to_dense(self, gradient: Any) -> Any:
        return gradient

    def reduce_sparse(self, gradient: Any, name: str, transfer: Transfer) -> Any:
        raise UnsupportedError(f"'{name}': JAX has no sparse gradients")

    def reduce_groups(
        self, groups: Sequence[Sequence[Any]], names: Sequence[str], transfer: Transfer
    ) -> list[list[Any]]:
        return [
            list(hvd.allreduce(list(group), name=name, **_arguments_of(transfer)))
            for group, name in zip(groups, names)
        ]

    def branch(self, predicate: Any, taken: Callable[[], None], otherwise: Callable[[], None]) -> None:
        if isinstance(predicate, jax.core.Tracer):
            raise UnsupportedError(
                "optimizer.apply with backward_passes_per_step cannot be traced; "
                "use optimizer.stateless_apply"
            )
        (taken if bool(predicate) else otherwise)()

    def finish(self, tensors: Sequence[Any]) -> None:
        block: Any = jax.block_until_ready
        block(list(tensors))

    def allreduce(self, value: Any, name: str | None, transfer: Transfer) -> Any:
        return hvd.allreduce(keras.ops.convert_to_tensor(value), name=name, **_arguments_of(transfer))

    def allgather(self, value: Any, name: str | None) -> Any:
        return hvd.allgather(keras.ops.convert_to_tensor(value), name=name)

    def broadcast(self, value: Any, root_rank: int, name: str | None) -> Any:
        return hvd.broadcast(keras.ops.convert_to_tensor(value), root_rank, name=name)

    def reducescatter(self, value: Any, name: str | None, op: int) -> Any:
        return hvd.reducescatter(keras.ops.convert_to_tensor(value), op=op, name=name)

    def prepare(self, model: Any) -> None:
        """Does nothing: jitted steps run collectives."""
