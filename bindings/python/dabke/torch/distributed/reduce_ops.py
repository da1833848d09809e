"""The runtime's reduce operations for those of torch.distributed."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from ... import reduce_ops as ours
from ...errors import UnsupportedError

__all__ = ["Reduction", "reduction_of"]


class Reduction(NamedTuple):
    """A reduction. `op` is the runtime's number. The factor multiplies each rank's elements before."""

    name: str
    op: int
    factor: float = 1.0


_BY_NAME = {
    "SUM": Reduction("sum", int(ours.Sum)),
    "AVG": Reduction("avg", int(ours.Average)),
    "PRODUCT": Reduction("product", int(ours.Product)),
    "MIN": Reduction("min", int(ours.Min)),
    "MAX": Reduction("max", int(ours.Max)),
    "BAND": Reduction("band", int(ours.BitwiseAnd)),
    "BOR": Reduction("bor", int(ours.BitwiseOr)),
    "BXOR": Reduction("bxor", int(ours.BitwiseXor)),
}
_KINDS = {getattr(dist.ReduceOp.RedOpType, name): row for name, row in _BY_NAME.items()}
_PREMUL_SUM = getattr(dist.ReduceOp.RedOpType, "PREMUL_SUM")  # torch's type stubs lack it
_LINEAR = ("sum", "avg")


def reduction_of(call: str, options: Any, tensor: torch.Tensor) -> Reduction:
    """Returns the reduction that the options of a call select. A ReduceOp works, too; None is the sum.

    Raises:
        UnsupportedError: the tensor's dtype does not support the reduction.
    """
    wanted = getattr(options, "reduceOp", options)
    kind = getattr(wanted, "op", wanted)
    if kind is None:
        return _BY_NAME["SUM"]
    if kind == _PREMUL_SUM:
        return Reduction("sum", int(ours.Sum), _factor_of(call, wanted))
    row = _KINDS[kind]
    if tensor.is_complex() and row.name not in _LINEAR:
        raise UnsupportedError(f"{call}: {row.name} of complex numbers is not supported; use sum or average")
    return row


def _factor_of(call: str, op: Any) -> float:
    factor = getattr(op, "factor", None)
    if factor is None:
        raise NotImplementedError(f"{call}: this version of torch does not give the factor of a PREMUL_SUM")
    return float(factor)
