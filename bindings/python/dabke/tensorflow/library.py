"""The compiled library of the ops, which TensorFlow loads when this package is imported."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from ..errors import NotBuiltError

__all__ = ["library"]

_PATH = Path(__file__).with_name("dabke_tensorflow.so")


def _load() -> Any:
    """The functions of the ops, which TensorFlow makes as it loads the library.

    Raises:
        NotBuiltError: the library is not there, or this TensorFlow lacks a function that it needs.
    """
    if not _PATH.exists():
        raise NotBuiltError(f"dabke.tensorflow: {_PATH} is missing; build the Python package again")
    functions = tf.load_op_library(str(_PATH))
    error = ctypes.CDLL(str(_PATH)).dabke_tensorflow_error
    error.restype = ctypes.c_char_p
    text = error().decode()
    if text:
        raise NotBuiltError(
            f"dabke.tensorflow does not work with TensorFlow {tf.__version__}: {text}; "
            "use a TensorFlow from 2.16 to 2.21, or tell us which version you have"
        )
    return functions


library: Any = _load()
