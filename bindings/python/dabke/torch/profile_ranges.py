"""Ranges of PyTorch's profiler for pending operations: from their submission until they have completed.

The module works only while a profiler records. One thread then watches all operations, because they may
complete in another order than that of their submission.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from typing import Any

import torch

from .. import _core

__all__ = ["is_recorded", "record"]

# The largest delay of a range's end while an earlier operation is pending.
_PAUSE_SECONDS = 0.0005

_lock = threading.Lock()
_under_way: list[tuple[_core.Handle, Any]] = []  # a handle, and the future whose completion ends the range
_watcher: threading.Thread | None = None
_ends = False


def is_recorded() -> bool:
    return bool(torch._C._autograd._profiler_enabled())


def record(handle: _core.Handle, title: str) -> None:
    """Records a range from now until the operation has completed, with success or failure."""
    global _watcher
    future: Any = torch.futures.Future()
    with torch.autograd.profiler.record_function(title) as range_:
        range_._call_end_callbacks_on_future(future)
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
            future.set_result(None)
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
