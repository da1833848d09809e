"""Arrays of inputs and results: NumPy arrays if NumPy is installed, else memoryviews."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from . import _core

if TYPE_CHECKING:
    import numpy.typing

    Array = numpy.typing.NDArray[Any]
else:
    Array = Any


class SupportsBuffer(Protocol):
    """An object that exports its memory by the buffer protocol, such as ``array.array`` or ``memoryview``."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


class SupportsDLPack(Protocol):
    """An object that exports its memory by DLPack, as the arrays of most libraries do."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> tuple[Any, Any]: ...


TensorLike = SupportsBuffer | SupportsDLPack
"""The tensors that collectives take. An input may have any strides; an output is compact and row-major."""

_numpy: Any = None  # the module after its first use; False if it is not installed


def _load_numpy() -> Any:
    """Imports NumPy when the first result is made: neither the launcher nor a framework's layer needs it."""
    global _numpy
    if _numpy is None:
        try:
            import numpy

            _numpy = numpy
        except ImportError:  # everything works without NumPy
            _numpy = False
    return _numpy


def empty_like(tensor: Any) -> Any:
    """Returns memory for a result like `tensor`, an array or a ``_core.Tensor``.

    ``_core`` calls it if the caller gives no output.
    """
    numpy = _numpy or _load_numpy()
    if numpy and type(tensor) is numpy.ndarray:
        dtype = tensor.dtype
        return numpy.empty(tensor.shape, dtype if dtype.isnative else dtype.newbyteorder("="))
    return empty(tensor.shape, tensor.dtype)


def empty(shape: tuple[int, ...], dtype: str) -> Any:
    """Returns an array of this shape; a memoryview without NumPy."""
    numpy = _load_numpy()
    if numpy:
        return numpy.empty(shape, _numpy_dtype(dtype))
    return view_of_bytes(_core.Memory(math.prod(shape) * _core.dtype_bytes(dtype)), shape, dtype)


def as_array(output: _core.Output) -> Any:
    """Returns an array over the output's own memory, which lives as long as the array.

    bfloat16 has the dtype of ml_dtypes if that is installed.
    """
    numpy = _load_numpy()
    if not numpy:
        return memoryview(output)
    array = numpy.asarray(output)
    return array.view(_numpy_dtype("bfloat16")) if output.dtype == "bfloat16" else array


def view_of_bytes(memory: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Returns `memory` as an array of this shape and dtype."""
    size = math.prod(shape)
    numpy = _load_numpy()
    if numpy:
        return numpy.frombuffer(memory, _numpy_dtype(dtype), count=size).reshape(shape)
    view: Any = memoryview(memory)[: size * _core.dtype_bytes(dtype)].cast("B")
    return view.cast(_core.dtype_format(dtype), shape) if size > 0 else view.cast(_core.dtype_format(dtype))


def _numpy_dtype(name: str) -> Any:
    if name != "bfloat16":
        return _numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        return _numpy.dtype("uint16")  # the bits of bfloat16
    return _numpy.dtype(ml_dtypes.bfloat16)
