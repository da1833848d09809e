"""Start and end of the job, with Horovod's rules."""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from .. import job
from .._bootstrap.exchange import Exchange
from .._frontend.start import is_running, settings_of
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
    """Joins the job like ``dabke.init``, and returns when all ranks have come.

    JAX is not initialised: devices, platforms and flags can be chosen afterwards. While the job runs, a
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

    Raises:
        AlreadyInitializedError: the job runs, and this call has `comm`, `process_sets`, `exchange` or
            `settings`.
        InvalidArgumentError: an argument or a setting is not valid. Raised on all ranks if ranks pass
            different ones.
        TimedOutError: not all ranks came within START_TIMEOUT_SECONDS; the text names the missing ranks.
    """
    if is_running(comm=comm, process_sets=process_sets, exchange=exchange, settings=settings):
        return
    chosen = settings_of(settings, JOIN=join)
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
