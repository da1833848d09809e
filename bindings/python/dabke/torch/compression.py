"""Gradients that travel with fewer bits.

``Compression.fp16`` and ``Compression.bf16`` leave float32 gradients as they are and let the runtime round what goes
between hosts: inside a host nothing is rounded, the sum is made in float32, and the reduction still works in place.
Other dtypes, and other collectives than allreduce, are cast before and back after.

A compressor of one's own is a class with the two static methods of ``Compressor``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from ..compression import Compression as WireCompression


class Compressor:
    """How a tensor is made smaller before it travels, and what came is made whole again."""

    # The runtime's own form of it, which float32 takes instead.
    wire: ClassVar[int | None] = None

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The tensor that travels, and whatever ``decompress`` needs beside it."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The received tensor, in the form that the given one had."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Everything as it is, unless DABKE_COMPRESSION says otherwise for the job."""

    wire: ClassVar[int | None] = int(WireCompression.default)

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, Any]:
    """Casts to `dtype`, of two bytes, a tensor with larger elements."""
    if not tensor.is_floating_point() or tensor.element_size() <= 2:
        return tensor, None
    return tensor.to(dtype), tensor.dtype


def _cast_back(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
    return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(Compressor):
    """Floating-point tensors as float16."""

    wire: ClassVar[int | None] = int(WireCompression.fp16)

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return _cast(tensor, torch.float16)

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return _cast_back(tensor, ctx)


class BF16Compressor(Compressor):
    """Floating-point tensors as bfloat16: the range of float32 with fewer digits."""

    wire: ClassVar[int | None] = int(WireCompression.bf16)

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return _cast(tensor, torch.bfloat16)

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return _cast_back(tensor, ctx)


class Compression:
    """The compressors that come with the package."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


def wire_compression(compression: type[Compressor], tensor: torch.Tensor) -> int | None:
    """The runtime's number where it compresses this tensor itself, as ``none`` always is; None where it is cast."""
    wire: int | None = getattr(compression, "wire", None)
    if compression is NoneCompressor or tensor.dtype == torch.float32:
        return wire
    return None
