"""Reduce operations, made of the arguments of the collectives."""

from __future__ import annotations

import warnings

from ..errors import InvalidArgumentError, UnimplementedError
from ..reduce_ops import Adasum, Average, Sum

__all__ = ["reduce_op", "refuse_adasum"]


def refuse_adasum(call: str, op: int) -> None:
    """Raises UnimplementedError for ``op=Adasum``."""
    if op == Adasum:
        raise UnimplementedError(f"{call}: op=Adasum is not supported yet; use op=Average")


def reduce_op(call: str, op: int | None, average: bool | None) -> int:
    """The operation that `op` or the older `average` asks for; an average when neither is given.

    Raises:
        InvalidArgumentError: both are given.
        UnimplementedError: `op` is Adasum.
    """
    if average is None:
        chosen = int(Average if op is None else op)
        refuse_adasum(call, chosen)
        return chosen
    if op is not None:
        raise InvalidArgumentError(f"{call}: op and average are both given; pass only op")
    warnings.warn("average is deprecated; pass op=Average or op=Sum", DeprecationWarning, stacklevel=4)
    return int(Average if average else Sum)
