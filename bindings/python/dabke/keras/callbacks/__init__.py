"""Callbacks for ``fit``, under Horovod's names and ours.

    model.fit(..., callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=rate, warmup_epochs=3),
    ])

Every rank passes the same callbacks in the same order.
"""

from .checkpoint import BestModelCheckpoint
from .metrics import MetricAverageCallback
from .progress import ProgressBar
from .rates import LearningRateScheduleCallback, LearningRateWarmupCallback
from .start import BroadcastGlobalVariablesCallback
from .uneven_steps import JoinCallback

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "JoinCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
    "ProgressBar",
]
