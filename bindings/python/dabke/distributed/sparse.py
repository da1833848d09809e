"""The allreduce of sparse tensors, such as the gradients of sparse embeddings: an allgather of indices and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack

from .. import _core
from ..errors import UnsupportedError
from .reduce_ops import Reduction
from .tensors import described, movable

__all__ = ["allreduce_sparse"]

# The indices are those of tensors; later torch asks to say whether they are to be checked.
_TRUSTED: dict[str, Any] = {}
if hasattr(torch.sparse, "check_sparse_tensor_invariants"):
    _TRUSTED["check_invariants"] = False


def allreduce_sparse(
    tensor: torch.Tensor, reduction: Reduction, size: int, options: Any
) -> tuple[Callable[[str], _core.Handle], Callable[[_core.Handle], None]]:
    """What submits it under a name, and what makes the result of the gathered parts, in `tensor` itself."""
    if tensor.layout is not torch.sparse_coo or reduction.name not in ("sum", "avg"):
        raise UnsupportedError(f"allreduce: {reduction.name} of a tensor of layout {tensor.layout}")
    mine = tensor.detach().coalesce()
    indices = mine.indices().t().contiguous()
    values = mine.values().contiguous()

    def submit(name: str) -> _core.Handle:
        parts = [described(indices), described(movable(values))]
        return _core.grouped_allgather([f"{name}.indices", f"{name}.values"], parts, None, options)

    def put_in_place(handle: _core.Handle) -> None:
        all_indices = torch.utils.dlpack.from_dlpack(handle.output(0)).view(-1, indices.shape[1]).t()
        all_values = torch.utils.dlpack.from_dlpack(handle.output(1))
        scale = reduction.factor / size if reduction.name == "avg" else reduction.factor
        result = torch.sparse_coo_tensor(all_indices, all_values * scale, tensor.shape, **_TRUSTED)
        # Not into tensor.detach(), which has indices and values of its own.
        with torch.no_grad():
            tensor.copy_(result.coalesce())

    return submit, put_in_place
