"""How the processes of a job find each other where the environment does not say: by an allgather of the program's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..errors import InvalidArgumentError
from .store_rendezvous import Meeting

# For stores that do not say how long they wait.
_PATIENCE_SECONDS = 300.0

# Gives this process's bytes to all, and returns those of all, joined in the order of their numbers.
Exchange = Callable[[bytes], bytes]


class Way(NamedTuple):
    """What ``init`` passes on; no exchange: the environment says it all."""

    exchange: Exchange | None
    rank: int
    size: int


def exchange_of(comm: Any, rank: int | None, size: int | None, exchange: Exchange | None) -> Way:
    """Which of the arguments of ``init`` tells the job, and how."""
    if exchange is not None:
        if comm is not None:
            raise InvalidArgumentError("init: comm and exchange both say who takes part; pass one of them")
        return Way(exchange, *_place(rank, size, "exchange"))
    if comm is None:
        if rank is not None or size is not None:
            raise InvalidArgumentError("init: rank and size need exchange, or a store as comm")
        return Way(None, 0, 0)
    if hasattr(comm, "allgather") and hasattr(comm, "Get_rank"):

        def allgather(mine: bytes) -> bytes:
            return b"".join(comm.allgather(mine))

        return Way(allgather, comm.Get_rank(), comm.Get_size())
    if all(hasattr(comm, each) for each in ("set", "get", "add")):
        return _over_store(comm, *_place(rank, size, "a store"))
    if isinstance(comm, Sequence) and not isinstance(comm, (str, bytes)):
        from .launcher_store import exchange_among

        return exchange_among([int(each) for each in comm])
    raise InvalidArgumentError(
        f"init: comm is a {type(comm).__name__}; it can be a list of ranks, an mpi4py communicator, or a "
        "torch.distributed store with rank and size"
    )


def _place(rank: int | None, size: int | None, beside: str) -> tuple[int, int]:
    if rank is None or size is None:
        raise InvalidArgumentError(f"init: {beside} needs rank and size beside it")
    return rank, size


def _over_store(store: Any, rank: int, size: int) -> Way:
    """Over a torch.distributed store, in which earlier tries may have left something."""
    limit = getattr(store, "timeout", None)
    meeting = Meeting(store, rank, size, _PATIENCE_SECONDS if limit is None else limit.total_seconds())
    steps = iter(("hosts", "job"))

    def exchange(mine: bytes) -> bytes:
        return b"".join(meeting.gather(next(steps), mine))

    return Way(exchange, rank, size)
