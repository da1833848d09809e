"""The rendezvous of one job's processes in a torch.distributed store, which may hold keys of earlier tries.

If a launcher restarts processes, the store outlives them, and its keys may come from processes that are gone.
The tries do not share a number, because each host's agent counts its own tries. So every arrival takes a
number that is new in this store. The members of one rendezvous exchange data under a key that other
rendezvous do not have.

1. Each member increments the counter of its own number. The count is its arrival, which is new.
2. Member 0 names the rendezvous by its own arrival. It answers each arrival that it finds with that name,
   also arrivals of processes that are gone.
3. A member that gets an answer acknowledges it, and keeps reading: a new member 0 may come, and answer again.
4. Once the newest arrival of every member has acknowledged, member 0 opens the rendezvous. All members go on
   with keys below its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..errors import TimedOutError

__all__ = ["StoreRendezvous"]

_TOP = "dabke/rendezvous"
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 0.1


class StoreRendezvous:
    """Keys below one name of the store, which only the living members of a job use.

    All members must call ``gather`` before any of them makes another rendezvous in the same store.
    """

    def __init__(self, store: Any, member: int, size: int, timeout_seconds: float) -> None:
        """Returns when all members have come.

        Raises:
            TimedOutError: a member did not come within `timeout_seconds`; the text names the missing members.
        """
        self._store, self._member, self._size = store, member, size
        self._timeout = timeout_seconds
        arrival = int(store.add(f"{_TOP}/arrivals/{member}", 1))
        self._name = self._open(arrival) if member == 0 else self._enter(arrival)

    def gather(self, step: str, mine: bytes) -> list[bytes]:
        """Returns the bytes of all members at this step, by their numbers. A step may be used only once."""
        self._store.set(f"{self._name}/{step}/{self._member}", mine)
        return [bytes(self._store.get(f"{self._name}/{step}/{other}")) for other in range(self._size)]

    def _open(self, arrival: int) -> str:
        name = f"{_TOP}/{arrival}"

        def missing() -> list[int]:
            return [member for member in range(1, self._size) if not self._has_entered(name, member)]

        self._wait(lambda: not missing(), lambda: f"members {missing()} did not come to the store")
        self._store.add(f"{name}/open", 1)
        return name

    def _has_entered(self, name: str, member: int) -> bool:
        """Returns True if the member's newest arrival has acknowledged; else answers it, each time again.

        An earlier member 0 that is about to end may have overwritten the answer.
        """
        arrival = f"{member}/{int(self._store.add(f'{_TOP}/arrivals/{member}', 0))}"
        if int(self._store.add(f"{name}/entered/{arrival}", 0)) > 0:
            return True
        self._store.set(f"{_TOP}/answers/{arrival}", name.encode())
        self._store.add(f"{_TOP}/answered/{arrival}", 1)
        return False

    def _enter(self, count: int) -> str:
        arrival = f"{self._member}/{count}"
        entered = ""

        def is_open() -> bool:
            nonlocal entered
            if int(self._store.add(f"{_TOP}/answered/{arrival}", 0)) == 0:
                return False
            name = bytes(self._store.get(f"{_TOP}/answers/{arrival}")).decode()
            if name != entered:
                self._store.add(f"{name}/entered/{arrival}", 1)
                entered = name
            return int(self._store.add(f"{name}/open", 0)) > 0

        self._wait(
            is_open,
            lambda: (
                "member 0 did not open the rendezvous" if entered else "member 0 did not come to the store"
            ),
        )
        return entered

    def _wait(self, is_done: Callable[[], bool], lacking: Callable[[], str]) -> None:
        end = time.monotonic() + self._timeout
        pause = _FIRST_PAUSE_SECONDS
        while not is_done():
            if time.monotonic() >= end:
                raise TimedOutError(
                    f"init: this is member {self._member} of {self._size}, and {lacking()} within "
                    f"{self._timeout:g} s; start all members, or raise the timeout"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
