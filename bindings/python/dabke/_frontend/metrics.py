"""Numbers that are averaged over the ranks."""

from __future__ import annotations

import array
import math

from ..handles import synchronize
from ..process_sets import set_id_of
from ..reduce_ops import Sum
from .collective_table import ALLREDUCE, SubmitBy, directly
from .names import prefixed_name
from .options import AnySet, options_of

__all__ = ["weighted_average"]


def weighted_average(
    value: float, weight: float, name: str | None, process_set: AnySet, submit_by: SubmitBy = directly
) -> float:
    """Returns the weighted average of the ranks' values; NaN if all weights are 0.

    A value with a weight of 0 is not read.
    """
    number = set_id_of(process_set)
    sums = array.array("d", [value * weight if weight else 0.0, weight])
    full_name = prefixed_name("metric_average", name, number)
    synchronize(submit_by(ALLREDUCE.submit, full_name, sums, None, options_of(number, Sum).core, None, True))
    return sums[0] / sums[1] if sums[1] else math.nan
