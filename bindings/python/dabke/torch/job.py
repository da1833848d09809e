"""Start and end of the job, with Horovod's rules."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import job
from .._bootstrap.exchange import Exchange
from ..errors import AlreadyInitializedError
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
    """Joins the job as ``dabke.init`` does, whose other arguments these are, and returns when all ranks have come.

    A second call without arguments does nothing while the job runs. Under torchrun, and wherever RANK, WORLD_SIZE,
    MASTER_ADDR and MASTER_PORT alone describe the job, the ranks meet in the store that ``env://`` of torch.distributed gives.

    Args:
        comm: as in ``dabke.init``.
        process_sets: as in ``dabke.init``.
        settings: as in ``dabke.init``.
        rank: as in ``dabke.init``.
        size: as in ``dabke.init``.
        exchange: as in ``dabke.init``.
        join: "horovod" divides an average by the full size also where ranks have joined; "dabke" by the number of
            those that take part. None: what DABKE_JOIN says, and "horovod" where it says nothing.
        duplicate_names: "error" refuses a name that is still in flight with a ``DuplicateNameError``, which is a
            ``ValueError``, from the submitting call; "queue" lets the second wait for the first. None: what
            DABKE_DUPLICATE_NAMES says, and "error" where it says nothing.
        host_staging: tensors of devices for which this build has no backend are copied to the host, and results
            back, instead of being refused.

    Raises:
        AlreadyInitializedError: the job runs, and this call has arguments.
        InvalidArgumentError: arguments or settings that make no sense, on all ranks where they differ.
        TimedOutError: not all ranks came within START_TIMEOUT_SECONDS; the text names the missing ones.
    """
    if job.is_initialized():
        if comm is not None or process_sets is not None or exchange is not None or settings is not None:
            raise AlreadyInitializedError("init: the job runs already, so its arguments can have no effect")
        set_host_staging(host_staging)
        return
    device_streams.clear()
    if comm is None and exchange is None and torchrun.by_torchrun():
        comm, rank, size = torchrun.store_of_torch()
    chosen: dict[str, object] = {}
    for knob, argument, default in (("JOIN", join, "horovod"), ("DUPLICATE_NAMES", duplicate_names, "error")):
        if argument is not None or f"DABKE_{knob}" not in os.environ:
            chosen[knob] = default if argument is None else argument
    chosen.update(settings or {})
    job.init(comm, process_sets, settings=chosen, rank=rank, size=size, exchange=exchange)
    set_host_staging(host_staging)


def shutdown() -> None:
    """Leaves the job as ``dabke.shutdown`` does.

    Raises what has failed after a CUDA stream was made to wait for it, if nothing has raised it yet.
    """
    device_streams.shut_down(job.shutdown)
