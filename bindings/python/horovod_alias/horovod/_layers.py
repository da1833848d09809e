"""The modules of TensorFlow and Keras, which stand for modules of Dabke if the framework is installed.

``horovod.keras`` imports nothing until a program imports it. A framework that is not installed is left to
``_absent``.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_HERE = __name__.rpartition(".")[0]
_KERAS = {"": "dabke.keras", ".callbacks": "dabke.keras.callbacks", ".elastic": "dabke.keras.elastic"}
_TENSORFLOW = {
    "": "dabke.tensorflow",
    ".compression": "dabke.tensorflow.compression",
    ".elastic": "dabke.tensorflow.elastic",
    ".functions": "dabke.tensorflow.functions",
    ".gradient_aggregation": "dabke.tensorflow.gradient_aggregation",
    ".mpi_ops": "dabke.tensorflow",
    ".sync_batch_norm": "dabke.tensorflow.sync_batch_norm",
}
_TARGETS = {
    f"{_HERE}.{parent}{child}": (framework, target)
    for parent, framework, children in (
        ("tensorflow", "tensorflow", _TENSORFLOW),
        ("tensorflow.keras", "keras", _KERAS),
        ("keras", "keras", _KERAS),
    )
    for child, target in children.items()
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds these modules before ``_absent`` does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        framework, _ = _TARGETS.get(fullname, (None, None))
        if framework is None or importlib.util.find_spec(framework) is None:
            return None
        is_package = any(each.startswith(f"{fullname}.") for each in _TARGETS)
        return importlib.util.spec_from_loader(fullname, self, is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        layer = importlib.import_module(_TARGETS[module.__name__][1])

        def found(name: str) -> Any:
            if name.startswith("__") or f"{module.__name__}.{name}" in _TARGETS:
                raise AttributeError(name)  # a module of this name is then imported
            return getattr(layer, name)

        module.__doc__ = layer.__doc__
        setattr(module, "__all__", getattr(layer, "__all__", []))
        setattr(module, "__getattr__", found)
        for child in [each for each in _TARGETS if each.rpartition(".")[0] == module.__name__]:
            if child.rpartition(".")[2] in ("callbacks", "elastic"):  # ``hvd.callbacks`` needs no import
                importlib.import_module(child)


def install() -> None:
    """Installs the finder, so that ``import`` finds the modules."""
    sys.meta_path.append(_Finder())
