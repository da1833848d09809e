"""The refusal of Keras 2, which TF_USE_LEGACY_KERAS=1 selects for ``tf.keras``."""

from __future__ import annotations

import os

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ..errors import UnsupportedError

__all__ = ["refuse_keras_2"]


def refuse_keras_2() -> None:
    """Raises UnsupportedError if this program trains with Keras 2."""
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        raise UnsupportedError(
            "dabke.keras needs Keras 3, but TF_USE_LEGACY_KERAS selects Keras 2 (tf_keras); "
            "unset that variable"
        )
    version = str(keras.__version__)
    if int(version.split(".")[0]) < 3:
        raise UnsupportedError(f"dabke.keras needs Keras 3, but Keras {version} is installed")
