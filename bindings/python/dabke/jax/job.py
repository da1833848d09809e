"""Start and end of the job, with Horovod's rules."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from .. import job
from .._bootstrap.exchange import Exchange
from ..errors import AlreadyInitializedError
from ..process_sets import ProcessSet
from .internals import is_initialized

__all__ = ["init", "shutdown"]


def init(
    comm: Any = None,
    process_sets: Sequence[ProcessSet | Sequence[int]] | str | None = None,
    *,
    join: str | None = None,
    settings: Mapping[str, object] | None = None,
    rank: int | None = None,
    size: int | None = None,
    exchange: Exchange | None = None,
) -> None:
    """Joins the job as ``dabke.init`` does, whose other arguments these are, and returns when all ranks have
    come.

    It initialises nothing of JAX: devices, platforms and flags can be chosen afterwards. A second call
    without arguments does nothing while the job runs.

    Args:
        comm: as in ``dabke.init``.
        process_sets: as in ``dabke.init``.
        settings: as in ``dabke.init``.
        rank: as in ``dabke.init``.
        size: as in ``dabke.init``.
        exchange: as in ``dabke.init``.
        join: "horovod" divides an average by the full size also where ranks have joined; "dabke" by the
            number of those that take part. None: the value of DABKE_JOIN, and "horovod" where it is not set.

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
    if join is not None or "DABKE_JOIN" not in os.environ:
        chosen["JOIN"] = "horovod" if join is None else join
    chosen.update(settings or {})
    job.init(comm, process_sets, settings=chosen, rank=rank, size=size, exchange=exchange)
    _finish_programs_at_exit()


def shutdown() -> None:
    """Waits for the programs that this rank has dispatched, and leaves the job as ``dabke.shutdown`` does.

    JAX returns from a call before its program has run. Without the wait the other ranks would wait for
    collectives that this rank has promised.
    """
    _finish_programs()
    job.shutdown()


@functools.cache
def _finish_programs_at_exit() -> None:
    """Registers the wait once for the process. It runs before the hook that leaves the job."""
    atexit.register(_finish_programs)


def _finish_programs() -> None:
    if not is_initialized():
        return
    for array in jax.live_arrays():  # type: ignore[no-untyped-call,unused-ignore]
        with contextlib.suppress(Exception):  # a program that fails has ended, too
            array.block_until_ready()
