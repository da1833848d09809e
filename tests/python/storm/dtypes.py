"""The dtypes of a storm: numbers as NumPy has them, and their bytes as PyTorch stores them.

Bytes are rows: an array of uint8 with one row for each element.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Dtype:
    name: str  # as torch names it
    kind: str  # f: real, i and u: integers, b: bool, c: complex, x: moved only
    size: int  # bytes
    digits: int = 0  # of a real number's significand, in bits

    @property
    def is_inexact(self):
        return self.kind in "fc"

    @property
    def can_negate(self):
        """True if PyTorch can have a view of the negative numbers."""
        return self.kind in "fi" or self.name in ("complex64", "complex128")


DTYPES = {
    each.name: each
    for each in [
        Dtype("float16", "f", 2, 11),
        Dtype("bfloat16", "f", 2, 8),
        Dtype("float32", "f", 4, 24),
        Dtype("float64", "f", 8, 53),
        Dtype("int8", "i", 1),
        Dtype("int16", "i", 2),
        Dtype("int32", "i", 4),
        Dtype("int64", "i", 8),
        Dtype("uint8", "u", 1),
        Dtype("uint16", "u", 2),
        Dtype("uint32", "u", 4),
        Dtype("uint64", "u", 8),
        Dtype("bool", "b", 1),
        Dtype("complex64", "c", 8, 24),
        Dtype("complex128", "c", 16, 53),
        Dtype("complex32", "x", 4),
        Dtype("float8_e4m3fn", "x", 1),
        Dtype("float8_e5m2", "x", 1),
    ]
}
REDUCIBLE = [name for name, each in DTYPES.items() if each.kind != "x"]


def encode(name, numbers):
    """Returns the rows of numbers that the dtype can represent."""
    if name == "bfloat16":
        bits = np.asarray(numbers, np.float32).reshape(-1).view(np.uint32)
        return rows_of((bits >> 16).astype(np.uint16))
    return rows_of(np.asarray(numbers).reshape(-1).astype(name))


def decode(name, rows):
    """Returns the numbers: float64, complex128, bool, or integers of the dtype."""
    flat = np.ascontiguousarray(rows).reshape(-1)
    if name == "bfloat16":
        return (flat.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    numbers = flat.view(name)
    kind = DTYPES[name].kind
    return numbers.astype(np.float64 if kind == "f" else np.complex128) if kind in "fc" else numbers


def rounded(name, numbers):
    """Returns numbers that the dtype can represent, near the given ones."""
    return decode(name, encode(name, numbers)) if DTYPES[name].is_inexact else numbers


def rows_of(array):
    array = np.ascontiguousarray(array)
    return array.view(np.uint8).reshape(array.size, array.itemsize)


def negated(name, rows):
    """Returns the rows of the negative numbers."""
    dtype = DTYPES[name]
    if dtype.kind in "iu":
        return rows_of(np.negative(decode(name, rows)))
    changed = rows.copy()
    changed[:, dtype.size - 1] ^= 0x80
    if dtype.kind == "c":
        changed[:, dtype.size // 2 - 1] ^= 0x80
    return changed


def conjugated(name, rows):
    changed = rows.copy()
    changed[:, DTYPES[name].size - 1] ^= 0x80
    return changed
