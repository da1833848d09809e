"""The form in which float32 travels between hosts; the numbers are those of the C API."""

from __future__ import annotations

import enum

from . import _core

__all__ = ["Compression"]

_NUMBERS = _core.compressions()


class Compression(enum.IntEnum):
    """The form in which float32 travels between hosts in an allreduce; inside a host nothing is compressed.

    The same on all ranks. ``default`` is what DABKE_COMPRESSION says: none, unless it is set.
    """

    none = _NUMBERS["none"]
    fp16 = _NUMBERS["float16"]
    bf16 = _NUMBERS["bfloat16"]
    default = _NUMBERS["default"]

    __hash__ = int.__hash__  # as ReduceOp's
