"""The job, as an object with Horovod's methods."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


class HorovodBasics:
    """Has ``rank()``, ``size()`` and all other names of Dabke's layer for the installed framework."""

    def __init__(self, pkg_path: Any = None, *args: Any) -> None:
        """The arguments are the path and the name of Horovod's library. They are ignored."""

    def __getattr__(self, name: str) -> Any:
        installed = [each for each in ("torch", "tensorflow", "keras") if importlib.util.find_spec(each)]
        layer = f"dabke.{installed[0]}" if installed else "dabke"
        return getattr(importlib.import_module(layer), name)
