"""Counters of the running job, its settings, and dumps."""

from __future__ import annotations

import os
from typing import Any

from . import _core

__all__ = ["collective_statistics", "config", "dump", "late_seconds", "statistics"]


def statistics() -> dict[str, Any]:
    """Counters of this rank since ``init``.

    Returns:
        ``tensors_submitted``, ``tensors_completed``, ``tensors_failed``, ``batches``, ``bytes``, ``messages_sent``,
        ``messages_received``, ``cache_hits`` and ``cache_misses``; in seconds ``negotiation_seconds``,
        ``execution_seconds`` and ``fastest_negotiation_seconds``.

    Raises:
        NotInitializedError: there is no job.
    """
    return _core.statistics()


def collective_statistics() -> list[dict[str, Any]]:
    """Counters of this rank since ``init``, by collective and backend.

    Returns:
        a row for each: ``collective``, ``backend``, ``batches``, ``tensors``, ``bytes`` and ``seconds``.

    Raises:
        NotInitializedError: there is no job.
    """
    return _core.collective_statistics()


def late_seconds(rank: int) -> float:
    """How long the others have waited for a rank, because it was the last.

    Args:
        rank: a world rank.

    Returns:
        seconds since ``init``. Only rank 0 counts them; elsewhere it is 0.

    Raises:
        InvalidArgumentError: there is no such rank.
        NotInitializedError: there is no job.
    """
    return _core.late_seconds(rank)


def config() -> list[dict[str, str]]:
    """The table of settings.

    Returns:
        a row for each: ``name``, ``horovod_name``, ``flag``, ``value`` in the running job, ``default``, ``accepts`` and
        ``help``.
    """
    return _core.config()


def dump(file_path: str | bytes | os.PathLike[Any]) -> None:
    """Writes what this rank has been doing and waits for, with the stacks of its threads, as JSON. Works in a hang, too.

    Args:
        file_path: the file, which is made or replaced.

    Raises:
        TransportError: the file cannot be written.
        NotInitializedError: there is no job.
    """
    _core.dump(os.fsdecode(file_path))
