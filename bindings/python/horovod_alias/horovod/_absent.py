"""Horovod's modules that Dabke does not implement, or whose framework is not installed.

They can be imported; any use raises UnimplementedError. So a program runs although it imports them for
another framework, or for another way of starting.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from dabke.errors import UnimplementedError

_HERE = __name__.rpartition(".")[0]
_INSTEAD = {
    "tensorflow": "TensorFlow is not installed, or Dabke has no such part; use dabke.tensorflow",
    "keras": "Keras is not installed, or Dabke has no such part; use dabke.keras",
    "ray": "Ray is not supported yet; use dabkerun, torchrun or dabke.run",
    "runner": "it belongs to horovodrun; use dabkerun instead, or dabke.run from Python",
}
_MODULES = {
    f"{_HERE}.{parent}.{child}" if child else f"{_HERE}.{parent}"
    for parent, children in {
        "tensorflow": " compression elastic functions gradient_aggregation gradient_aggregation_eager "
        "mpi_ops sync_batch_norm util keras",
        "tensorflow.keras": "callbacks elastic",
        "keras": " callbacks elastic",
        "ray": "",
        "runner": "gloo_run mpi_run js_run run_task task_fn elastic",
        "runner.common.util": "codec config_parser hosts host_hash network safe_shell_exec secret settings "
        "timeout tiny_shell_exec",
        "runner.elastic": "constants discovery driver registration rendezvous settings worker",
        "runner.util": "cache lsf network remote streams",
    }.items()
    for child in children.split(" ")
}


class _Absent:
    """A name of such a module. It represents a function, a class or a constant."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UnimplementedError(f"{self._path}: {_INSTEAD[self._path.split('.')[1]]}")

    __call__ = __mro_entries__ = __iter__ = __getitem__ = __enter__ = __instancecheck__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds such modules. It is the last finder, so existing modules are found before."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _MODULES:
            return None
        is_package = any(each.startswith(f"{fullname}.") for each in _MODULES)
        return importlib.util.spec_from_loader(fullname, self, is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        def absent(name: str) -> _Absent:
            if name.startswith("__") or f"{module.__name__}.{name}" in _MODULES:
                raise AttributeError(name)  # a module of this name is then imported
            return _Absent(f"{module.__name__}.{name}")

        setattr(module, "__getattr__", absent)


def install() -> None:
    """Installs the finder, so that ``import`` finds the modules."""
    sys.meta_path.append(_Finder())
