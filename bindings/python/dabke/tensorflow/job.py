"""Start of the job, with Horovod's rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import job
from .._bootstrap.exchange import Exchange
from .._frontend.start import is_running, settings_of
from ..process_sets import ProcessSet

__all__ = ["init", "shutdown"]


def init(
    comm: Any = None,
    process_sets: Sequence[ProcessSet | Sequence[int]] | str | None = None,
    *,
    join: str | None = None,
    duplicate_names: str | None = None,
    settings: Mapping[str, object] | None = None,
    rank: int | None = None,
    size: int | None = None,
    exchange: Exchange | None = None,
) -> None:
    """Joins the job like ``dabke.init``, and returns when all ranks have come.

    TensorFlow is not initialised: visible devices and thread counts can still be set. While the job runs, a
    second call without arguments does nothing.

    Args:
        comm: as in ``dabke.init``.
        process_sets: as in ``dabke.init``.
        settings: as in ``dabke.init``.
        rank: as in ``dabke.init``.
        size: as in ``dabke.init``.
        exchange: as in ``dabke.init``.
        join: the divisor of an average when ranks have joined. "horovod": the full size. "dabke": the number
            of ranks that take part. None: the value of DABKE_JOIN, or "horovod" if that is not set.
        duplicate_names: the handling of a name that is still pending. "error": the call fails. "queue": the
            second operation waits for the first. None: the value of DABKE_DUPLICATE_NAMES, or "error" if that
            is not set. Parallel iterations of a loop may use one name twice at a time, and would mix data.

    Raises:
        AlreadyInitializedError: the job runs, and this call has `comm`, `process_sets`, `exchange` or
            `settings`.
        InvalidArgumentError: an argument or a setting is not valid. Raised on all ranks if ranks pass
            different ones.
        TimedOutError: not all ranks came within START_TIMEOUT_SECONDS; the text names the missing ranks.
    """
    if is_running(comm=comm, process_sets=process_sets, exchange=exchange, settings=settings):
        return
    chosen = settings_of(settings, JOIN=join, DUPLICATE_NAMES=duplicate_names)
    job.init(comm, process_sets, settings=chosen, rank=rank, size=size, exchange=exchange)


def shutdown() -> None:
    """Leaves the job like ``dabke.shutdown``."""
    job.shutdown()
