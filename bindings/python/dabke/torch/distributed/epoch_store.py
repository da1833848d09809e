"""The store for torch.distributed in an elastic job: a part of the store that dabkerun serves.

Torch's own TCPStore is in the process of a rank, and is lost with it.

1. The ranks of an epoch exchange the numbers of their processes by a collective.
2. Each ``init_process_group`` has keys of its own, below its epoch and its count in the epoch. So keys of
   earlier epochs disturb nobody. Rank 0 removes them, since it has been in the epoch before.
3. A rank that waits for a key checks now and then that the processes of its epoch run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

from torch.distributed import Store  # type: ignore[attr-defined]

from ... import epochs
from ..._bootstrap.launcher_store import open_store
from ..._frontend.objects import allgather_object
from ...errors import TimedOutError

__all__ = ["EpochStore", "open_epoch_store"]

_TOP = "torch"
_END = "elastic/end/"  # and the number of a process (runtime/bootstrap/elastic/arrival.h)
_CHECK_SECONDS = 0.5

# Torch's C++ parts use stores without their Python objects, so these are kept.
_opened: list[EpochStore] = []
_last_epoch: int | None = None
_count_in_epoch = 0


def open_epoch_store() -> EpochStore:
    """Opens a new store. Every rank of the epoch calls.

    Raises:
        InvalidArgumentError: this rank has joined later, and is not in ``elastic.run``.
        HorovodInternalError: a rank is lost.
    """
    global _last_epoch, _count_in_epoch
    epochs.check_others_can_call("init_process_group")
    epoch = epochs.current_epoch()
    processes = allgather_object(int(os.environ["DABKE_ELASTIC_WORKER"]), "c10d/processes")
    if epoch.number != _last_epoch:
        _count_in_epoch = 0
        if epoch.rank == 0 and _last_epoch is not None:
            _remove(range(_last_epoch, epoch.number))
        _last_epoch = epoch.number
    _count_in_epoch += 1
    _opened.append(EpochStore(f"{_TOP}/{epoch.number}/{_count_in_epoch}", processes))
    return _opened[-1]


def _remove(numbers: range) -> None:
    launcher = open_store()
    for number in numbers:
        launcher.remove(f"{_TOP}/{number}")


class EpochStore(Store):
    """Keys below `part` of dabkerun's store. `processes` are the numbers of the processes, by rank."""

    timeout: timedelta  # a property of Store

    def __init__(self, part: str, processes: Sequence[int]) -> None:
        super().__init__()
        self._launcher = open_store()
        self._part, self._processes = part, list(processes)

    def set(self, key: str, value: str | bytes) -> None:
        self._launcher.set(self._place(key), value.encode() if isinstance(value, str) else value)

    def get(self, key: str) -> bytes:
        return self._wait_for(key, time.monotonic() + self.timeout.total_seconds())

    def add(self, key: str, value: int) -> int:
        return self._launcher.increment(self._place(key), value)

    def check(self, keys: list[str]) -> bool:
        return all(self._launcher.find(self._place(key)) is not None for key in keys)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        end = time.monotonic() + (timeout or self.timeout).total_seconds()
        for key in keys:
            self._wait_for(key, end)

    def delete_key(self, key: str) -> bool:
        place = self._place(key)
        is_there = self._launcher.find(place) is not None
        self._launcher.remove(place)
        return is_there

    def compare_set(self, *_: Any) -> NoReturn:
        _refuse("compare_set")

    def num_keys(self) -> NoReturn:
        _refuse("num_keys")

    # Torch's C++ parts call some methods by other names.
    deleteKey, getNumKeys = delete_key, num_keys

    def clone(self) -> EpochStore:
        _opened.append(EpochStore(self._part, self._processes))
        return _opened[-1]

    def _place(self, key: str) -> str:
        """Returns dabkerun's key. A key of torch becomes one part of it, so no key is below another."""
        return f"{self._part}/{key.replace('%', '%25').replace('/', '%2F')}"

    def _wait_for(self, key: str, end: float) -> bytes:
        while True:
            left = max(0.0, end - time.monotonic())
            value = self._launcher.find(self._place(key), round(1000 * min(left, _CHECK_SECONDS)))
            if value is not None:
                return value
            if left == 0:
                raise TimedOutError(
                    f"torch.distributed: no rank has set '{key}' in the store in time; all ranks of the "
                    "epoch must make the same groups"
                )
            for rank, process in enumerate(self._processes):
                self._launcher.check_runs(
                    f"{_END}{process}", f"rank {rank}", "while others made a process group with it"
                )


def _refuse(call: str) -> NoReturn:
    raise NotImplementedError(
        f"the store that dabkerun serves to torch.distributed has no {call}; give the program a store of its "
        "own for it, such as torch.distributed.FileStore"
    )
