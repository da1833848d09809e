"""The timeline of the running job, and labels of the program's own in it."""

from __future__ import annotations

import contextlib
import itertools
import os
import weakref
from collections.abc import Iterator
from typing import Any

from . import _core

__all__ = ["annotate", "mark_step", "start_timeline", "stop_timeline"]


def start_timeline(file_path: str | bytes | os.PathLike[Any], mark_cycles: bool = False) -> None:
    """Starts to write the timeline of all ranks (docs/timeline.md) while the job runs.

    One rank's call is for all; where every rank calls, each names the same path.

    Args:
        file_path: the file, which is made or replaced.
        mark_cycles: whether the cycles of the negotiation are in it, as events of their own.

    Raises:
        InvalidArgumentError: the path is empty, or a timeline is being written already.
        TransportError: the file cannot be written.
        NotInitializedError: there is no job.
    """
    _core.start_timeline(os.fsdecode(file_path), mark_cycles)


def stop_timeline() -> None:
    """Stops the timeline; the file is whole then. Where none is being written, it does nothing.

    Raises:
        TransportError: the file could not be written.
        NotInitializedError: there is no job.
    """
    _core.stop_timeline()


@contextlib.contextmanager
def annotate(name: str) -> Iterator[None]:
    """A span on the calling thread's row of the timeline: ``with annotate("forward"): ...``, or ``@annotate("forward")``.

    Outside a job, and while no timeline is written, it does nothing.

    Args:
        name: the text of the span.
    """
    recorded = _core.is_initialized()
    if recorded:
        _core.annotate_begin(name)
    try:
        yield
    finally:
        if recorded and _core.is_initialized():
            _core.annotate_end()


_program_marks = False
_stepper: weakref.ref[Any] | None = None  # the optimizer whose steps are marked
_own_steps = itertools.count()


def mark_step(step: int) -> None:
    """Marks the end of a training step in the timeline. From the first call on no optimizer marks steps any more.

    Args:
        step: the number of the step.
    """
    global _program_marks
    _program_marks = True
    _core.mark_step(step)


def optimizer_stepped(optimizer: object) -> None:
    """Marks the steps of a program that marks none itself: those of the optimizer that has stepped first, 0, 1, 2, ..."""
    global _stepper
    if _program_marks:
        return
    stepper = None if _stepper is None else _stepper()
    if stepper is None:
        stepper, _stepper = optimizer, weakref.ref(optimizer)
    if stepper is optimizer and _core.is_initialized():
        _core.mark_step(next(_own_steps))
