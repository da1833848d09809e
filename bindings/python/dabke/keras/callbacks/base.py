"""The base of all callbacks here, and their way to change variables between the batches of ``fit``."""

from __future__ import annotations

from typing import Any

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ..backends import adapter
from ..distributed_class import is_distributed

__all__ = ["TrainingCallback", "attach_state"]


class TrainingCallback(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """A callback of ``fit`` on every rank."""

    def set_model(self, model: Any) -> None:
        """Called by Keras before it makes the training step."""
        super().set_model(model)
        if is_distributed(getattr(model, "optimizer", None)):
            adapter.prepare(model)


def attach_state(model: Any) -> None:
    """Makes the model's variables have their current values between two batches.

    On JAX ``fit`` keeps the values elsewhere during an epoch. After this call it reads the variables again.
    """
    synchronize = getattr(model, "jax_state_sync", None)
    if synchronize is not None:
        synchronize()
