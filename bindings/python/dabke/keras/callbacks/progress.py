"""The progress bar of rank 0."""

from __future__ import annotations

from typing import Any

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ... import _core

__all__ = ["ProgressBar"]


class ProgressBar(keras.callbacks.ProgbarLogger):  # type: ignore[misc, unused-ignore]
    """Keras's progress bar on rank 0 alone, which takes the place of the one that ``fit`` adds.

    With ``MetricAverageCallback`` before it, an epoch's last line has the averages over the ranks.
    """

    def set_params(self, params: Any) -> None:
        """Called by Keras with the settings of ``fit``; other ranks than 0 show nothing."""
        super().set_params({**params, "verbose": params["verbose"] if _core.rank() == 0 else 0})
