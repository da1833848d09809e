"""Reduce operations and options, made of the arguments of the collectives."""

from __future__ import annotations

import warnings

from .. import _core
from .._frontend.names import prefixed_group_names, prefixed_name
from .._frontend.options import AnySet, CallOptions
from ..compression import Compression
from ..errors import InvalidArgumentError
from ..process_sets import set_id_of
from ..reduce_ops import Average, Sum

__all__ = [
    "AnySet",
    "CallOptions",
    "options_of",
    "prefixed_group_names",
    "prefixed_name",
    "reduce_op",
    "set_id_of",
]


def reduce_op(op: int | None, average: bool | None) -> int:
    """Returns the operation that `op` or the older `average` selects; Average if both are None."""
    if average is None:
        return int(Average if op is None else op)
    if op is not None:
        raise InvalidArgumentError("op and average are both given; pass only op")
    warnings.warn("average is deprecated; pass op=Average or op=Sum", DeprecationWarning, stacklevel=4)
    return int(Average if average else Sum)


# A dict instead of functools.lru_cache, which other frontends use, because torch.compile cannot trace that.
_made: dict[tuple[float, ...], CallOptions] = {}
_MOST = 4096


def options_of(
    process_set: int = _core.WORLD,
    op: int = int(Average),
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: int = int(Compression.default),
    root_rank: int = 0,
    call_sequence: int = 0,
) -> CallOptions:
    """Returns the options of a call. Equal arguments give the same object."""
    key = (process_set, op, prescale_factor, postscale_factor, compression, 0, root_rank, call_sequence)
    if not prescale_factor or not postscale_factor:  # 0.0 and -0.0 are equal keys for different options
        return CallOptions(*key)
    found = _made.get(key)
    if found is None:
        if len(_made) >= _MOST:
            _made.clear()
        found = _made[key] = CallOptions(*key)
    return found
