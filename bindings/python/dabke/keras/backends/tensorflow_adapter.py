"""Keras on TensorFlow: steps run as a tf.function, or eagerly."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]
import tensorflow as tf  # type: ignore[import-untyped,import-not-found,unused-ignore]

import dabke.tensorflow as hvd

from .adapter import Transfer

__all__ = ["Adapter"]


def _arguments_of(transfer: Transfer) -> dict[str, Any]:
    return {
        "op": transfer.op,
        "prescale_factor": transfer.prescale_factor,
        "postscale_factor": transfer.postscale_factor,
        "compression": transfer.compression,
        "process_set": transfer.process_set,
    }


class Adapter:
    """The interface of ``adapter.py`` over ``dabke.tensorflow``."""

    layer = hvd

    def complete(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        return list(gradients)  # the graph decides which gradients exist, and it is equal on all ranks

    def is_sparse(self, gradient: Any) -> bool:
        return isinstance(gradient, tf.IndexedSlices)

    def to_dense(self, gradient: Any) -> Any:
        return tf.convert_to_tensor(gradient)

    def reduce_sparse(self, gradient: Any, name: str, transfer: Transfer) -> Any:
        return hvd.allreduce(gradient, name=name, **_arguments_of(transfer))

    def reduce_groups(
        self, groups: Sequence[Sequence[Any]], names: Sequence[str], transfer: Transfer
    ) -> list[list[Any]]:
        return [
            list(hvd.grouped_allreduce(list(group), name=name, **_arguments_of(transfer)))
            for group, name in zip(groups, names)
        ]

    def branch(self, predicate: Any, taken: Callable[[], None], otherwise: Callable[[], None]) -> None:
        keras.ops.cond(predicate, taken, otherwise)

    def finish(self, tensors: Sequence[Any]) -> None:
        """Does nothing: ``fit`` has read results of the last step."""

    def allreduce(self, value: Any, name: str | None, transfer: Transfer) -> Any:
        return hvd.allreduce(keras.ops.convert_to_tensor(value), name=name, **_arguments_of(transfer))

    def allgather(self, value: Any, name: str | None) -> Any:
        return hvd.allgather(keras.ops.convert_to_tensor(value), name=name)

    def broadcast(self, value: Any, root_rank: int, name: str | None) -> Any:
        return hvd.broadcast(keras.ops.convert_to_tensor(value), root_rank, name=name)

    def reducescatter(self, value: Any, name: str | None, op: int) -> Any:
        return hvd.reducescatter(keras.ops.convert_to_tensor(value), op=op, name=name)

    def prepare(self, model: Any) -> None:
        if not getattr(model, "jit_compile", False):
            return
        model.jit_compile = False
        model.train_function = None
        if hvd.rank() == 0:
            warnings.warn(
                f"the training step of the model '{model.name}' runs without XLA, which cannot compile the "
                "reduction of its gradients; compile the model with jit_compile=False to avoid this notice",
                stacklevel=2,
            )
