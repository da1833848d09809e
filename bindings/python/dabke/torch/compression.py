"""Gradients that travel with fewer bits.

With ``Compression.fp16`` and ``Compression.bf16`` the runtime rounds float32 gradients on their way between
hosts. Inside a host nothing is rounded. The sum is made in float32, and the reduction still works in place.
Tensors of other dtypes, and of collectives other than allreduce, are cast before the call, and the result is
cast back.

A program's own compressor is a class with the two static methods of ``Compressor``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from ..compression import Compression as WireCompression


class Compressor:
    """Makes a tensor smaller before it travels, and restores the received tensor."""

    # The runtime's own compression, which is used for float32 instead.
    wire: ClassVar[int | None] = None

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns the tensor that travels, and the context that ``decompress`` needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the received tensor in the form of the original."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Does not change tensors. DABKE_COMPRESSION may still select a compression for the whole job."""

    wire: ClassVar[int | None] = int(WireCompression.default)

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, Any]:
    """Casts a floating-point tensor with elements of more than two bytes to `dtype`, which has two bytes."""
    if not tensor.is_floating_point() or tensor.element_size() <= 2:
        return tensor, None
    return tensor.to(dtype), tensor.dtype


def _cast_back(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
    return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(Compressor):
    """Sends floating-point tensors as float16."""

    wire: ClassVar[int | None] = int(WireCompression.fp16)

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return _cast(tensor, torch.float16)

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return _cast_back(tensor, ctx)


class BF16Compressor(Compressor):
    """Sends floating-point tensors as bfloat16, which has the range of float32 with fewer digits."""

    wire: ClassVar[int | None] = int(WireCompression.bf16)

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return _cast(tensor, torch.bfloat16)

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return _cast_back(tensor, ctx)


class Compression:
    """The compressors of this package."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


def wire_compression(compression: type[Compressor], tensor: torch.Tensor) -> int | None:
    """Returns the runtime's number if it compresses this tensor itself, as for ``none``; None for a cast."""
    wire: int | None = getattr(compression, "wire", None)
    if compression is NoneCompressor or tensor.dtype == torch.float32:
        return wire
    return None
