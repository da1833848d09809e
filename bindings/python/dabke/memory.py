"""Memory that ranks of one host work on in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Union

from . import _core
from .arrays import item_bytes, view_of_bytes

__all__ = ["alloc"]


def alloc(shape: Union[int, Sequence[int]], dtype: Any = "float32") -> Any:
    """An array in memory that ranks of one host share; not zeroed.

    An allreduce of tensors that lie in it on all ranks needs no copies, and allgather, broadcast and reducescatter
    save one. It may be mixed with other memory in any way, made before ``init``, and used after ``shutdown``. It is
    freed with the last array that refers to it. A forked child sees the parent's memory itself and must not use it for
    collectives.

    Raises OutOfMemoryError.
    """
    dims = (shape,) if isinstance(shape, int) else tuple(int(each) for each in shape)
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", "")
    if name not in _core.dtypes:
        import numpy

        name = numpy.dtype(dtype).name
    return view_of_bytes(_core.Memory(math.prod(dims) * item_bytes(name)), dims, name)
