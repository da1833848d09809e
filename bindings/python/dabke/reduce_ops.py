"""The reduce operations and compressions; their numbers are those of the C API, and Horovod's where it has them."""

from __future__ import annotations

import enum
from typing import Final

from . import _core

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
    """The operation of a reduction on the ranks' elements. The bitwise ones are for integers and bool."""

    AVERAGE = _core.reduce_ops["AVERAGE"]
    SUM = _core.reduce_ops["SUM"]
    ADASUM = _core.reduce_ops["ADASUM"]
    MIN = _core.reduce_ops["MIN"]
    MAX = _core.reduce_ops["MAX"]
    PRODUCT = _core.reduce_ops["PRODUCT"]
    BITWISE_AND = _core.reduce_ops["BITWISE_AND"]
    BITWISE_OR = _core.reduce_ops["BITWISE_OR"]
    BITWISE_XOR = _core.reduce_ops["BITWISE_XOR"]

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
    """The form in which float32 travels between hosts in an allreduce; inside a host nothing is compressed.

    The same on all ranks. ``default`` is what DABKE_COMPRESSION says: none, unless it is set.
    """

    none = _core.compressions["NONE"]
    fp16 = _core.compressions["FLOAT16"]
    bf16 = _core.compressions["BFLOAT16"]
    default = _core.compressions["DEFAULT"]

    __hash__ = int.__hash__
