"""The cluster environment by which ``jax.distributed.initialize()`` needs no arguments under dabkerun."""

from __future__ import annotations

import os
import socket
import urllib.parse

from jax._src.clusters import ClusterEnv

from .. import _core
from .._bootstrap.launcher_store import open_store
from .._frontend import objects

__all__ = ["DabkeCluster"]

_KEY = "jax/coordinator"


def _number(name: str) -> int:
    return int(os.environ[f"DABKE_{name}"])


def _free_address(wanted_port: str | None) -> str:
    """An address of this host that the others reach, with the port that is wanted or one that is free now."""
    store = urllib.parse.urlsplit(os.environ.get("DABKE_RENDEZVOUS", ""))
    host = "127.0.0.1"
    if store.hostname and store.port:
        family = socket.getaddrinfo(store.hostname, store.port, type=socket.SOCK_DGRAM)[0][0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((store.hostname, store.port))  # sends nothing: it chooses the interface
            host = probe.getsockname()[0]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    port = int(wanted_port or 0)
    if port == 0:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.bind((host, 0))
            port = listener.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class DabkeCluster(ClusterEnv):  # type: ignore[misc,no-untyped-call,unused-ignore]
    """A job that dabkerun has started. JAX asks it where its coordinator is, which is in the process of rank
    0."""

    name = "dabke"

    @classmethod
    def is_env_present(cls) -> bool:
        """Returns True if dabkerun has started this process."""
        return all(f"DABKE_{name}" in os.environ for name in ("RANK", "SIZE", "RENDEZVOUS"))

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None = None, override_coordinator_port: str | None = None
    ) -> str:
        """The same address on all ranks. In a job that runs it travels by a collective, before by dabkerun's
        store."""
        if _core.is_initialized():
            mine = _free_address(override_coordinator_port) if _core.rank() == 0 else None
            return str(objects.broadcast_object(mine, 0, _KEY))
        store = open_store()
        if _number("RANK") == 0:
            address = _free_address(override_coordinator_port)
            store.set(_KEY, address.encode())
            return address
        return store.get(_KEY, 0).decode()

    @classmethod
    def get_process_count(cls) -> int:
        """The ranks of the job."""
        return _core.size() if _core.is_initialized() else _number("SIZE")

    @classmethod
    def get_process_id(cls) -> int:
        """This process's rank."""
        return _core.rank() if _core.is_initialized() else _number("RANK")

    @classmethod
    def get_local_process_id(cls) -> int | None:
        """This process's number on its host, which chooses its device."""
        return _core.local_rank() if _core.is_initialized() else _number("LOCAL_RANK")


# Before the environments of schedulers and MPI, in which dabkerun may run and which know another number of
# processes.
ClusterEnv._cluster_types.remove(DabkeCluster)
ClusterEnv._cluster_types.insert(0, DabkeCluster)
