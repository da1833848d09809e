"""Ends ranges of PyTorch's profiler, from any thread.

The profiler takes the end of a range only on a thread that has its state. Only PyTorch's C++ code can hand
that state over, as it does for functions of TorchScript. Such a function waits for a future here. When that
is complete, the function goes on, on a thread of PyTorch's pool, with the state of the thread that has
started it. No thread waits meanwhile.
"""

# No `from __future__ import annotations`: TorchScript reads the annotations.

import itertools
import warnings
from typing import Any

import torch

__all__ = ["EndOfRange"]

_numbers = itertools.count()
_records: dict[int, Any] = {}  # the ranges that have not ended
_scripted: Any = None  # the function in TorchScript; False if this version of torch or Python has none


def _leave(number: int) -> None:
    _records.pop(number).__exit__(None, None, None)


def _after(done: torch.jit.Future[int], number: int) -> int:
    torch.jit.wait(done)  # type: ignore[no-untyped-call]
    _leave(number)
    return number


def _start(done: torch.jit.Future[int], number: int):  # type: ignore[no-untyped-def]
    return torch.jit.fork(_after, done, number)  # type: ignore[no-untyped-call]


def _script() -> Any:
    global _scripted, _leave, _after
    if _scripted is None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # newer versions call TorchScript deprecated
                _leave = torch.jit.ignore(_leave)  # type: ignore[no-untyped-call]
                _after = torch.jit.script(_after)
                _scripted = torch.jit.script(_start)
        except Exception:
            _scripted = False
    return _scripted


class EndOfRange:
    """The end of a range, which this thread begins with it."""

    def __init__(self, record: Any) -> None:
        start = _script()
        self._number = next(_numbers)
        _records[self._number] = record
        record.__enter__()
        self._done: Any = torch.futures.Future() if start else None
        self._left = start(self._done, self._number) if start else None

    def come(self, is_waited_for: bool) -> None:
        """Ends the range. Called once. With `is_waited_for` it returns when the profiler has the end."""
        if self._left is None:
            _leave(self._number)
            return
        self._done.set_result(self._number)
        if is_waited_for:
            self._left.wait()
