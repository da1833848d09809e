"""Learning rates that warm up, and metrics that are averaged over the ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._frontend.metrics import weighted_average
from .._frontend.schedules import warmup_factor
from ..process_sets import global_process_set
from .device_streams import submit
from .options import AnySet

__all__ = ["WarmupLR", "metric_average"]


class WarmupLR(torch.optim.lr_scheduler.LambdaLR):
    """Raises the learning rate linearly from that of a single rank to the full rate, then follows a schedule.

    A batch that is `size` times as large needs a rate that is `size` times as high, but not from the first
    step on (Goyal et al. 2017, "Accurate, Large Minibatch SGD"). Call ``step()`` after each of the
    optimizer's steps.

    Args:
        optimizer: the optimizer, whose groups have the full rate.
        warmup_steps: the number of steps until the rate is full.
        start_factor: the factor of the full rate at the first step; None: 1 / size.
        after: the factor of the full rate at a step, counted from the end of the warm-up; None: 1.
        last_epoch: the step to continue from, as in torch's schedulers; -1: the beginning.

    Raises:
        NotInitializedError: this process is not in a job, and `start_factor` is None.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        warmup_steps: int,
        start_factor: float | None = None,
        after: Callable[[int], float] | None = None,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, warmup_factor(warmup_steps, start_factor, after), last_epoch)


def metric_average(
    value: torch.Tensor | float,
    name: str | None = None,
    weight: float = 1.0,
    process_set: AnySet = global_process_set,
) -> float:
    """Returns the average of a number over the ranks, such as a loss or an accuracy.

    Args:
        value: a number, or a tensor of one element.
        name: a name like that of a tensor; it is prefixed by ``metric_average.``. None: numbered.
        weight: the weight of this rank's number, such as the number of its images; 0 for a rank without
            images.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the average, on every rank; NaN if all weights are 0.

    Raises:
        HorovodInternalError: the job has failed.
    """
    own: Any = value.item() if isinstance(value, torch.Tensor) else value
    return weighted_average(float(own), weight, name, process_set, submit)
