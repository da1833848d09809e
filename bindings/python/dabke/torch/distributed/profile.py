"""The range of a call in PyTorch's profiler, with the shapes of its inputs.

A range ends on another thread than the one that began it (profile_end.py). The profiler shows such a range as
asynchronous, as those of torch's own backends: it has no place in the caller's stack.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch

from .profile_end import EndOfRange

__all__ = ["Range", "is_on"]

try:
    from torch._C._profiler import _RecordFunctionFast
except ImportError:  # torch before 2.1
    _RecordFunctionFast = None  # type: ignore[assignment, misc]

is_on = torch._C._autograd._profiler_enabled


class Range:
    """A range that begins now. Any thread may end it."""

    def __init__(self, title: str, inputs: Sequence[torch.Tensor]) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        record: Any
        try:
            record = _RecordFunctionFast(title, list(inputs))
        except TypeError:  # a torch whose ranges have no inputs
            record = torch.autograd.profiler.record_function(title)
        self._end: EndOfRange | None = EndOfRange(record)

    def end(self) -> None:
        """Ends the range. Further calls have no effect.

        On the thread that has begun it, returns when the profiler has the end: it may stop next.
        """
        with self._lock:
            end, self._end = self._end, None
        if end is not None:
            end.come(is_waited_for=threading.get_ident() == self._thread)
