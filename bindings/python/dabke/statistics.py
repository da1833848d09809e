"""Looking inside the running job: counters, settings, dumps."""

from __future__ import annotations

import os
from typing import Any, Union

from . import _core

__all__ = ["collective_statistics", "config", "dump", "late_seconds", "statistics"]


def statistics() -> dict[str, Any]:
    """Counters of this rank since ``init``: tensors, batches, bytes, messages, seconds; see dabke_statistics in dabke.h."""
    return _core.statistics()


def collective_statistics() -> list[dict[str, Any]]:
    """The same by collective and backend: a row each with batches, tensors, bytes and seconds."""
    return _core.collective_statistics()


def late_seconds(rank: int) -> float:
    """The seconds for which the others have waited for `rank`, because it was the last. Known on rank 0; elsewhere 0."""
    return _core.late_seconds(rank)


def config() -> list[dict[str, str]]:
    """The table of settings: name, horovod_name, flag, value in the running job, default, accepts, help."""
    return _core.config()


def dump(file_path: Union[str, bytes, "os.PathLike[Any]"]) -> None:
    """Writes as JSON what this rank has been doing and waits for, with the stacks of its threads, also in a hang."""
    _core.dump(os.fsdecode(file_path))
