"""The range of a call in PyTorch's profiler.

A range ends on another thread than the one that began it. The profiler shows such a range as asynchronous,
as those of torch's own backends: it has no place in the caller's stack.

A profiler that records shapes gets the shapes of the inputs. Such a range can end only on the thread that
began it, so newer versions of torch do not record its end.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from .. import profile_ranges

__all__ = ["Range", "is_on"]

try:
    from torch._C._profiler import _RecordFunctionFast
except ImportError:  # torch before 2.1
    _RecordFunctionFast = None  # type: ignore[assignment, misc]

is_on = torch._C._autograd._profiler_enabled

_ending: ThreadPoolExecutor | None = None
_lock = threading.Lock()


class Range:
    """A range that begins now. Any thread may end it."""

    def __init__(self, title: str, inputs: Sequence[torch.Tensor]) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._with_shapes: Any = None
        self._future: Any = None
        if profile_ranges.has_shapes():
            with contextlib.suppress(TypeError):  # a torch whose ranges have no inputs
                self._with_shapes = _RecordFunctionFast(title, list(inputs))
        if self._with_shapes is not None:
            self._with_shapes.__enter__()
        else:
            self._future = profile_ranges.begin(title)

    def end(self) -> None:
        """Ends the range, and returns when it has ended. Further calls have no effect."""
        with self._lock:  # another thread may be ending it now
            if self._with_shapes is None and self._future is None:
                return
        if threading.get_ident() == self._thread:
            with contextlib.suppress(RuntimeError):  # at the interpreter's exit no thread can begin
                _other_thread().submit(self._end).result()
        self._end()

    def _end(self) -> None:
        with self._lock:
            record, self._with_shapes = self._with_shapes, None
            if record is not None:
                record.__exit__(None, None, None)
            future, self._future = self._future, None
            if future is not None:
                profile_ranges.end(future)


def _other_thread() -> ThreadPoolExecutor:
    global _ending
    with _lock:
        if _ending is None:
            _ending = ThreadPoolExecutor(1, "dabke profile")
        return _ending
