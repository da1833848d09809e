"""The reduce operations. Their numbers are those of the C API, and Horovod's where Horovod has them."""

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
    "Max",
    "Min",
    "Product",
    "ReduceOp",
    "Sum",
]

_NUMBERS = _core.reduce_ops()


class ReduceOp(enum.IntEnum):
    """The operation of a reduction. The bitwise operations are for integers and bool."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return _NUMBERS[name.lower()]

    AVERAGE = enum.auto()
    SUM = enum.auto()
    ADASUM = enum.auto()
    MIN = enum.auto()
    MAX = enum.auto()
    PRODUCT = enum.auto()
    BITWISE_AND = enum.auto()
    BITWISE_OR = enum.auto()
    BITWISE_XOR = enum.auto()

    __hash__ = int.__hash__  # computed at each submit; Enum's own hash would take a tenth of the submit


Average: Final = ReduceOp.AVERAGE
Sum: Final = ReduceOp.SUM
Adasum: Final = ReduceOp.ADASUM
Min: Final = ReduceOp.MIN
Max: Final = ReduceOp.MAX
Product: Final = ReduceOp.PRODUCT
BitwiseAnd: Final = ReduceOp.BITWISE_AND
BitwiseOr: Final = ReduceOp.BITWISE_OR
BitwiseXor: Final = ReduceOp.BITWISE_XOR
