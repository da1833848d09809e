"""Start and end of the job, with Horovod's rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import job
from .._bootstrap.exchange import Exchange
from .._frontend.start import is_running, settings_of
from ..process_sets import ProcessSet
from . import device_streams, torchrun
from .tensors import set_host_staging


def init(
    comm: Any = None,
    process_sets: Sequence[ProcessSet | Sequence[int]] | str | None = None,
    *,
    join: str | None = None,
    duplicate_names: str | None = None,
    host_staging: bool = False,
    settings: Mapping[str, object] | None = None,
    rank: int | None = None,
    size: int | None = None,
    exchange: Exchange | None = None,
) -> None:
    """Joins the job like ``dabke.init``, and returns when all ranks have come.

    While the job runs, a second call only sets `host_staging`. Under torchrun the ranks meet in the store of
    torch.distributed's ``env://``. So they do if only RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT describe
    the job.

    Args:
        comm: as in ``dabke.init``.
        process_sets: as in ``dabke.init``.
        settings: as in ``dabke.init``.
        rank: as in ``dabke.init``.
        size: as in ``dabke.init``.
        exchange: as in ``dabke.init``.
        join: the divisor of an average when ranks have joined. "horovod": the full size. "dabke": the number
            of ranks that take part. None: the value of DABKE_JOIN, or "horovod" if that is not set.
        duplicate_names: the handling of a name that is still pending. "error": the submitting call raises a
            ``DuplicateNameError``, which is a ``ValueError``. "queue": the second operation waits for the
            first. None: the value of DABKE_DUPLICATE_NAMES, or "error" if that is not set.
        host_staging: True to copy tensors of devices for which this build lacks a backend to the host, and
            results back. False: such tensors are refused.

    Raises:
        AlreadyInitializedError: the job runs, and this call has `comm`, `process_sets`, `exchange` or
            `settings`.
        InvalidArgumentError: an argument or a setting is not valid. Raised on all ranks if ranks pass
            different ones.
        TimedOutError: not all ranks came within START_TIMEOUT_SECONDS; the text names the missing ranks.
    """
    if is_running(comm=comm, process_sets=process_sets, exchange=exchange, settings=settings):
        set_host_staging(host_staging)
        return
    device_streams.clear()
    if comm is None and exchange is None and torchrun.by_torchrun():
        comm, rank, size = torchrun.store_of_torch()
    chosen = settings_of(settings, JOIN=join, DUPLICATE_NAMES=duplicate_names)
    job.init(comm, process_sets, settings=chosen, rank=rank, size=size, exchange=exchange)
    set_host_staging(host_staging)


def shutdown() -> None:
    """Leaves the job like ``dabke.shutdown``.

    Raises:
        DabkeError: an operation has failed after a CUDA stream was made to wait for it, and no call has
            raised it yet.
    """
    device_streams.shut_down(job.shutdown)
