"""PyTorch's sparse COO tensors, made of the indices and values that an allgather has brought together."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["average_of_integers", "no_rows", "sparse_tensor"]

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


def no_rows(like: torch.Tensor) -> torch.Tensor:
    """A sparse gradient of zeros, of rows as an embedding gives them."""
    values = torch.empty((0, *like.shape[1:]), dtype=like.dtype, device=like.device)
    return sparse_tensor(torch.empty((1, 0), dtype=torch.int64), values, like)


def average_of_integers(indices: torch.Tensor, values: torch.Tensor, like: torch.Tensor, ranks: int) -> torch.Tensor:
    """What `ranks` ranks gave, added and divided by their number, as the average of dense integers: truncated, with all digits.

    Returns:
        a coalesced tensor of the dtype of `values`.
    """
    total = sparse_tensor(indices, values.to(torch.int64), like).coalesce()  # in which the sum has room
    total.values().div_(ranks, rounding_mode="trunc")
    return total.to(values.dtype)
