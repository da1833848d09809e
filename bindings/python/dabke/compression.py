"""The form in which float32 travels between hosts; the numbers are those of the C API."""

from __future__ import annotations

import enum

from . import _core

__all__ = ["Compression"]

_NUMBERS = _core.compressions()


class Compression(enum.IntEnum):
    """The form in which float32 travels between hosts in an allreduce. Inside a host nothing is compressed.

    It must be the same on all ranks. ``default`` is the value of DABKE_COMPRESSION; none if that is not set.
    """

    none = _NUMBERS["none"]
    fp16 = _NUMBERS["float16"]
    bf16 = _NUMBERS["bfloat16"]
    default = _NUMBERS["default"]

    __hash__ = int.__hash__  # for the same reason as in ReduceOp
