"""The file of the best model, which rank 0 writes."""

from __future__ import annotations

from typing import Any

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ... import _core
from ...errors import InvalidArgumentError
from .uneven_steps import join_epoch

__all__ = ["BestModelCheckpoint"]


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):  # type: ignore[misc, unused-ignore]
    """Saves the model whenever a metric is better than ever before. Only rank 0 writes.

    Put it after ``MetricAverageCallback``, so that the metric is the average of the ranks.

    Args:
        monitor: the metric's name.
        verbose: 1 to print when a file is written.
        save_weights_only: True to write only the weights.
        mode: "min", "max" or "auto", which goes by the metric's name.
        save_freq: "epoch", or a number of batches.
        filepath: the file, which ends with ``.keras``, or ``.weights.h5`` for weights. The attribute
            ``filepath`` may also be set until training begins.

    Raises:
        InvalidArgumentError: training begins without a file name.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        *,
        filepath: Any = None,
    ) -> None:
        super().__init__(
            filepath=str(filepath or "") or ("unnamed.weights.h5" if save_weights_only else "unnamed.keras"),
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        if filepath is None:
            self.filepath = None

    def on_train_begin(self, logs: Any = None) -> None:
        if self.filepath is None:
            raise InvalidArgumentError(
                "BestModelCheckpoint: it has no file to write; pass filepath='best.keras'"
            )
        self.filepath = str(self.filepath)
        super().on_train_begin(logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if _core.rank() == 0:
            super().on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        join_epoch(self.model)
        if _core.rank() == 0:
            super().on_epoch_end(epoch, logs)
