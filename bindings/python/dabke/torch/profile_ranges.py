"""Ranges of PyTorch's profiler for pending operations: from their submission until they have completed.

The profiler takes the end of a range only on a thread that has its state. Torch gives that state to the
callback of a future that ends the range (``record_function._call_end_callbacks_on_future``).

The module works only while a profiler records. One thread then watches all operations, because they may
complete in another order than that of their submission.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
from typing import Any

import torch

from .. import _core

__all__ = ["begin", "end", "has_shapes", "is_recorded", "record"]

# The largest delay of a range's end while an earlier operation is pending.
_PAUSE_SECONDS = 0.0005

_lock = threading.Lock()
_under_way: list[tuple[_core.Handle, Any]] = []  # a handle, and the future whose completion ends the range
_watcher: threading.Thread | None = None
_ends = False

_stopping = threading.Lock()  # no range ends while the profiler stops
_open: dict[int, Any] = {}  # the futures of ranges that have not ended, by their ids
_has_shapes = False


def is_recorded() -> bool:
    return bool(torch._C._autograd._profiler_enabled())


def has_shapes() -> bool:
    """Returns True if the profiler that has started last records the shapes of inputs."""
    return _has_shapes


def begin(title: str) -> Any:
    """Begins a range. Returns a future for ``end``."""
    future: Any = torch.futures.Future()
    with torch.autograd.profiler.record_function(title) as range_:
        range_._call_end_callbacks_on_future(future)
    _open[id(future)] = future
    return future


def end(future: Any) -> None:
    """Ends a range, from any thread. Further calls have no effect."""
    with _stopping:
        if _open.pop(id(future), None) is not None:
            future.set_result(None)


def _follow_the_profiler() -> None:
    """Ends the open ranges before a profiler stops, which frees the memory into which an end is written."""
    profiler: Any = torch.autograd.profiler
    start, stop = profiler.profile._start_trace, profiler._disable_profiler

    @functools.wraps(start)
    def noted_start(self: Any) -> Any:
        global _has_shapes
        _has_shapes = bool(self.record_shapes)
        return start(self)

    @functools.wraps(stop)
    def stop_after_ends(*arguments: Any) -> Any:
        with _stopping:
            while _open:
                _open.popitem()[1].set_result(None)
            return stop(*arguments)

    profiler.profile._start_trace, profiler._disable_profiler = noted_start, stop_after_ends


_follow_the_profiler()


def record(handle: _core.Handle, title: str) -> None:
    """Records a range from now until the operation has completed, with success or failure."""
    global _watcher
    future = begin(title)
    with _lock:
        _under_way.append((handle, future))
        if _watcher is None and not _ends:
            _watcher = threading.Thread(target=_watch, name="dabke profile", daemon=True)
            _watcher.start()


def _watch() -> None:
    global _watcher
    while True:
        with _lock:
            is_done = [handle.poll() for handle, _ in _under_way]
            ended = [future for (_, future), done in zip(_under_way, is_done) if done]
            _under_way[:] = [each for each, done in zip(_under_way, is_done) if not done]
            if not _under_way or _ends:
                _watcher = None
            oldest = _under_way[0][0] if _watcher is not None else None
        for future in ended:
            end(future)
        if oldest is None:
            return
        with contextlib.suppress(Exception):  # the thread that waits for the result gets its error
            oldest.wait(_PAUSE_SECONDS)


@atexit.register
def _end() -> None:
    """Ends the watcher. After this hook the interpreter does not let Python threads run."""
    global _ends
    _ends = True
    watcher = _watcher
    if watcher is not None:
        watcher.join()
