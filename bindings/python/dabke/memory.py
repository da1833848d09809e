"""Memory that ranks of one host reduce in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import _core
from .arrays import Array, view_of_bytes

__all__ = ["alloc"]


def alloc(shape: int | Sequence[int], dtype: Any = "float32") -> Array:
    """Returns an array in memory that ranks of one host share. It is not zeroed.

    An allreduce of tensors that lie in such memory on all ranks needs no copies. Most other collectives save
    one copy. The memory may be mixed with other memory, allocated before ``init``, and used after
    ``shutdown``. It is freed with the last array that refers to it. A forked child sees the parent's memory
    itself, and must not use it for collectives.

    Args:
        shape: the dimensions, in elements; a number is a single dimension.
        dtype: a dtype of NumPy, or its name.

    Returns:
        an array of this shape, row-major; a memoryview if NumPy is not installed.

    Raises:
        OutOfMemoryError: the host does not have enough memory.
    """
    dims = (shape,) if isinstance(shape, int) else tuple(int(each) for each in shape)
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", "")
    if name not in _core.dtypes():
        import numpy

        name = numpy.dtype(dtype).name
    array: Array = view_of_bytes(_core.Memory(math.prod(dims) * _core.dtype_bytes(name)), dims, name)
    return array
