"""Learning rates that follow the epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ... import _core
from ...errors import InvalidArgumentError
from .base import TrainingCallback, attach_state

__all__ = ["LearningRateScheduleCallback", "LearningRateWarmupCallback"]


class LearningRateScheduleCallback(TrainingCallback):
    """Sets the learning rate to ``initial_lr * multiplier(epoch)`` from one epoch to another.

    Args:
        initial_lr: the rate that is multiplied.
        multiplier: a number, or a function of the epoch. The epoch is a fraction if `staircase` is False.
        start_epoch: the first epoch for which this callback sets the rate.
        end_epoch: the epoch after the last one; None: without end.
        staircase: True to set the rate once an epoch; False: before every batch.
        momentum_correction: True to scale the velocity of SGD or RMSprop with the rate. That velocity has the
            rate as a factor, so a new rate would otherwise act only on new gradients.
        steps_per_epoch: the number of batches of an epoch. None: that of ``fit``.

    Raises:
        InvalidArgumentError: the optimizer has a LearningRateSchedule, or the number of batches is not known.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[Any], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        if callable(multiplier):
            self.staircase = staircase
            self.multiplier: Callable[[Any], float] = multiplier
        else:
            constant = float(multiplier)
            self.staircase = True
            self.multiplier = lambda epoch: constant

    def on_train_begin(self, logs: Any = None) -> None:
        if isinstance(
            getattr(self._optimizer, "_learning_rate", None),
            keras.optimizers.schedules.LearningRateSchedule,
        ):
            raise InvalidArgumentError(
                f"{type(self).__name__}: the optimizer's rate follows a LearningRateSchedule already; "
                "give it a number instead"
            )
        if not self.staircase and self._steps is None:
            raise InvalidArgumentError(
                f"{type(self).__name__}: the number of batches of an epoch is not known; pass steps_per_epoch"
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.current_epoch = epoch
        if self.staircase:
            self._set_rate(epoch)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self.staircase and self._steps:
            self._set_rate(self.current_epoch + batch / self._steps)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs is not None:
            logs["lr"] = float(keras.ops.convert_to_numpy(self._optimizer.learning_rate))

    @property
    def _optimizer(self) -> Any:
        """The optimizer that has the rate, which may be inside a LossScaleOptimizer."""
        return getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)

    @property
    def _steps(self) -> int | None:
        return self.steps_per_epoch or (self.params or {}).get("steps")

    def _set_rate(self, epoch: float) -> None:
        is_over = self.end_epoch is not None and self.current_epoch >= self.end_epoch
        if self.current_epoch < self.start_epoch or is_over:
            return
        new = self.initial_lr * self.multiplier(epoch)
        attach_state(self.model)
        optimizer = self._optimizer
        old = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
        optimizer.learning_rate = new
        if self.momentum_correction and old > 0.0 and new != old:
            for velocity in _velocities_of(optimizer):
                velocity.assign(keras.ops.multiply(velocity, new / old))


def _velocities_of(optimizer: Any) -> list[Any]:
    """Returns the variables that have the learning rate as a factor."""
    if not optimizer.built or not getattr(optimizer, "momentum", 0.0):
        return []
    found = getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None) or []
    return [each for each in found if each is not None]


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from that of one rank to the full rate, linearly over the first epochs.

    A joined batch that is `size` times as large needs a rate that is `size` times as high, but not from the
    first step on (Goyal et al. 2017, "Accurate, Large Minibatch SGD").

    Args:
        initial_lr: the full rate, such as that of one rank times the number of ranks.
        warmup_epochs: the number of epochs until the rate is full.
        momentum_correction: as in ``LearningRateScheduleCallback``.
        steps_per_epoch: as in ``LearningRateScheduleCallback``.
        verbose: 1 to print on rank 0 when the rate is full.
        start_factor: the part of the full rate with which training begins; None: 1 / size.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
        *,
        start_factor: float | None = None,
    ) -> None:
        first = 1.0 / _core.size() if start_factor is None else start_factor
        self.warmup_epochs = warmup_epochs
        self.verbose = verbose

        def multiplier(epoch: float) -> float:
            # The last batch of the warm-up has the full rate.
            done = epoch + 1.0 / (self._steps or 1)
            return first + (1.0 - first) * min(1.0, done / warmup_epochs) if warmup_epochs else 1.0

        super().__init__(
            initial_lr,
            multiplier,
            end_epoch=-int(-warmup_epochs // 1),
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch + 1 == self.end_epoch and self.verbose and _core.rank() == 0:
            rate = float(keras.ops.convert_to_numpy(self._optimizer.learning_rate))
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")
