"""What the arguments of the collectives mean: names, reduce operations, and the options made of them."""

from __future__ import annotations

import math
import warnings
from typing import Optional, Union

from .. import _core
from .._frontend import options as calls
from ..errors import InvalidArgumentError
from ..process_sets import ProcessSet, set_id_of
from ..reduce_ops import Average, ReduceOp, Sum

AnySet = Union[ProcessSet, int]


def name_of(collective: str, name: Optional[str], process_set: int) -> str:
    """``<collective>.<name>``, as it is in timelines and errors; without a name ``<collective>.noname.<n>``.

    n counts the unnamed ones of the collective and the process set, so it is the same on all its ranks when these
    submit them in the same order.
    """
    return f"{collective}.{name}" if name else calls.name_of(None, collective, process_set)


def names_of_group(collective: str, name: Optional[str], process_set: int, count: int) -> list[str]:
    """The group's name with ``_<i>of<count>`` for each member."""
    group = name_of(collective, name, process_set)
    return [f"{group}_{i}of{count}" for i in range(1, count + 1)]


def reduce_op(op: Optional[int], average: Optional[bool]) -> int:
    """The operation that `op` or the older `average` asks for; an average when neither is given."""
    if average is None:
        return int(Average if op is None else op)
    if op is not None:
        raise InvalidArgumentError("op and average both say how to reduce; pass op alone")
    warnings.warn("average is deprecated; pass op=Average or op=Sum", DeprecationWarning, stacklevel=4)
    return int(Average if average else Sum)


# No functools.lru_cache, which torch.compile does not follow.
_made: dict[tuple[float, ...], _core.Options] = {}
_MOST = 4096


def options(
    process_set: int,
    op: int = int(ReduceOp.AVERAGE),
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: int = 3,
    root_rank: int = 0,
    stream: int = 0,
) -> _core.Options:
    """The options of a collective; the same ones are made once."""
    signs = math.copysign(1, prescale_factor), math.copysign(1, postscale_factor)  # 0.0 == -0.0
    key = (process_set, op, prescale_factor, postscale_factor, *signs, compression, root_rank, stream)
    found = _made.get(key)
    if found is None:
        if len(_made) >= _MOST:
            _made.clear()
        found = _made[key] = _core.Options(
            process_set=process_set,
            op=op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            compression=compression,
            root_rank=root_rank,
            stream=stream,
        )
    return found


__all__ = ["AnySet", "name_of", "names_of_group", "options", "reduce_op", "set_id_of"]
