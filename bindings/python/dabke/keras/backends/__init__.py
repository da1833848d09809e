"""Keras's backends: the collectives of the framework on which Keras runs in this process.

KERAS_BACKEND selects one for the whole process. Each has a module here with a class ``Adapter``, and
``adapter.py`` has the interface. Nothing else in this package depends on the framework.
"""

from __future__ import annotations

import importlib

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ...errors import UnsupportedError
from .adapter import Adapter

__all__ = ["Adapter", "adapter"]

_MODULES = {"jax": "jax_adapter", "tensorflow": "tensorflow_adapter", "torch": "torch_adapter"}


def _load() -> Adapter:
    name = keras.backend.backend()
    if name not in _MODULES:
        raise UnsupportedError(
            f"Keras runs on its backend '{name}', which cannot train; set KERAS_BACKEND to "
            f"{', '.join(sorted(_MODULES))} before the program imports keras"
        )
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    made: Adapter = module.Adapter()
    return made


adapter: Adapter = _load()
