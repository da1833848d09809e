"""Names of a group's calls: ``c10d/<group>/<call>/<dtype>/<shape>/<n>``.

n counts the calls of a signature modulo 32. So the same step has the same names in every round, and they are
negotiated once and then cached. Pending calls of equal shape, such as those of a model's buckets, have
different names and do not wait for each other. The runtime queues a second use of a name that is still
pending. In a job that refuses such a use (DUPLICATE_NAMES=error), this module waits for the first.

With TORCH_DISTRIBUTED_DEBUG=DETAIL the names are ``c10d/<group>/call/<n>``, with one count for all
collectives of the group. Then ranks that make different calls, or pass different shapes, meet under one name.
They get a MismatchError with the call of each rank. Without it, each rank waits for the others to make the
same call. The group's calls have one call_sequence, so the runtime examines such a wait, and ranks that wait
in different calls get a MismatchError as well.

Messages are named ``c10d/<group>``. The runtime adds their ranks and tag, and counts them. A gather or
scatter that consists of messages has a name for them, ``c10d/<group>/<call>.<root>/<n>``.
"""

from __future__ import annotations

import itertools
import os
import threading
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterator

import torch

from ... import _core
from ...errors import DuplicateNameError

__all__ = ["Names"]

_NAMES_OF_A_SIGNATURE = 32
_NAMES_OF_A_GROUP = 1024


_thread = threading.local()


def _in_sequence() -> bool:
    """Returns True on the main thread, and on threads that Python has not made."""
    is_in: bool | None = getattr(_thread, "is_in", None)
    if is_in is None:
        thread = threading.current_thread()
        is_made_here = type(thread) is not threading._DummyThread  # type: ignore[attr-defined,unused-ignore]
        is_in = _thread.is_in = thread is threading.main_thread() or not is_made_here
    return is_in


class _Ring:
    """Names that are used in turn, with the last operation of each."""

    def __init__(self, prefix: str, count: int) -> None:
        self.names = [f"{prefix}/{n}" for n in range(count)]
        self.handles: list[_core.Handle | None] = [None] * count
        self.pending: deque[int] = deque()  # slots, the oldest first
        self.next = 0

    def submit(self, function: Callable[[str], _core.Handle]) -> _core.Handle:
        self._drop_ended()
        slot = self.next
        self.next = (slot + 1) % len(self.names)
        try:
            handle = function(self.names[slot])
        except DuplicateNameError:
            before = self.handles[slot]
            if before is None:
                raise
            before.wait()
            handle = function(self.names[slot])
        self.handles[slot] = handle
        self.pending.append(slot)
        return handle

    def _drop_ended(self) -> None:
        """Drops the operations that have ended, and with them the tensors that they keep."""
        while self.pending:
            handle = self.handles[self.pending[0]]
            if handle is not None and not handle.poll():
                return
            self.handles[self.pending.popleft()] = None


class Names:
    """The names of one group. `label` is called at the first call, because torch names a group only later."""

    def __init__(self, label: Callable[[], str]) -> None:
        self._label = label
        self._rings: dict[tuple[str, torch.dtype, tuple[int, ...]], _Ring] = {}
        self._all: _Ring | None = None
        self._messages: str | None = None
        self._calls_of_messages: dict[str, Iterator[int]] = defaultdict(itertools.count)
        self._call_sequence = 0
        self._in_detail = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"

    def call_sequence(self) -> int:
        """Returns the number of the group's sequence of calls, which is equal on all ranks; 0 for none.

        The calls of the main thread and of PyTorch's own threads, such as those of autograd, have one order.
        Threads that the program has made may call at any time, as those that write checkpoints do.
        """
        if not _in_sequence():
            return 0
        if self._call_sequence == 0:
            self._call_sequence = zlib.crc32(self._label().encode()) + 1
        return self._call_sequence

    def of_messages(self) -> str:
        """Returns the name of all messages. The runtime counts them by their ranks and tag."""
        if self._messages is None:
            self._messages = f"c10d/{self._label()}"
        return self._messages

    def of_messages_of(self, call: str) -> str:
        """Returns the name of all messages of the next call that consists of messages."""
        return f"{self.of_messages()}/{call}/{next(self._calls_of_messages[call]) % _NAMES_OF_A_SIGNATURE}"

    def submit(
        self,
        call: str,
        dtype: torch.dtype,
        shape: tuple[int, ...],
        function: Callable[[str], _core.Handle],
    ) -> _core.Handle:
        """Calls the function with the next name of this signature. All ranks must pass the same signature."""
        if self._in_detail:
            if self._all is None:
                self._all = _Ring(f"c10d/{self._label()}/call", _NAMES_OF_A_GROUP)
            return self._all.submit(function)
        ring = self._rings.get((call, dtype, shape))
        if ring is None:
            dims = "x".join(map(str, shape)) or "scalar"
            prefix = f"c10d/{self._label()}/{call}/{str(dtype).split('.')[-1]}/{dims}"
            ring = self._rings[call, dtype, shape] = _Ring(prefix, _NAMES_OF_A_SIGNATURE)
        return ring.submit(function)
