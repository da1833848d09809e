"""Keras on PyTorch: gradients are tensors, and steps run eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]
import torch

import dabke.torch as hvd

from .adapter import Transfer

__all__ = ["Adapter"]


def _compact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous()


class Adapter:
    """The interface of ``adapter.py`` over ``dabke.torch``."""

    layer = hvd

    def complete(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        # The data decides which gradients exist, so another rank may have one that this rank lacks.
        return [
            torch.zeros_like(keras.ops.convert_to_tensor(variable)) if gradient is None else gradient
            for gradient, variable in zip(gradients, variables)
        ]

    def is_sparse(self, gradient: Any) -> bool:
        return isinstance(gradient, torch.Tensor) and gradient.is_sparse

    def to_dense(self, gradient: Any) -> Any:
        return gradient.to_dense()

    def reduce_sparse(self, gradient: Any, name: str, transfer: Transfer) -> Any:
        # Keras's optimizers take only dense gradients.
        with torch.no_grad():
            scaled = gradient * (transfer.prescale_factor * transfer.postscale_factor)
            return hvd.sparse_allreduce_async(scaled, name, transfer.op, transfer.process_set)().to_dense()

    def reduce_groups(
        self, groups: Sequence[Sequence[Any]], names: Sequence[str], transfer: Transfer
    ) -> list[list[Any]]:
        scales: dict[str, Any] = {
            "op": transfer.op,
            "prescale_factor": transfer.prescale_factor,
            "postscale_factor": transfer.postscale_factor,
            "process_set": transfer.process_set,
        }
        with torch.no_grad():
            inputs = [[_compact(each) for each in group] for group in groups]
            if transfer.compression is hvd.Compression.none:
                handles = [
                    hvd.grouped_allreduce_async(group, name=name, **scales)
                    for group, name in zip(inputs, names)
                ]
                return [list(hvd.synchronize(handle)) for handle in handles]
            return [
                list(hvd.grouped_allreduce(group, name=name, compression=transfer.compression, **scales))
                for group, name in zip(inputs, names)
            ]

    def branch(self, predicate: Any, taken: Callable[[], None], otherwise: Callable[[], None]) -> None:
        (taken if bool(predicate) else otherwise)()

    def finish(self, tensors: Sequence[Any]) -> None:
        """Does nothing: eager steps have run when they return."""

    def allreduce(self, value: Any, name: str | None, transfer: Transfer) -> Any:
        return hvd.allreduce(
            keras.ops.convert_to_tensor(value).contiguous(),
            name=name,
            compression=transfer.compression,
            op=transfer.op,
            prescale_factor=transfer.prescale_factor,
            postscale_factor=transfer.postscale_factor,
            process_set=transfer.process_set,
        )

    def allgather(self, value: Any, name: str | None) -> Any:
        return hvd.allgather(keras.ops.convert_to_tensor(value).contiguous(), name=name)

    def broadcast(self, value: Any, root_rank: int, name: str | None) -> Any:
        return hvd.broadcast(keras.ops.convert_to_tensor(value).contiguous(), root_rank, name=name)

    def reducescatter(self, value: Any, name: str | None, op: int) -> Any:
        return hvd.reducescatter(keras.ops.convert_to_tensor(value).contiguous(), name=name, op=op)

    def prepare(self, model: Any) -> None:
        """Does nothing: PyTorch's steps run collectives in any mode."""
