"""The reduce operations and compressions; their numbers are those of the C API, and Horovod's where it has them."""

from __future__ import annotations

import enum
from typing import Final

__all__ = [
    "Adasum",
    "Average",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Compression",
    "Max",
    "Min",
    "Product",
    "ReduceOp",
    "Sum",
]


class ReduceOp(enum.IntEnum):
    """What an allreduce or reducescatter does with the ranks' elements. The bitwise ones are for integers and bool."""

    AVERAGE = 0
    SUM = 1
    ADASUM = 2
    MIN = 3
    MAX = 4
    PRODUCT = 5
    BITWISE_AND = 6
    BITWISE_OR = 7
    BITWISE_XOR = 8

    __hash__ = int.__hash__  # options are looked up by it at each submit; Enum's own takes a tenth of that


Average: Final = ReduceOp.AVERAGE
Sum: Final = ReduceOp.SUM
Adasum: Final = ReduceOp.ADASUM
Min: Final = ReduceOp.MIN
Max: Final = ReduceOp.MAX
Product: Final = ReduceOp.PRODUCT
BitwiseAnd: Final = ReduceOp.BITWISE_AND
BitwiseOr: Final = ReduceOp.BITWISE_OR
BitwiseXor: Final = ReduceOp.BITWISE_XOR


class Compression(enum.IntEnum):
    """What float32 travels as between hosts in an allreduce; inside a host nothing is compressed.

    The same on all ranks. ``default`` is what DABKE_COMPRESSION says: none, unless it is set.
    """

    none = 0
    fp16 = 1
    bf16 = 2
    default = 3

    __hash__ = int.__hash__
