"""Names of a group's calls: ``c10d/<group>/<call>/<dtype>/<shape>/<n>``, n counting that signature's calls
modulo 32.

The same step gives the same names in every round, so they are negotiated once and then cached; and calls of
equal shape that are in flight together, such as a model's buckets, have names of their own and do not wait
for each other. A name that is still in flight is queued behind itself by the runtime; in a job that refuses
it (DUPLICATE_NAMES=error) the call waits here for the first.

With TORCH_DISTRIBUTED_DEBUG=DETAIL the names are ``c10d/<group>/call/<n>``, one count for all calls of the
group. Then ranks that call different things, or with different shapes, meet under one name and get a
MismatchError that says what each passed; without it each waits for the others to call the same, which the
stall report says.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from ... import _core
from ...errors import DuplicateNameError

__all__ = ["Names"]

_NAMES_OF_A_SIGNATURE = 32
_NAMES_OF_A_GROUP = 1024


class _Ring:
    """Names that are taken in turn, with the last operation of each."""

    def __init__(self, prefix: str, count: int) -> None:
        self.names = [f"{prefix}/{n}" for n in range(count)]
        self.handles: list[_core.Handle | None] = [None] * count
        self.next = 0

    def submit(self, function: Callable[[str], _core.Handle]) -> _core.Handle:
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
        return handle


class Names:
    """The names of one group. `label` is asked when the first call comes: torch names a group after it is made."""

    def __init__(self, label: Callable[[], str]) -> None:
        self._label = label
        self._rings: dict[tuple[str, torch.dtype, tuple[int, ...]], _Ring] = {}
        self._all: _Ring | None = None
        self._in_detail = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"

    def submit(
        self,
        call: str,
        dtype: torch.dtype,
        shape: tuple[int, ...],
        function: Callable[[str], _core.Handle],
    ) -> _core.Handle:
        """Calls the function with the next name of this signature, which must be equal on all ranks of the group."""
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
