"""A job of torchrun, or of another launcher with its variables: the ranks use the store of torch."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from .._bootstrap.exchange import PATIENCE_SECONDS
from .._bootstrap.launchers import launcher_variables

__all__ = ["by_torchrun", "store_of_torch"]

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

# The store of the current job. Rank 0 may serve it, so it lives until the next job.
_store: Any = None


def by_torchrun() -> bool:
    """Returns True if only the variables of ``env://`` describe a job, with several ranks."""
    if not all(os.environ.get(name) for name in _VARIABLES) or os.environ["WORLD_SIZE"] == "1":
        return False
    others = launcher_variables()  # their jobs do not need torch's store, unless torchrun runs inside them
    return not others or (
        "TORCHELASTIC_RUN_ID" in os.environ and not any(name.startswith("DABKE_") for name in others)
    )


def _patience() -> timedelta:
    for name in ("DABKE_START_TIMEOUT_SECONDS", "HOROVOD_START_TIMEOUT"):
        try:
            return timedelta(seconds=float(os.environ[name]))
        except (KeyError, ValueError):  # init refuses text that is not a number
            continue
    return timedelta(seconds=PATIENCE_SECONDS)


def store_of_torch() -> tuple[Any, int, int]:
    """Returns the store, this process's rank and the number of ranks, as in ``init_process_group``."""
    global _store
    from torch.distributed import rendezvous  # type: ignore[attr-defined]

    _store, rank, size = next(iter(rendezvous("env://", timeout=_patience())))
    return _store, rank, size
