"""What every collective needs: a name, and options made once for each combination of arguments."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Union

from .. import _core
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Average, Compression

AnySet = Union[ProcessSet, int]
WORLD = global_process_set

_unnamed: defaultdict[tuple[str, int], Iterator[int]] = defaultdict(itertools.count)


def forget_names() -> None:
    """A new job counts its unnamed tensors from 0 again, on all ranks."""
    _unnamed.clear()


def name_of(name: str | None, collective: str, process_set: int) -> str:
    return name if name else f"{collective}.noname.{next(_unnamed[collective, process_set])}"


def group_names(name: str | None, collective: str, process_set: int, count: int) -> list[str]:
    group = name_of(name, collective, process_set)
    return [f"{group}.{i}" for i in range(count)]


def options_of(
    process_set: int,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: int = Compression.default,
    priority: int = 0,
    root_rank: int = 0,
) -> _core.Options:
    """The options of a collective; the same ones are made once."""
    # 0.0 and -0.0 are equal, but not the same; neither is worth a place.
    make = _made_once if prescale_factor and postscale_factor else _made
    return make(process_set, op, prescale_factor, postscale_factor, compression, priority, root_rank)


def _made(
    process_set: int,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    compression: int,
    priority: int,
    root_rank: int,
) -> _core.Options:
    return _core.Options(
        process_set=process_set,
        op=int(op),
        root_rank=root_rank,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        compression=int(compression),
        priority=priority,
    )


# By type too: 1.0 is no rank, whoever has asked for rank 1 before.
_made_once = functools.lru_cache(maxsize=4096, typed=True)(_made)
