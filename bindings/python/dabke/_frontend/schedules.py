"""Learning rates over the steps of a training."""

from __future__ import annotations

from collections.abc import Callable

from .. import _core

__all__ = ["warmup_factor"]


def warmup_factor(
    warmup_steps: int, start_factor: float | None = None, after: Callable[[int], float] | None = None
) -> Callable[[int], float]:
    """Returns a function of the step, whose value is the factor of the full rate.

    The factor rises linearly, then follows `after`.

    Args:
        warmup_steps: the number of steps until the rate is full.
        start_factor: the factor of the first step; None: 1 / size.
        after: the factor at a step, counted from the end of the warm-up; None: 1.
    """
    first = 1.0 / _core.size() if start_factor is None else start_factor

    def factor(step: int) -> float:
        if step < warmup_steps:
            return first + (1.0 - first) * step / warmup_steps
        return 1.0 if after is None else after(step - warmup_steps)

    return factor
