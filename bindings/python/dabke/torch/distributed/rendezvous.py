"""``init_process_group("dabke")`` under dabkerun, which does not set MASTER_ADDR.

The module handles two cases. In all others torch reads the environment itself.

* MASTER_ADDR is not set, or MASTER_PORT is 0, and dabkerun, MPI or ``dabke.init`` has numbered this process.
* The job is elastic. MASTER_ADDR could only name a rank, which may be lost.

1. The job is started, if it does not run yet.
2. Rank 0 serves torch's store on a free port, and broadcasts its address through the job. In an elastic job,
   dabkerun serves it (epoch_store.py).
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from ... import _core, epochs, job
from ..._bootstrap.launchers import is_numbered
from ..tensors import descriptor_of
from . import job_owner
from .epoch_store import open_epoch_store

__all__ = ["install"]

# The variables that torchrun sets and scripts read, with dabkerun's names for the same values.
_NAMES = {"RANK": "RANK", "WORLD_SIZE": "SIZE", "LOCAL_RANK": "LOCAL_RANK", "LOCAL_WORLD_SIZE": "LOCAL_SIZE"}
_ADDRESS_BYTES = 256
_STORE_PATIENCE = timedelta(minutes=5)

Rendezvous = Iterator[tuple[Any, int, int]]


def install() -> None:
    """Installs a handler before torch's own for ``env://``, the default of ``init_process_group``."""
    # In an elastic job all other numbers change.
    names = {"LOCAL_RANK": "LOCAL_RANK"} if epochs.is_elastic() else _NAMES
    if all(f"DABKE_{ours}" in os.environ for ours in names.values()) and "MASTER_ADDR" not in os.environ:
        for name, ours in names.items():
            os.environ.setdefault(name, os.environ[f"DABKE_{ours}"])
    # From sys.modules, because torch.distributed.rendezvous is a function of the same name.
    handlers = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers
    handlers["env"] = _before(handlers["env"])


def _before(handler: Callable[..., Rendezvous]) -> Callable[..., Rendezvous]:
    def rendezvous(url: str, **arguments: Any) -> Rendezvous:
        numbered = job.is_initialized() or is_numbered()
        has_address = "MASTER_ADDR" in os.environ and os.environ.get("MASTER_PORT") != "0"
        if epochs.is_elastic() or (numbered and not has_address):
            return _over_job()
        return handler(url, **arguments)

    return rendezvous


def _over_job() -> Rendezvous:
    if not job.is_initialized():
        job_owner.start()
    store = open_epoch_store() if epochs.is_elastic() else _store(job.rank(), job.size())
    yield store, job.rank(), job.size()
    raise RuntimeError("a job of dabkerun can use env:// only once")


def _store(rank: int, size: int) -> Any:
    address = torch.zeros(_ADDRESS_BYTES, dtype=torch.uint8)
    served = None
    if rank == 0:
        host = "127.0.0.1" if job.local_size() == size else socket.gethostname()
        served = TCPStore(host, 0, size, True, _STORE_PATIENCE, False)
        text = f"{host}:{served.port}".encode()
        address[: len(text)] = torch.tensor(list(text), dtype=torch.uint8)
    _core.broadcast("c10d/store", descriptor_of(address), None, _core.Options()).wait()
    if served is not None:
        return served
    host, port = bytes(address.tolist()).rstrip(b"\0").decode().rsplit(":", 1)
    return TCPStore(host, int(port), size, False, _STORE_PATIENCE, False)
