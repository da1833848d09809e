"""The job, as an object with Horovod's methods."""

from __future__ import annotations

from typing import Any

import dabke.torch


class HorovodBasics:
    """``rank()``, ``size()`` and all others that ``dabke.torch`` has. There is one library for all frameworks."""

    def __init__(self, pkg_path: Any = None, *args: Any) -> None:
        """Where Horovod's library lies, and its name: accepted, and not needed."""

    def __getattr__(self, name: str) -> Any:
        return getattr(dabke.torch, name)
