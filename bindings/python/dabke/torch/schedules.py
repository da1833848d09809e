"""Learning rates that warm up, and metrics that are averaged over the ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

import torch

from .. import _core
from ..handles import synchronize as wait_for
from ..process_sets import global_process_set
from ..reduce_ops import Sum
from . import ops
from .options import AnySet, name_of, set_id_of


class WarmupLR(torch.optim.lr_scheduler.LambdaLR):
    """Raises the learning rate evenly from that of a single rank to the full one, then follows a schedule.

    A batch that is `size` times as large wants a rate `size` times as high, but not from the first step on
    (Goyal et al. 2017, "Accurate, Large Minibatch SGD"). Call ``step()`` after each of the optimizer's steps.

    Args:
        optimizer: its groups have the full rate.
        warmup_steps: after so many steps the rate is full.
        start_factor: what the first step's rate is of the full one; None: 1 / size.
        after: the factor of the full rate at a step, counted from the end of the warm-up; None: 1.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        warmup_steps: int,
        start_factor: Optional[float] = None,
        after: Optional[Callable[[int], float]] = None,
        last_epoch: int = -1,
    ) -> None:
        first = 1.0 / _core.size() if start_factor is None else start_factor

        def factor(step: int) -> float:
            if step < warmup_steps:
                return first + (1.0 - first) * step / warmup_steps
            return 1.0 if after is None else after(step - warmup_steps)

        super().__init__(optimizer, factor, last_epoch)


def metric_average(
    value: Union[torch.Tensor, float],
    name: Optional[str] = None,
    weight: float = 1.0,
    process_set: AnySet = global_process_set,
) -> float:
    """The average of a number over the ranks, such as a loss or an accuracy.

    Args:
        value: a number, or a tensor of one element.
        weight: what this rank's number counts, such as the number of its images; 0 for a rank that has none.
    """
    number = set_id_of(process_set)
    own: Any = value.item() if isinstance(value, torch.Tensor) else value
    sums = torch.tensor([float(own) * weight if weight else 0.0, weight], dtype=torch.float64)
    full_name = name_of("metric_average", name, number)
    wait_for(ops.submit_allreduce(full_name, sums, True, number, int(Sum), (1.0, 1.0), wait_follows=True))
    return float(sums[0] / sums[1])
