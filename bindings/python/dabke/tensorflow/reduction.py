"""Allreduces of tensors of any kind: dense ones that may be compressed, and tf.IndexedSlices, which are
gathered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from .._frontend.collective_table import ALLGATHER, ALLREDUCE
from .._frontend.options import options_of
from ..compression import Compression as WireCompression
from ..errors import UnsupportedError
from ..reduce_ops import Average, ReduceOp, Sum
from .compression import Compressor, wire_compression
from .numbers import size_op
from .submission import run

__all__ = ["reduce_dense", "reduce_slices"]

_DEFAULT_WIRE = int(WireCompression.default)


def reduce_dense(
    names: Sequence[str],
    tensors: Sequence[Any],
    op: int,
    scales: tuple[float, float],
    process_set: int,
    compression: type[Compressor],
    is_group: bool,
) -> list[tf.Tensor]:
    """Reduces dense tensors.

    Args:
        names: the full name of each.
        tensors: at least one.
        op: a ``ReduceOp``.
        scales: the prescale and the postscale factor.
        process_set: the number of the set.
        compression: how they travel.
        is_group: whether all complete or none.
    """
    values = [tf.convert_to_tensor(tensor) for tensor in tensors]
    wires = {wire_compression(compression, value.dtype) for value in values}
    wire = wires.pop() if len(wires) == 1 else None
    pairs = [(value, None) if wire is not None else compression.compress(value) for value in values]
    options = options_of(process_set, op, *scales, _DEFAULT_WIRE if wire is None else wire)
    results = run(ALLREDUCE, names, [tensor for tensor, _ in pairs], options, is_group).outputs
    if wire is not None:
        return results
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]


def reduce_slices(
    name: str, slices: tf.IndexedSlices, op: int, scales: tuple[float, float], process_set: int
) -> tf.IndexedSlices:
    """Adds or averages slices: by an allgather of their values and one of their indices, which travel
    together.

    Args:
        name: the full name; ``.values`` and ``.indices`` come behind it.
        slices: of the same dense shape on every rank; ranks may have any number of rows.
        op: Average or Sum. An average divides by the size of the set.
        scales: the prescale and the postscale factor.
        process_set: the number of the set.

    Raises:
        UnsupportedError: another `op`.
    """
    if op not in (Average, Sum):
        raise UnsupportedError(
            f"allreduce '{name}': tf.IndexedSlices are added or averaged, "
            f"not reduced by {ReduceOp(op).name}; pass sparse_as_dense=True, or tf.convert_to_tensor(...)"
        )
    names = [f"{name}.values", f"{name}.indices"]
    gathered = run(ALLGATHER, names, [slices.values, slices.indices], options_of(process_set), is_group=True)
    values, indices = gathered.outputs
    factor = scales[0] * scales[1]
    if op == Average:
        size = tf.cast(size_op(process_set), values.dtype)
        values = values / size if values.dtype.is_floating else tf.truncatediv(values, size)
    if factor != 1:
        values = values * tf.cast(factor, values.dtype)
    return tf.IndexedSlices(values, indices, slices.dense_shape)
