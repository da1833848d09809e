"""The way of a state from the ranks that hold it to the ranks that lack it.

1. Each holder packs its copy, and all ranks exchange the sizes, or the reason why a holder cannot pack it.
2. The first holder sends the pickle to all ranks.
3. The memory of the arrays goes in chunks. Each holder sends a part of each chunk, at the same time.
   If there are at most as many receivers as senders, an alltoall sends each part to the receivers only.
   With more receivers each part is a broadcast, as a sender has only one link for all of them.
4. All ranks exchange whether they could unpack it. Nobody uses what it has received before that.

The holders are given by the roster of the epoch, so all ranks run the same operations. A holder whose copy
has other sizes than that of the first holder sends nothing.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ... import _core
from ...errors import InvalidArgumentError
from ...handles import synchronize
from ..collective_table import ALLTOALL, BROADCAST
from ..objects import allgather_object
from ..options import options_of
from .packing import Packed, Unpacked

__all__ = ["send"]

T = TypeVar("T")

_CHUNK_BYTES = 16 << 20
_SMALLEST_PART_BYTES = 256 << 10  # below it, another sender costs more than it saves
_MOST_IN_FLIGHT = 3
_ALIGNMENT = 64
_NAME = "elastic.sync"


class _Offer(NamedTuple):
    """A holder's sizes, or the reason why it cannot send."""

    head_bytes: int
    lengths: list[int]
    why_not: str


def send(rank: int, size: int, holders: Sequence[int], value: Any) -> Any:
    """Sends an object from its holders to all other ranks. Every rank calls it.

    Args:
        rank: this rank.
        size: the number of ranks.
        holders: the ranks that hold the object, ascending; at least one.
        value: the object; used only on a holder.

    Returns:
        the object, on a holder `value` itself. It is returned only when every rank has it.

    Raises:
        InvalidArgumentError: a rank cannot pickle or unpickle it. Raised on all ranks, with that rank's text.
        HorovodInternalError: the job has failed.
    """
    packed, why_not = _attempt(lambda: Packed(value)) if rank in holders else (None, "")
    mine = _Offer(len(packed.head), packed.lengths, "") if packed else _Offer(0, [], why_not)
    offers = allgather_object(mine, f"{_NAME}.sizes")
    _check([each.why_not for each in offers], "pickle")
    first = holders[0]
    head = bytearray(packed.head if packed and rank == first else offers[first].head_bytes)
    synchronize(_broadcast("head", head, first))
    unpacked, why_not = (None, "") if packed else _attempt(lambda: Unpacked(bytes(head)))
    senders = [each for each in holders if offers[each].lengths == offers[first].lengths]
    receivers = [each for each in range(size) if each not in holders]
    # A rank that cannot make the memory takes part all the same, and drops what it receives.
    _Chunks(rank, size, senders, receivers, packed, unpacked).send(_size_of(offers[first].lengths))
    received, why_not = _attempt(unpacked.value) if unpacked else (value, why_not)
    _check(allgather_object(why_not, f"{_NAME}.done"), "unpickle")
    return received


def _size_of(lengths: Sequence[int]) -> int:
    return sum(-(-length // _ALIGNMENT) * _ALIGNMENT for length in lengths)


def _attempt(function: Callable[[], T]) -> tuple[T | None, str]:
    """Returns the function's result, or None and the text of its error."""
    try:
        return function(), ""
    except Exception as error:
        return None, "".join(traceback.format_exception_only(type(error), error)).strip()


def _check(reasons: Sequence[str], what: str) -> None:
    """Raises the first reason. All ranks have the same reasons."""
    for rank, why in enumerate(reasons):
        if why:
            raise InvalidArgumentError(
                f"state.sync: rank {rank} cannot {what} the state: {why}; each attribute of a state must be "
                "an object that pickle can take, or cloudpickle if it is installed"
            )


def _broadcast(part: str, memory: Any, root: int) -> _core.Handle:
    options = options_of(_core.WORLD, root_rank=root).core
    return BROADCAST.submit(f"{_NAME}.{part}", memory, None, options, None, True)


class _Chunks:
    """The transfer of the common memory of all arrays."""

    def __init__(
        self,
        rank: int,
        size: int,
        senders: list[int],
        receivers: list[int],
        packed: Packed | None,
        unpacked: Unpacked | None,
    ) -> None:
        self._rank, self._size = rank, size
        self._senders, self._receivers = senders, receivers
        self._packed, self._unpacked = packed, unpacked
        self._in_flight: deque[tuple[_core.Handle, Any]] = deque()  # with the memory that is sent

    def send(self, total: int) -> None:
        """Sends `total` bytes."""
        self._senders = self._senders[: max(1, total // _SMALLEST_PART_BYTES)]
        is_direct = len(self._receivers) <= len(self._senders)
        for number, begin in enumerate(range(0, total, _CHUNK_BYTES)):
            end = min(total, begin + _CHUNK_BYTES)
            (self._send_to_receivers if is_direct else self._send_to_all)(number, begin, end)
        self._wait(0)

    def _cuts(self, begin: int, end: int) -> list[int]:
        """Returns the ends of the senders' parts of a chunk. They lie at the alignment of the arrays."""
        count = len(self._senders)
        inner = [begin + (end - begin) * i // count // _ALIGNMENT * _ALIGNMENT for i in range(count)]
        return [*inner, end]

    def _send_to_receivers(self, number: int, begin: int, end: int) -> None:
        cuts, splits = self._cuts(begin, end), [0] * self._size
        given: Any = b""
        if self._rank in self._senders:
            assert self._packed is not None
            place = self._senders.index(self._rank)
            part = self._packed.part(cuts[place], cuts[place + 1])
            given = part if len(self._receivers) == 1 else bytes(part) * len(self._receivers)
            for receiver in self._receivers:
                splits[receiver] = len(part)
        out = None if self._unpacked is None else self._unpacked.memory[begin:end]
        options = options_of(_core.WORLD).with_splits(splits)
        self._add(ALLTOALL.submit(f"{_NAME}.{number}", given, out, options), given)

    def _send_to_all(self, number: int, begin: int, end: int) -> None:
        cuts = self._cuts(begin, end)
        for place, sender in enumerate(self._senders):
            first, last = cuts[place], cuts[place + 1]
            if self._unpacked is not None:
                memory = self._unpacked.memory[first:last]
            elif self._packed is not None and sender == self._rank:
                memory = self._packed.part(first, last)
            else:  # a holder takes part in the broadcast of another one, and keeps its own copy
                memory = memoryview(bytearray(last - first))
            self._add(_broadcast(f"{number}.{place}", memory, sender), memory)

    def _add(self, handle: _core.Handle, memory: Any) -> None:
        self._in_flight.append((handle, memory))
        self._wait(_MOST_IN_FLIGHT * len(self._senders))

    def _wait(self, most: int) -> None:
        while len(self._in_flight) > most:
            synchronize(self._in_flight.popleft()[0])
