"""Metrics that are averaged over the ranks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .._frontend.options import WORLD, AnySet
from ..reduce_ops import Sum
from .collectives import allreduce

__all__ = ["metric_average"]


def metric_average(
    metrics: Any, name: str | None = None, weight: Any = 1.0, process_set: AnySet = WORLD
) -> Any:
    """The average of metrics over the ranks, such as losses and accuracies, in a program or outside of one.

    Args:
        metrics: a number, an array, or a pytree of them, with the same structure on every rank.
        name: as that of an array; ``allreduce.metric_average.`` comes before it. None: numbered.
        weight: what this rank's metrics count, such as the number of its images; 0 for a rank that has none,
            whose metrics are not read then.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the same tree of averages, as floating-point arrays, on every rank; NaN where all weights are 0.

    Raises:
        MismatchError: the ranks' metrics have different shapes; on all.
        HorovodInternalError: the job has failed.
    """
    own = jnp.asarray(weight, dtype=jnp.result_type(float))

    def weighted(metric: Any) -> Any:
        value = jnp.asarray(metric, dtype=jnp.result_type(metric, float))
        return jnp.where(own == 0, 0, value * own.astype(value.dtype))

    sent = {"sums": jax.tree_util.tree_map(weighted, metrics), "weight": own}
    full_name = "metric_average" if name is None else f"metric_average.{name}"
    sums = allreduce(sent, Sum, full_name, process_set)
    return jax.tree_util.tree_map(lambda each: each / sums["weight"].astype(each.dtype), sums["sums"])
