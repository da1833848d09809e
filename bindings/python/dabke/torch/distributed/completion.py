"""The threads that complete a group's futures.

Each group has a thread for its collectives, which starts with the first future. All ranks make the same
collectives in the same order, so the first pending one never waits for a later one. Between groups it could,
and a recv may wait for any call after it. So a group has another thread for its messages, which completes
them in any order.

The threads end before the interpreter: at its exit the job is left, which completes every operation, and the
threads are joined.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
import weakref
from typing import Any

from ... import _core
from ...errors import DabkeError

__all__ = ["Completer"]

_running: set[threading.Thread] = set()
_all: weakref.WeakSet[Completer] = weakref.WeakSet()


# Pauses of the thread that waits for messages: short at first, for messages that follow at once.
_PAUSES_SECONDS = (0.0002, 0.01)


class Completer:
    """Completes Works, in the order in which they were added or, without `in_order`, in any order."""

    def __init__(self, in_order: bool = True) -> None:
        self._run = _complete if in_order else _complete_in_any_order
        self._works: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._is_started = False
        self._lock = threading.Lock()
        _all.add(self)

    def add(self, work: Any) -> None:
        """Adds a work, and keeps a reference to it until it has completed."""
        with self._lock:
            if not self._is_started:
                # A daemon: the interpreter waits for other threads before it calls the hook that ends this
                # one.
                thread = threading.Thread(
                    target=self._run, args=(self._works,), name="dabke futures", daemon=True
                )
                _running.add(thread)
                thread.start()
                self._is_started = True
            self._works.put(work)

    def end(self) -> None:
        """Lets the thread end after it has completed all added works. Does not wait for that."""
        with self._lock:
            if self._is_started:
                self._works.put(None)
                self._is_started = False
                self._works = queue.SimpleQueue()

    __del__ = end


def _complete(works: queue.SimpleQueue[Any]) -> None:
    while (work := works.get()) is not None:
        work.wait_quietly()
        work.complete_future()
        del work  # drops the reference before the wait for the next work
    _running.discard(threading.current_thread())


def _complete_in_any_order(works: queue.SimpleQueue[Any]) -> None:
    pending: list[Any] = []
    pause, longest = _PAUSES_SECONDS
    has_ended = False
    while pending or not has_ended:
        try:
            pending.append(works.get(timeout=pause if pending else None))
            pause = _PAUSES_SECONDS[0]
        except queue.Empty:
            pause = min(2 * pause, longest)
        has_ended = has_ended or None in pending
        pending = _still_pending(pending)
    _running.discard(threading.current_thread())


def _still_pending(works: list[Any]) -> list[Any]:
    """Completes the works that have run, and returns the others."""
    pending = []
    for work in works:
        if work is not None and not work.has_run():
            pending.append(work)
        elif work is not None:
            work.complete_future()
    return pending


@atexit.register
def _end_all() -> None:
    if not _running:
        return
    with contextlib.suppress(DabkeError):
        _core.shutdown()
    for completer in list(_all):
        completer.end()
    for thread in list(_running):
        thread.join()
