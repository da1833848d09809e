"""The allreduce of sparse tensors, such as gradients of sparse embeddings, by an allgather of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack

from ... import _core
from ...errors import UnsupportedError
from ..sparse_tensors import average_of_integers, parts_of, sparse_tensor
from ..tensors import descriptor_of
from .reduce_ops import Reduction
from .tensors import as_movable

__all__ = ["allreduce_sparse"]


def allreduce_sparse(
    tensor: torch.Tensor, reduction: Reduction, size: int, options: Any
) -> tuple[Callable[[str], _core.Handle], Callable[[_core.Handle], None]]:
    """Returns two functions: one submits the tensor under a name, the other writes the result into `tensor`.

    The result is made of the gathered indices and values.
    """
    if tensor.layout is not torch.sparse_coo or reduction.name not in ("sum", "avg"):
        raise UnsupportedError(f"allreduce: {reduction.name} is not supported for layout {tensor.layout}")
    indices, values = parts_of(tensor.detach().coalesce())
    is_complex = values.is_complex()
    is_bool = values.dtype == torch.bool
    sent = torch.view_as_real(values.resolve_conj()) if is_complex else values
    if is_bool:
        sent = values.view(torch.uint8)  # PyTorch 1.13 does not take bool from DLPack

    def submit(name: str) -> _core.Handle:
        parts = [descriptor_of(indices), descriptor_of(as_movable(sent))]
        return _core.grouped_allgather([f"{name}.indices", f"{name}.values"], parts, None, options)

    def sum_of_integers(all_indices: torch.Tensor, all_values: torch.Tensor) -> torch.Tensor:
        """Sums integers without floats, which would lose digits, unless there is a factor."""
        if reduction.factor != 1:
            all_values = (all_values.to(torch.float64) * reduction.factor).to(values.dtype)
        if reduction.name == "avg" and not is_bool:
            return average_of_integers(all_indices, all_values, tensor, size)
        return sparse_tensor(all_indices, all_values, tensor).coalesce()

    def put_in_place(handle: _core.Handle) -> None:
        all_indices = torch.utils.dlpack.from_dlpack(handle.output(0)).view(-1, indices.shape[1]).t()
        all_values = torch.utils.dlpack.from_dlpack(handle.output(1))
        if is_complex:
            all_values = torch.view_as_complex(all_values)
        elif is_bool:
            all_values = all_values.view(torch.bool)
        if is_complex or values.is_floating_point():
            scale = reduction.factor / size if reduction.name == "avg" else reduction.factor
            result = sparse_tensor(all_indices, all_values * scale, tensor).coalesce()
        else:
            result = sum_of_integers(all_indices, all_values)
        # Not into tensor.detach(): it has indices and values of its own.
        with torch.no_grad():
            tensor.copy_(result)

    return submit, put_in_place
