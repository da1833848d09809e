"""The monitored barrier: a barrier over the group's store, which names the members that do not come.

The members exchange keys `monitored_barrier/<n>/...`, where n counts the calls of a member:

1. Each member other than 0 counts `<its rank>` up, and waits for `end`.
2. Member 0 waits for the keys of the others, in the order of their ranks, until its time is over.
3. It sets `cause`: empty if all have come, and otherwise its error. Then it counts `end` up. With the next
   barrier it deletes the keys.

No operation of the runtime remains pending when a member does not come. The texts are those of Gloo.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from ...errors import TimedOutError

__all__ = ["MonitoredBarrier"]

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.0005, 0.02


class MonitoredBarrier:
    """The monitored barriers of one group."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._calls = 0

    def wait(self, timeout: timedelta, wait_all_ranks: bool) -> None:
        """Waits for all members.

        Raises:
            TimedOutError: the time was over before all members have come. On member 0 the text names the
                first of the missing members, or all with `wait_all_ranks`.
        """
        self._calls += 1
        if self._rank == 0:
            self._gather(timeout, wait_all_ranks)
        else:
            self._report(timeout)

    def _key(self, name: str | int, call: int | None = None) -> str:
        return f"monitored_barrier/{self._calls if call is None else call}/{name}"

    def _has(self, key: str, seconds: float) -> bool:
        """Returns True if the key is counted up within this time.

        It asks again and again, because a store that waits lets no other thread of this process in. The
        other members may wait for such a thread, in the barrier of another group. Stores before torch 2.0
        cannot say whether they have a key, and a wait of theirs that is cut short may disturb later answers.
        But every store can add 0 to a number.
        """
        end = time.monotonic() + seconds
        pause = _SHORTEST_PAUSE_SECONDS
        while self._store.add(key, 0) == 0:
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return True

    def _gather(self, timeout: timedelta, wait_all_ranks: bool) -> None:
        milliseconds = round(timeout.total_seconds() * 1000)
        if milliseconds <= 0:
            self._fail(f"[Rank 0]: Rank 0 timed out in monitoredBarrier after {milliseconds} ms.")
        end = time.monotonic() + timeout.total_seconds()
        missing = []
        for member in range(1, self._size):
            if not self._has(self._key(member), end - time.monotonic()):
                missing.append(member)
                if not wait_all_ranks:
                    break
        if missing:
            names = ", ".join(map(str, missing))
            which = f"Ranks {names}" if wait_all_ranks else f"Rank {names}"
            self._fail(f"[Rank 0]: {which} failed to pass monitoredBarrier in {milliseconds} ms")
        self._end("")
        self._forget()

    def _forget(self) -> None:
        """Deletes keys that all members have read: those of the others' arrival, and the end before."""
        for member in range(1, self._size):
            self._store.delete_key(self._key(member))
        for name in ("cause", "end"):
            self._store.delete_key(self._key(name, self._calls - 1))

    def _end(self, cause: str) -> None:
        self._store.set(self._key("cause"), cause)
        self._store.add(self._key("end"), 1)

    def _fail(self, text: str) -> None:
        self._end(text)
        raise TimedOutError(text)

    def _report(self, timeout: timedelta) -> None:
        self._store.add(self._key(self._rank), 1)
        has_ended = self._has(self._key("end"), timeout.total_seconds())
        cause = self._store.get(self._key("cause")).decode() if has_ended else "rank 0 did not answer in time"
        if cause:
            raise TimedOutError(
                f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting "
                f"for send/recv from rank 0. Please check rank 0 logs for faulty rank. The cause: {cause}"
            )
