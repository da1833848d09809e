"""The thread that completes a group's futures, in the order of the group's calls.

Each group has its own thread, which starts with the group's first future. In a group all ranks make the same
calls in the same order, so the first pending call never waits for a later call. Between groups it could.

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


class Completer:
    """Completes Works in the order in which they were added."""

    def __init__(self) -> None:
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
                    target=_complete, args=(self._works,), name="dabke futures", daemon=True
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
