"""The job, as an object with Horovod's methods."""

from __future__ import annotations

from typing import Any

import dabke.torch


class HorovodBasics:
    """Has ``rank()``, ``size()`` and all other names of ``dabke.torch``: all frameworks use one library."""

    def __init__(self, pkg_path: Any = None, *args: Any) -> None:
        """The arguments are the path and the name of Horovod's library. They are ignored."""

    def __getattr__(self, name: str) -> Any:
        return getattr(dabke.torch, name)
