"""Start of the job, with Horovod's rules."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import job
from .._bootstrap.exchange import Exchange
from ..errors import AlreadyInitializedError
from ..process_sets import ProcessSet

__all__ = ["init", "shutdown"]

_KNOBS = (("JOIN", "horovod"), ("DUPLICATE_NAMES", "error"))


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
    """Joins the job as ``dabke.init`` does, whose other arguments these are, and returns when all ranks have
    come.

    TensorFlow is not initialised by it: visible devices and thread counts can still be set. A second call
    without arguments does nothing while the job runs.

    Args:
        comm: as in ``dabke.init``.
        process_sets: as in ``dabke.init``.
        settings: as in ``dabke.init``.
        rank: as in ``dabke.init``.
        size: as in ``dabke.init``.
        exchange: as in ``dabke.init``.
        join: "horovod" divides an average by the full size also where ranks have joined; "dabke" by the
            number of those that take part. None: the value of DABKE_JOIN, or "horovod".
        duplicate_names: "error" refuses a name that is still in flight; "queue" lets the second wait for the
            first. None: the value of DABKE_DUPLICATE_NAMES, or "error". The parallel iterations of a loop are
            one reason why a name may be in flight twice, and would mix their data.

    Raises:
        AlreadyInitializedError: the job runs, and this call has arguments.
        InvalidArgumentError: arguments or settings that make no sense, on all ranks where they differ.
        TimedOutError: not all ranks came within START_TIMEOUT_SECONDS; the text names the missing ones.
    """
    if job.is_initialized():
        if comm is not None or process_sets is not None or exchange is not None or settings is not None:
            raise AlreadyInitializedError(
                "init: the job is already running, so these arguments have no effect"
            )
        return
    chosen: dict[str, object] = {}
    for (knob, default), argument in zip(_KNOBS, (join, duplicate_names)):
        if argument is not None or f"DABKE_{knob}" not in os.environ:
            chosen[knob] = default if argument is None else argument
    chosen.update(settings or {})
    job.init(comm, process_sets, settings=chosen, rank=rank, size=size, exchange=exchange)


def shutdown() -> None:
    """Leaves the job as ``dabke.shutdown`` does."""
    job.shutdown()
