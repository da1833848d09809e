"""PyTorch's sparse COO tensors, made of the indices and values that an allgather has collected."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["average_of_integers", "no_rows", "parts_of", "sparse_tensor"]

# The indices come from tensors and need no check. Later versions of torch need an argument to skip it.
_TRUSTED: dict[str, Any] = {}
if hasattr(torch.sparse, "check_sparse_tensor_invariants"):
    _TRUSTED["check_invariants"] = False


def sparse_tensor(indices: torch.Tensor, values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Returns a tensor of `like`'s shape and device, not coalesced.

    Args:
        indices: valid indices, of shape [sparse dimensions, elements].
        values: the values, of shape [elements, the other dimensions of `like`].
    """
    return torch.sparse_coo_tensor(indices, values, like.size(), device=like.device, **_TRUSTED)


def parts_of(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the tensor's elements, coalesced or not, in the form for an allgather.

    Returns:
        the indices, of shape [elements, sparse dimensions], and the values, of shape [elements, the other
        dimensions]; both contiguous.
    """
    return tensor._indices().t().contiguous(), tensor._values().contiguous()


def no_rows(like: torch.Tensor, sparse_dimensions: int = 1) -> torch.Tensor:
    """Returns a sparse gradient of zeros. Gradients of embeddings have one sparse dimension."""
    values = torch.empty((0, *like.shape[sparse_dimensions:]), dtype=like.dtype, device=like.device)
    return sparse_tensor(torch.empty((sparse_dimensions, 0), dtype=torch.int64), values, like)


def average_of_integers(
    indices: torch.Tensor, values: torch.Tensor, like: torch.Tensor, ranks: int
) -> torch.Tensor:
    """Returns the average of the ranks' integers, like that of dense tensors: exact, then truncated.

    Returns:
        a coalesced tensor of the dtype of `values`.
    """
    total = sparse_tensor(indices, values.to(torch.int64), like).coalesce()  # the sum fits into int64
    total.values().div_(ranks, rounding_mode="trunc")
    return total.to(values.dtype)
