"""The place where the ops run: the host, outside of XLA's clusters."""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]
from tensorflow.python.ops import control_flow_util  # type: ignore[import-untyped]

from ..errors import UnsupportedError

__all__ = ["on_host", "refuse_xla"]


@functools.cache
def _has_gpus() -> bool:
    """Returns True if there are GPUs, and warns once that their tensors are copied."""
    if not tf.config.list_physical_devices("GPU"):
        return False
    warnings.warn(
        "dabke.tensorflow runs on the host: TensorFlow copies tensors of GPUs there, and results back",
        stacklevel=5,
    )
    return True


def on_host() -> Any:
    """A context whose ops TensorFlow places on the host."""
    return tf.device("/CPU:0") if _has_gpus() else contextlib.nullcontext()


def refuse_xla(collective: str, name: str) -> None:
    """Raises if XLA is to compile the function that is being traced. XLA cannot compile our ops.

    Raises:
        UnsupportedError: the function, or one around it, has jit_compile=True.
    """
    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        raise UnsupportedError(
            f"{collective} '{name}': XLA cannot compile collectives of Dabke; trace this function without "
            "jit_compile=True (model.compile(..., jit_compile=False) in Keras). A function without "
            "collectives that it calls may have jit_compile=True"
        )
