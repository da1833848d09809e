"""Gradients that travel with fewer bits.

``Compression.fp16`` and ``Compression.bf16`` leave float32 tensors as they are. The runtime rounds what goes
between hosts; inside a host nothing is rounded, and the sum is made in float32. Other dtypes, and other
collectives than allreduce, are cast before and back after.

A compressor of one's own is a class with the two static methods of ``Compressor``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf  # type: ignore[import-untyped]

from ..compression import Compression as WireCompression

__all__ = ["Compression", "Compressor", "wire_compression"]


class Compressor:
    """How a tensor is made smaller before it travels, and what came is made whole again."""

    # The runtime's own form of it, which float32 takes instead.
    wire: ClassVar[int | None] = None

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """The tensor that travels, and whatever ``decompress`` needs beside it."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        """The received tensor, in the form that the given one had."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """No change, unless DABKE_COMPRESSION sets another form for the job."""

    wire: ClassVar[int | None] = int(WireCompression.default)

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        return tensor


def _cast(tensor: tf.Tensor, dtype: tf.DType) -> tuple[tf.Tensor, Any]:
    """Casts to `dtype`, of two bytes, a tensor with larger elements."""
    if not tensor.dtype.is_floating or tensor.dtype.size <= 2:
        return tensor, None
    return tf.cast(tensor, dtype), tensor.dtype


def _cast_back(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
    return tensor if ctx is None else tf.cast(tensor, ctx)


class FP16Compressor(Compressor):
    """Floating-point tensors as float16."""

    wire: ClassVar[int | None] = int(WireCompression.fp16)

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        return _cast(tensor, tf.float16)

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        return _cast_back(tensor, ctx)


class BF16Compressor(Compressor):
    """Floating-point tensors as bfloat16: the range of float32 with fewer digits."""

    wire: ClassVar[int | None] = int(WireCompression.bf16)

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        return _cast(tensor, tf.bfloat16)

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        return _cast_back(tensor, ctx)


class Compression:
    """The compressors that come with the package."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


def wire_compression(compression: type[Compressor], dtype: tf.DType) -> int | None:
    """The runtime's number where it compresses this dtype itself, as ``none`` always is; None where it is
    cast."""
    wire: int | None = getattr(compression, "wire", None)
    if compression is NoneCompressor or dtype == tf.float32:
        return wire
    return None
