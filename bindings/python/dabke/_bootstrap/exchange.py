"""The exchange by which a job's processes find each other if the environment does not describe the job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..errors import InvalidArgumentError
from .store_rendezvous import StoreRendezvous

# The default limit. It is long, because a launcher on several hosts starts the processes one after the other.
PATIENCE_SECONDS = 300.0

# Sends this process's bytes to all processes, and returns those of all, joined in the order of their numbers.
Exchange = Callable[[bytes], bytes]


class Bootstrap(NamedTuple):
    """The arguments of the runtime's init. Without an exchange the environment describes the job."""

    exchange: Exchange | None
    rank: int
    size: int


def bootstrap_of(comm: Any, rank: int | None, size: int | None, exchange: Exchange | None) -> Bootstrap:
    """Returns the exchange between the processes that the arguments of ``init`` describe."""
    if exchange is not None:
        if comm is not None:
            raise InvalidArgumentError(
                "init: comm and exchange both name the processes; pass only one of them"
            )
        return Bootstrap(exchange, *_rank_and_size(rank, size, "exchange"))
    if comm is None:
        if rank is not None or size is not None:
            raise InvalidArgumentError("init: rank and size need exchange, or a store as comm")
        return Bootstrap(None, 0, 0)
    if hasattr(comm, "allgather") and hasattr(comm, "Get_rank"):

        def allgather(mine: bytes) -> bytes:
            return b"".join(comm.allgather(mine))

        return Bootstrap(allgather, comm.Get_rank(), comm.Get_size())
    if all(hasattr(comm, each) for each in ("set", "get", "add")):
        return _over_store(comm, *_rank_and_size(rank, size, "a store"))
    if isinstance(comm, Sequence) and not isinstance(comm, (str, bytes)):
        from .launcher_store import exchange_among

        return exchange_among([int(each) for each in comm])
    raise InvalidArgumentError(
        f"init: comm is a {type(comm).__name__}; expected a list of ranks, an mpi4py communicator, or a "
        "torch.distributed store with rank and size"
    )


def _rank_and_size(rank: int | None, size: int | None, beside: str) -> tuple[int, int]:
    if rank is None or size is None:
        raise InvalidArgumentError(f"init: {beside} needs rank and size, too")
    return rank, size


def _over_store(store: Any, rank: int, size: int) -> Bootstrap:
    """Returns an exchange over a torch.distributed store. The store may have keys of earlier tries."""
    limit = getattr(store, "timeout", None)
    rendezvous = StoreRendezvous(
        store, rank, size, PATIENCE_SECONDS if limit is None else limit.total_seconds()
    )
    steps = iter(("hosts", "job"))

    def exchange(mine: bytes) -> bytes:
        return b"".join(rendezvous.gather(next(steps), mine))

    return Bootstrap(exchange, rank, size)
