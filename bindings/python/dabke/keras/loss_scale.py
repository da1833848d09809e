"""Keras's LossScaleOptimizer around a distributed optimizer, as the policy mixed_float16 makes it.

It checks whether the gradients are finite before it calls the optimizer inside. Were they reduced inside, a
rank with an infinity would skip a step in which the other ranks wait for its gradients. So a
LossScaleOptimizer that is made around a distributed optimizer becomes the distributed one. All ranks then
check the same reduced gradients, and skip a step together.
"""

from __future__ import annotations

import functools
from typing import Any

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

from .distributed_class import Distributed, distributed_class, is_distributed

__all__ = ["install"]

_MARK = "_dabke_takes_over"


def install() -> None:
    """Makes every LossScaleOptimizer that is made from now on take over, if there is something to."""
    kind: Any = keras.optimizers.LossScaleOptimizer
    original = kind.__init__
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def init(self: Any, inner_optimizer: Any, *args: Any, **kwargs: Any) -> None:
        original(self, inner_optimizer, *args, **kwargs)
        if is_distributed(inner_optimizer) and not is_distributed(self):
            _take_over(self, inner_optimizer)

    setattr(init, _MARK, True)
    kind.__init__ = init


def _take_over(outer: Any, inner: Distributed) -> None:
    outer.__class__ = distributed_class(type(outer), inner._distribution)
    inner._rank_state.reduces = False
