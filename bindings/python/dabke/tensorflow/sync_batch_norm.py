"""Batch normalization over the batches of all ranks together."""

from __future__ import annotations

import itertools
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from .. import _core
from .._frontend.collective_table import ALLREDUCE
from .._frontend.options import options_of
from ..reduce_ops import Sum
from .submission import run_one
from .traced import unconverted

__all__ = ["SyncBatchNormalization"]

_numbers = itertools.count()


def _sum(name: str, tensor: Any) -> tf.Tensor:
    return run_one(ALLREDUCE, name, tensor, options_of(_core.WORLD, int(Sum)))


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):  # type: ignore[misc]
    """``keras.layers.BatchNormalization`` whose mean and variance in training are those of all ranks'
    batches.

    Ranks may have batches of different sizes, also empty ones. In evaluation, and in a job of one, it is the
    plain one.

    Args:
        fused: has no effect.
        kwargs: as for ``keras.layers.BatchNormalization``.
    """

    def __init__(self, fused: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Layers are made in the same order on all ranks.
        self._dabke_name = f"sync_batch_norm.{next(_numbers)}"

    @unconverted
    def _moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        if _core.size() == 1:
            return super()._moments(inputs, mask)  # type: ignore[no-any-return]
        axes = list(self._reduction_axes)
        weights = tf.ones_like(inputs[..., :1])
        if mask is not None:
            mask = tf.reshape(
                tf.cast(mask, inputs.dtype), [*mask.shape, *([1] * (inputs.shape.rank - len(mask.shape)))]
            )
            weights = weights * mask
        weights = tf.broadcast_to(weights, tf.shape(inputs))
        # The sum and the count travel together; the sum of squares follows, because it needs the mean.
        own = tf.stack([tf.reduce_sum(inputs * weights, axes), tf.reduce_sum(weights, axes)])
        total = _sum(f"{self._dabke_name}.sum", own)
        count = tf.maximum(total[1], tf.cast(1, total.dtype))
        mean = total[0] / count
        shape = [1] * inputs.shape.rank
        shape[self.axis] = -1
        deviations = (inputs - tf.reshape(mean, shape)) * weights
        squares = _sum(f"{self._dabke_name}.squares", tf.reduce_sum(deviations * deviations, axes))
        return mean, squares / count
