"""Counters of the running job, its settings, and dumps."""

from __future__ import annotations

import os
from typing import Any

from . import _core

__all__ = ["collective_statistics", "config", "dump", "late_seconds", "statistics"]


def statistics() -> dict[str, Any]:
    """Returns the counters of this rank since ``init``.

    Returns:
        ``tensors_submitted``, ``tensors_completed``, ``tensors_failed``, ``batches``, ``bytes``,
        ``messages_sent``, ``messages_received``, ``cache_hits`` and ``cache_misses``; in seconds
        ``negotiation_seconds``, ``execution_seconds`` and ``fastest_negotiation_seconds``.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return _core.statistics()


def collective_statistics() -> list[dict[str, Any]]:
    """Returns the counters of this rank since ``init``, by collective and backend.

    Returns:
        a row for each pair that has run: ``collective``, ``backend``, ``batches``, ``tensors``, ``bytes``,
        ``seconds``.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return _core.collective_statistics()


def late_seconds(rank: int) -> float:
    """Returns the time for which other ranks have waited for a rank because it was the last to submit.

    Args:
        rank: a world rank.

    Returns:
        seconds since ``init``. Only rank 0 counts them; on other ranks 0.

    Raises:
        InvalidArgumentError: the rank does not exist.
        NotInitializedError: this process is not in a job.
    """
    return _core.late_seconds(rank)


def config() -> list[dict[str, str]]:
    """Returns the table of settings.

    Returns:
        a row for each setting: ``name``, ``horovod_name``, ``flag``, ``value`` in the running job,
        ``default``, ``accepts`` and ``help``.
    """
    return _core.config()


def dump(file_path: str | bytes | os.PathLike[Any]) -> None:
    """Writes a dump as JSON: this rank's last events, what it waits for, and the stacks of its threads.

    It also works while the job hangs.

    Args:
        file_path: the file, which is created or replaced.

    Raises:
        TransportError: the file cannot be written.
        NotInitializedError: this process is not in a job.
    """
    _core.dump(os.fsdecode(file_path))
