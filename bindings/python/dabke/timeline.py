"""The timeline of the running job, and the program's own spans in it."""

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
    """Starts the timeline of all ranks (docs/timeline.md) while the job runs.

    The call of one rank starts it on all ranks. If every rank calls, each must name the same path.

    Args:
        file_path: the file, which is created or replaced.
        mark_cycles: True to mark the cycles of the negotiation, as events of their own.

    Raises:
        InvalidArgumentError: the path is empty, or a timeline is already running.
        TransportError: the file cannot be written.
        NotInitializedError: this process is not in a job.
    """
    _core.start_timeline(os.fsdecode(file_path), mark_cycles)


def stop_timeline() -> None:
    """Stops the timeline; the file is then complete. Without a running timeline it does nothing.

    Raises:
        TransportError: the file could not be written.
        NotInitializedError: this process is not in a job.
    """
    _core.stop_timeline()


@contextlib.contextmanager
def annotate(name: str) -> Iterator[None]:
    """Records a span in the timeline, on the calling thread's row.

    Use it as ``with annotate("forward"): ...``, or as ``@annotate("forward")``. Outside a job, and without a
    running timeline, it does nothing.

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
_stepper: weakref.ref[Any] | None = None  # the optimizer whose steps are marked automatically
_own_steps = itertools.count()
_marked = 0


def marked_steps() -> int:
    """Returns how many steps this process has marked, by itself or by its optimizer."""
    return _marked


def mark_step(step: int) -> None:
    """Marks the end of a training step in the timeline. From then on, optimizers do not mark steps.

    Args:
        step: the number of the step.
    """
    global _marked, _program_marks
    _program_marks = True
    _core.mark_step(step)
    _marked += 1


def optimizer_stepped(optimizer: object) -> None:
    """Marks steps 0, 1, 2, ... of the first optimizer that steps, unless the program marks steps itself."""
    global _marked, _stepper
    if _program_marks:
        return
    stepper = None if _stepper is None else _stepper()
    if stepper is None:
        stepper, _stepper = optimizer, weakref.ref(optimizer)
    if stepper is optimizer and _core.is_initialized():
        _core.mark_step(next(_own_steps))
        _marked += 1
