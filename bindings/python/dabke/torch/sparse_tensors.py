"""PyTorch's sparse COO tensors, made of the indices and values that an allgather has brought together."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["average_of_integers", "no_rows", "parts_of", "sparse_tensor"]

# The indices are those of tensors; later torch asks to say whether they are to be checked.
_TRUSTED: dict[str, Any] = {}
if hasattr(torch.sparse, "check_sparse_tensor_invariants"):
    _TRUSTED["check_invariants"] = False


def sparse_tensor(indices: torch.Tensor, values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The tensor of `like`'s shape and device, not coalesced.

    Args:
        indices: known to be good, of shape [sparse dimensions, elements].
        values: of shape [elements, the other dimensions of `like`].
    """
    return torch.sparse_coo_tensor(indices, values, like.size(), device=like.device, **_TRUSTED)


def parts_of(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Its elements, coalesced or not, as an allgather takes them.

    Returns:
        the indices, of shape [elements, sparse dimensions], and the values, [elements, the other dimensions], contiguous.
    """
    return tensor._indices().t().contiguous(), tensor._values().contiguous()


def no_rows(like: torch.Tensor, sparse_dimensions: int = 1) -> torch.Tensor:
    """A sparse gradient of zeros; one sparse dimension is what an embedding gives."""
    values = torch.empty((0, *like.shape[sparse_dimensions:]), dtype=like.dtype, device=like.device)
    return sparse_tensor(torch.empty((sparse_dimensions, 0), dtype=torch.int64), values, like)


def average_of_integers(
    indices: torch.Tensor, values: torch.Tensor, like: torch.Tensor, ranks: int
) -> torch.Tensor:
    """The average of the ranks' integers, as that of dense ones: truncated, with all digits.

    Returns:
        a coalesced tensor of the dtype of `values`.
    """
    total = sparse_tensor(indices, values.to(torch.int64), like).coalesce()  # in which the sum has room
    total.values().div_(ranks, rounding_mode="trunc")
    return total.to(values.dtype)
